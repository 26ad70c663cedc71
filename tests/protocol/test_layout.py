from dataclasses import fields

from offenders import each
from wire_examples import ALL_FRAMES

from zaichik_protocol import Hello, declaration, derived, encode
from zaichik_protocol.layout import HEADER, HEADER_SIZE, LENGTH_SIZE, MIN_LENGTH


@each("cls", ALL_FRAMES)
def test_body_fields_and_attributes_are_the_same(cls):
    """Id and flags are the header's; what else a frame knows lies in its body, and the other way
    round.
    """
    in_body = {field.name for field in cls.FIELDS}
    in_header = {"id", *cls.FLAGS}
    assert in_body == {field.name for field in fields(cls)} - in_header


@each("fields_of_it", [HEADER, *(cls.FIELDS for cls in ALL_FRAMES)])
def test_every_field_is_documented(fields_of_it):
    assert all(field.meaning for field in fields_of_it)


@each("cls", ALL_FRAMES)
def test_what_is_there_only_with_a_flag_has_a_default_without_it(cls):
    defaults = {item.name: item.default for item in fields(cls)}
    for field in cls.FIELDS:
        if field.only:
            assert field.only in cls.FLAGS
            assert defaults[field.name] in (0, ())


def test_the_header_is_twelve_bytes_of_which_length_counts_eight():
    assert (HEADER_SIZE, LENGTH_SIZE, MIN_LENGTH) == (12, 4, 8)


def test_the_derived_header_is_the_declared_one():
    """Its type and its flags are read as one number."""
    values = (0x01020304, 0x05, 0x06, 0x0708, 0x090A0B0C)
    names = [field.name for field in HEADER]
    declared = declaration.HEADER.build(dict(zip(names, values, strict=True)))
    assert derived.HEADER.unpack(declared) == (0x01020304, 0x0605, 0x0708, 0x090A0B0C)
    assert derived.HEADER.size == len(declared) == HEADER_SIZE


def test_a_hello_begins_with_the_magic():
    assert Hello.FIELDS[0].name == "magic"
    assert encode(Hello(1))[12:16] == b"ZAIK"
