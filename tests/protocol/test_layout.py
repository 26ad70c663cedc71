from dataclasses import fields

import pytest
from construct import Terminated
from wire_examples import ALL_FRAMES

from zaichik_protocol import Hello, encode, hot
from zaichik_protocol.layout import (
    BATCH_COLUMNS,
    HEADER,
    HEADER_SIZE,
    LENGTH_SIZE,
    MIN_LENGTH,
)


@pytest.mark.parametrize("cls", ALL_FRAMES)
def test_body_fields_and_attributes_are_the_same(cls):
    """Id and flags are the header's; what else a frame knows lies in its body, and the other way round."""
    in_body = {field.name for field in cls.BODY.subcons if field.name}
    in_header = {"id", *cls.FLAGS}
    assert in_body == {field.name for field in fields(cls)} - in_header


@pytest.mark.parametrize("layout", [*(cls.BODY for cls in ALL_FRAMES), BATCH_COLUMNS])
def test_nothing_may_follow_the_last_field(layout):
    assert layout.subcons[-1] is Terminated


@pytest.mark.parametrize("layout", [HEADER, BATCH_COLUMNS, *(cls.BODY for cls in ALL_FRAMES)])
def test_every_field_is_documented(layout):
    assert all(field.docs for field in layout.subcons if field.name)


def test_the_header_is_twelve_bytes_of_which_length_counts_eight():
    assert (HEADER_SIZE, LENGTH_SIZE, MIN_LENGTH) == (12, 4, 8)


def test_the_plain_header_is_the_declared_one():
    values = (0x01020304, 0x05, 0x06, 0x0708, 0x090A0B0C)
    names = [field.name for field in HEADER.subcons]
    assert hot.HEADER.pack(*values) == HEADER.build(dict(zip(names, values, strict=True)))
    assert hot.HEADER.size == HEADER_SIZE


def test_a_hello_begins_with_the_magic():
    assert Hello.BODY.subcons[0].name == "magic"
    assert encode(Hello(1))[12:16] == b"ZAIK"
