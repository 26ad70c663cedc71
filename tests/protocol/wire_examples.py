"""What the tests of the protocol share: the vectors, frames by the million, and bytes that are
nearly frames.
"""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from zaichik_protocol import (
    EVENTS,
    NEED_DATA,
    REPLIES,
    REQUESTS,
    Batch,
    Frame,
    FrameDecoder,
    Messages,
    ProtocolError,
    Published,
    encode,
    frames,
)
from zaichik_protocol.layout import NUMBERS, TEXT, Integer

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "protocol" / "vectors"
ALL_FRAMES = REQUESTS + REPLIES + EVENTS
LARGEST = 2**32 - 1

# No deadlines: machines differ. As many examples as one who waits for the tests will bear.
PROPERTY = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
THOROUGH = settings(PROPERTY, max_examples=150)


# -- vectors -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Golden:
    name: str
    frame: Frame
    data: bytes


@dataclass(frozen=True)
class Invalid:
    name: str
    receiver: str
    hello_done: bool
    data: bytes
    code: str
    field: str

    def decoder(self) -> FrameDecoder:
        if self.receiver == "client":
            return FrameDecoder.for_client()
        decoder = FrameDecoder.for_broker()
        if self.hello_done:
            decoder.greeted(max_frame=1_179_648)
        return decoder


def load(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def from_json(name, value):
    match name:
        case "batch":
            return Batch.of(
                [(bytes.fromhex(key), bytes.fromhex(payload)) for key, payload in value]
            )
        case "settings":
            return tuple((setting, number) for setting, number in value)
        case "deltas" | "late" | "offsets":
            return tuple(value)
        case "tickets" if isinstance(value, list):
            return tuple(value)
        case "dropped" | "json" | "key":
            return bytes.fromhex(value)
        case _:
            return value


def golden_of(case):
    values = {name: from_json(name, value) for name, value in case["fields"].items()}
    return Golden(
        case["name"], getattr(frames, case["frame"])(**values), bytes.fromhex(case["hex"])
    )


GOLDEN = [golden_of(case) for case in load("frames.json")]
INVALID = [
    Invalid(data=bytes.fromhex(case["hex"]), **{key: case[key] for key in case.keys() - {"hex"}})
    for case in load("invalid.json")
]


def by_name(case):
    return case.name.replace(" ", "-")


# -- reading -------------------------------------------------------------------------------------


def any_decoder():
    return FrameDecoder(ALL_FRAMES, max_frame=LARGEST)


def all_frames(decoder):
    """Every frame the decoder has, until it needs data."""
    found = []
    while (frame := decoder.next_frame()) is not NEED_DATA:
        found.append(frame)
    return found


def outcome(call, *args):
    """What a call returns, or what its ProtocolError says: two outcomes can be compared."""
    try:
        return call(*args)
    except ProtocolError as error:
        return error.code, error.field, error.message, error.request_id, error.request_type


# -- frames by the million: from the declaration's own types and ranges --------------------------

batches = st.lists(
    st.tuples(st.binary(max_size=6), st.binary(max_size=12)), min_size=1, max_size=8
).map(Batch.of)
texts = st.text(max_size=12)


def integers(letter):
    bits = 8 * struct.calcsize("<" + letter)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if letter == "q" else (0, 2**bits - 1)
    return st.sampled_from([low, high]) | st.integers(low, high)


def values_of(field):
    if field.kind is TEXT:
        return texts
    if isinstance(field.kind, Integer):
        return integers(field.kind.letter)
    if field.kind is NUMBERS:
        return st.lists(integers("Q"), max_size=5).map(tuple)
    return {
        "batch": batches,
        "settings": st.lists(st.tuples(integers("B"), integers("Q")), max_size=5).map(tuple),
        "json": st.binary(max_size=12),
        "key": st.binary(max_size=12),
        "dropped": st.just(b""),
        "deltas": st.just(()),
    }[field.name]


@st.composite
def frames_of(draw, cls):
    values = {field.name: draw(values_of(field)) for field in cls.FIELDS if field.name != "magic"}
    values |= {name: draw(st.booleans()) for name in cls.FLAGS}
    if cls is Messages and values["holes"]:
        values["deltas"] = tuple(draw(integers("I")) for _ in range(values["batch"].count))
    for field in cls.FIELDS:
        if field.only and not values[field.only]:
            values[field.name] = type(values[field.name])()
    if cls is Published:
        values["compacted"] = draw(st.integers(0, 20))
        if values["compacted"]:
            values["stored"] = draw(st.integers(0, 20))
            size = (values["stored"] + values["compacted"] + 7) // 8
            values["dropped"] = draw(st.binary(min_size=size, max_size=size))
    return cls(id=draw(integers("I")), **values)


def any_frame(classes=ALL_FRAMES):
    return st.sampled_from(classes).flatmap(frames_of)


# -- nearly frames -------------------------------------------------------------------------------


@st.composite
def damaged(draw, sound):
    """These bytes with a few of them changed, inserted or removed."""
    data = bytearray(draw(sound))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.integers(0, 4))
        data[at : at + gone] = draw(st.binary(max_size=4) | st.just(b"\xff" * gone))
    return bytes(data)


def with_right_length(data):
    """The same bytes as a frame: of a whole header at least, and as long as it says."""
    data = data.ljust(12, b"\0")
    return struct.pack("<I", len(data) - 4) + data[4:]


streams = st.lists(any_frame(), max_size=4).map(lambda several: b"".join(map(encode, several)))


def nearly_frames(classes=ALL_FRAMES):
    """Frames whose length is right and whose header and body mostly are not."""
    return damaged(any_frame(classes).map(encode)).map(with_right_length)
