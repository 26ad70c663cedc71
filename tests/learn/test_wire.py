"""The tester's own reading of the wire format agrees with the golden frames, and says where bytes
go wrong.
"""

import json
import struct
from pathlib import Path

import pytest

from zaichik.learn import layouts, wire
from zaichik.learn.wire import BadFrame
from zaichik_protocol.errors import ErrorCode
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"
GOLDEN = json.loads((VECTORS / "frames.json").read_text(encoding="utf-8"))


def test_it_knows_the_same_frames_and_fields_as_the_declaration():
    declared = {cls.TYPE: cls for cls in (*REQUESTS, *REPLIES, *EVENTS)}
    assert {number: cls.__name__ for number, cls in declared.items()} == {
        n: name for n, (name, _) in layouts.LAYOUTS.items()
    }
    for number, cls in declared.items():
        names = [field.name for field in cls.FIELDS]
        assert [name for name, _ in layouts.fields_of(number, 0xFF)] == names


def test_it_knows_the_same_errors():
    assert {code.value: code.name for code in ErrorCode} == layouts.ERRORS


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_frames_are_taken_apart_and_put_together_again(case):
    data = bytes.fromhex(case["hex"].replace(" ", ""))
    frame = wire.parse(data)
    assert wire.frame_size(data) == len(data)
    assert b"".join(span.raw for span in frame.spans) == data
    assert [span.at for span in frame.spans] == [
        sum(len(s.raw) for s in frame.spans[:i]) for i in range(len(frame.spans))
    ]
    body = {span.name: span.value for span in frame.spans[5:]}
    assert wire.encode(frame.name, frame_id=frame.id, flags=frame.flags, **body) == data


PUBLISH = wire.encode("Publish", frame_id=3, topic="t", batch=[(b"k", b"hello")])


@pytest.mark.parametrize("size", range(12, len(PUBLISH)))
def test_a_frame_that_ends_early_is_wrong_where_it_ends(size):
    with pytest.raises(BadFrame) as caught:
        wire.parse(PUBLISH[:size])
    assert 12 <= caught.value.at <= size


@pytest.mark.parametrize(
    ("data", "at", "problem"),
    [
        (wire.encode("Ping", frame_id=1, value=5) + b"!", 20, "has 1 more byte"),
        (wire.encode("Ping", frame_id=1, zero=3), 6, "must be 0"),
        (wire.raw_frame(0x83, b"\0" * 7, frame_id=1), 12, "needs 8 bytes"),
        (wire.raw_frame(0x43, b"\1\0\1\0\xff", frame_id=0), 14, "not UTF-8"),
        (wire.raw_frame(0x40, bytes(16) + struct.pack("<I", 0), frame_id=2), 28, "has no messages"),
        (wire.raw_frame(0x40, bytes(16) + struct.pack("<I", 9), frame_id=2), 28, "too short"),
        (
            wire.raw_frame(0x40, bytes(16) + struct.pack("<I4i", 1, 1, 1, 0, 0) + b"k", frame_id=2),
            28,
            "begin at 0",
        ),
        (
            wire.raw_frame(0x40, bytes(16) + struct.pack("<I4i", 1, 0, 1, 0, 2) + b"k", frame_id=2),
            28,
            "but has 1",
        ),
    ],
)
def test_bad_bytes_are_told_with_their_place(data, at, problem):
    with pytest.raises(BadFrame, match=problem) as caught:
        wire.parse(data)
    assert caught.value.at == at


@pytest.mark.parametrize("deltas", [[0], [1, 2], [0, 0], [0, 1, 2], []])
def test_deltas_that_do_not_fit_their_messages_are_told(deltas):
    batch = [(b"", b"a"), (b"", b"b")]
    data = wire.encode(
        "Messages", frame_id=2, flags=1, base=10, accepted_us=0, deltas=deltas, batch=batch
    )
    with pytest.raises(BadFrame, match="one for each message") as caught:
        wire.parse(data)
    assert (caught.value.at, caught.value.field) == (28, "deltas")


def test_of_a_bad_frame_the_fields_before_the_trouble_are_kept():
    with pytest.raises(BadFrame) as caught:
        wire.parse(wire.raw_frame(0x82, b"\1" + bytes(5), frame_id=7))
    assert (caught.value.field, caught.value.so_far["id"], caught.value.so_far["created"]) == (
        "epoch",
        7,
        1,
    )


def test_a_length_is_judged_as_soon_as_it_is_there():
    assert wire.frame_size(b"\x08\0\0") is None
    assert wire.frame_size(b"\x08\0\0\0") == 12
    for length in (7, 2**31):
        with pytest.raises(BadFrame):
            wire.frame_size(struct.pack("<I", length))


def test_a_misspelt_field_is_an_error_of_the_check():
    with pytest.raises(TypeError, match="Ping has no field valu"):
        wire.encode("Ping", frame_id=1, valu=3)


def test_holes_are_read():
    data = wire.encode(
        "Messages",
        frame_id=2,
        flags=1,
        base=10,
        accepted_us=0,
        deltas=[0, 5],
        batch=[(b"", b"a"), (b"", b"b")],
    )
    assert [message.offset for message in wire.parse(data).messages] == [10, 15]
