from dataclasses import fields

import pytest
from offenders import each
from wire_examples import ALL_FRAMES

import zaichik_protocol
from zaichik_protocol import (
    EVENTS,
    REPLIES,
    REQUESTS,
    Close,
    Error,
    Frame,
    Hello,
    Ping,
    Pong,
    frames,
)


def test_every_frame_class_is_a_request_a_reply_or_an_event():
    declared = {
        value
        for value in vars(frames).values()
        if isinstance(value, type) and issubclass(value, Frame) and value is not Frame
    }
    assert declared == set(ALL_FRAMES)
    assert len(ALL_FRAMES) == len(declared)


def test_types_are_unique():
    assert len({cls.TYPE for cls in ALL_FRAMES}) == len(ALL_FRAMES)


def test_requests_are_numbered_from_1():
    assert [cls.TYPE for cls in REQUESTS] == list(range(1, 16))


def test_a_reply_is_its_request_with_the_top_bit_set():
    assert [cls.TYPE for cls in REPLIES] == [0x80 | cls.TYPE for cls in REQUESTS] + [Error.TYPE]


def test_events_are_numbered_from_0x40():
    assert [cls.TYPE for cls in EVENTS] == list(range(0x40, 0x40 + len(EVENTS)))


@each("cls", ALL_FRAMES)
def test_flags_are_single_different_bits(cls):
    bits = list(cls.FLAGS.values())
    assert len(set(bits)) == len(bits)
    assert all(bit.bit_count() == 1 and bit < 256 for bit in bits)


@each("cls", ALL_FRAMES)
def test_a_flag_is_an_attribute_that_is_off_unless_set(cls):
    defaults = {field.name: field.default for field in fields(cls)}
    assert all(defaults[name] is False for name in cls.FLAGS)


def test_frames_of_one_kind_are_equal_if_their_fields_are():
    assert Ping(1, 2) == Ping(1, 2)
    assert Ping(1, 2) != Ping(1, 3)
    assert Ping(1, 2) != Pong(1, 2)


def test_a_frame_has_nothing_that_is_not_declared():
    with pytest.raises(AttributeError):
        Close(1).sequence = 2


@each("cls", ALL_FRAMES)
def test_a_frame_is_told_in_a_sentence(cls):
    assert cls.__doc__
    assert not cls.__doc__.startswith(
        cls.__name__
    )  # dataclass writes a signature where there is no text


def test_the_package_offers_every_frame_and_whatever_else_it_lists():
    assert {cls.__name__ for cls in ALL_FRAMES} <= set(zaichik_protocol.__all__)
    assert all(hasattr(zaichik_protocol, name) for name in zaichik_protocol.__all__)


def test_a_secret_is_in_no_repr():
    assert "Canary" not in repr(Hello(1, auth=2, user="ana", secret="Canary"))
