import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_examples import ALL_FRAMES, GOLDEN, INVALID, PROPERTY, by_name, damaged, streams

from zaichik.base.counted import counted
from zaichik.cli.dissection import dissect
from zaichik_protocol import Batch, Close, Commit, Ping, Publish, Unsubscribe, encode

every_golden = pytest.mark.parametrize("golden", GOLDEN, ids=by_name)
GLUED = b"".join(golden.data for golden in GOLDEN)


def problems(data):
    return [field.problem for field in dissect(data) if field.problem]


def invalid(name):
    return next(case.data for case in INVALID if case.name == name)


@every_golden
def test_the_fields_of_a_frame_are_all_of_its_bytes(golden):
    fields = list(dissect(golden.data))
    assert b"".join(field.data for field in fields) == golden.data
    assert all(golden.data[field.offset :].startswith(field.data) for field in fields)
    assert all(field.data and field.meaning and not field.problem for field in fields)
    assert {field.frame for field in fields} == {type(golden.frame).__name__}


@every_golden
def test_fields_have_the_values_of_the_frame(golden):
    for field in dissect(golden.data):
        is_column = field.name in {"key_offsets", "payload_offsets", "count"}
        if is_column and hasattr(golden.frame, "batch"):
            expected = getattr(golden.frame.batch, field.name)
        elif field.name in {"key_bytes", "payload_bytes"}:
            expected = b"".join(getattr(golden.frame.batch, field.name.replace("_bytes", "s"))())
        else:
            expected = getattr(golden.frame, field.name, None)
        if isinstance(expected, str):
            expected = expected.encode()
        if field.name == "settings":
            assert tuple((item.setting, item.value) for item in field.value) == expected
        elif isinstance(expected, tuple):
            assert tuple(field.value) == expected
        elif expected is not None:
            assert field.value == expected


def test_frames_are_dissected_one_after_the_other():
    fields = list(dissect(GLUED))
    assert b"".join(field.data for field in fields) == GLUED
    assert [field.frame for field in fields if field.name == "length"] == [
        type(golden.frame).__name__ for golden in GOLDEN
    ]


@every_golden
def test_every_cut_is_named(golden):
    """However a frame is cut, all bytes are shown and the last line says that some are missing."""
    for size in range(1, len(golden.data)):
        fields = list(dissect(golden.data[:size]))
        assert b"".join(field.data for field in fields) == golden.data[:size]
        if size < 12:
            assert "missing" in fields[-1].problem or "cut" in fields[-1].problem
        else:
            assert fields[-1].name == "cut"
            missing = counted(len(golden.data) - size, "byte")
            assert fields[-1].problem == f"the frame is cut here: {missing} missing"


def test_a_cut_field_is_named():
    fields = {field.name: field for field in dissect(encode(Commit(1, 2, 3))[:20])}
    assert fields["subscription"].value == 2
    assert fields["next"].problem.startswith("next is wrong or cut: ")
    assert fields["next"].data == b"\x03\x00\x00\x00"


def test_a_missing_field_is_named():
    assert problems(encode(Commit(1, 2, 3))[:16])[0] == "next is missing"


def test_no_bytes_give_no_fields():
    assert list(dissect(b"")) == []


def test_an_unknown_type_is_named_and_its_body_shown():
    fields = list(dissect(struct.pack("<IBBHI", 10, 0x3F, 0, 0, 1) + b"ab" + encode(Close(2))))
    assert [field.frame for field in fields if field.name == "length"] == ["unknown", "Close"]
    body = fields[5]
    assert (body.data, body.problem) == (b"ab", "no frame has type 0x3f")


def test_a_length_less_than_a_header_ends_it():
    data = invalid("length one short of a header") + b"\0" + encode(Close(2))
    fields = list(dissect(data))
    assert fields[-1].problem == "length 7 is less than a header's 8"
    assert fields[-1].offset == 12


@pytest.mark.parametrize("frame", [Close(1), Ping(1), Unsubscribe(1, 2)])
def test_bytes_after_the_last_field_are_named_and_the_next_frame_goes_on(frame):
    longer = bytearray(encode(frame) + b"abc")
    longer[0] += 3
    fields = list(dissect(bytes(longer) + encode(Ping(9))))
    rest = next(field for field in fields if field.problem)
    assert (rest.name, rest.data, rest.problem) == ("rest", b"abc", "bytes after the last field")
    assert (fields[-1].frame, fields[-1].offset) == ("Ping", len(longer) + 12)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("an empty batch", "count is missing"),
        ("a batch that ends inside its count", "count is wrong or cut: "),
        ("a batch that ends inside its offsets", "payload_offsets is wrong or cut: "),
        ("a batch that counts 4294967295 messages", "key_offsets is wrong or cut: "),
        ("key offsets that end below 0", "key_bytes is wrong or cut: "),
        ("payload offsets that end beyond the bytes", "payload_bytes is wrong or cut: "),
        ("a byte after the payload bytes", "bytes after the last field"),
        ("Hello with another magic", "magic is wrong or cut: "),
        ("Publish that ends inside its topic", "topic is wrong or cut: "),
    ],
)
def test_lengths_that_do_not_add_up_are_named(name, problem):
    [found] = problems(invalid(name))
    assert found.startswith(problem)


def test_empty_columns_are_left_out():
    names = [field.name for field in dissect(encode(Publish(1, "t", Batch.of([(b"", b"p")]))))]
    assert names[-4:] == ["count", "key_offsets", "payload_offsets", "payload_bytes"]


@PROPERTY
@given(st.binary(max_size=64) | damaged(streams))
def test_any_bytes_can_be_dissected(data):
    """Fields come in order and without gaps, whatever the bytes are."""
    end = 0
    for field in dissect(data):
        assert field.offset == end
        end += len(field.data)
        assert data[field.offset : end] == field.data
    assert end <= len(data)


@pytest.mark.parametrize("case", [case for case in INVALID if case.hello_done], ids=by_name)
def test_frames_the_codec_refuses_are_never_shown_as_valid(case):
    """But for what is only wrong for the one who receives it: a type it does not take, a length
    beyond its limit.
    """
    known = case.data[4:5] and case.data[4] in {cls.TYPE for cls in ALL_FRAMES}
    only_here = known and (
        case.field == "type" or case.code in {"FRAME_TOO_LARGE", "HELLO_REQUIRED"}
    )
    assert problems(case.data) or only_here
