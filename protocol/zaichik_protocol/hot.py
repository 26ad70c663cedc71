"""Plain `struct` twins of the frames that messages travel in.

construct reads a field at a time through several Python calls, which takes longer than all the rest of the
broker's work on a frame. So the few frames that come once per batch have a second, plain encoder and decoder
here, many times as fast (`python benchmarks/core.py` measures how many). The declaration in `frames` stays the
reference:

* A twin knows the well-formed case only. Whatever it stumbles over (it raises `struct.error` or `ValueError`)
  is read again by the declaration, which finds the right error. So both accept and reject the same bytes.
* A property test compares the two.

No slice of bytes begins after its end (hence each `min`): in Python it is empty, but compiled it is an error.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from struct import Struct
from typing import Any

from zaichik_protocol.batch import Batch, bitmap_size
from zaichik_protocol.frames import Commit, Committed, Frame, Messages, Publish, Published
from zaichik_protocol.layout import MIN_LENGTH

HEADER = Struct("<IBBHI")  # length, type, flags, zero, id

Pieces = tuple[bytes, ...]  # of a frame; a batch is a piece of its own, so that nobody need copy it to send it
Encoder = Callable[[Any], Pieces]
# Of a frame's id and the bytes of its body, which lie in `data` from `at` to `end`. They are for frames without a
# flag bit set, and for the answer to a durable publish: the rare others are the declaration's business.
Decoder = Callable[[int, bytes, int, int], Frame]

_PUBLISH = Struct("<QQH")  # producer, sequence, length of the topic's name
_PUBLISHED = Struct("<QIII")  # first_offset, stored, compacted, subscribers
_MESSAGES = Struct("<Qq")  # base, accepted_us


def _header(frame: Frame, body: int, bits: int = 0) -> bytes:
    return HEADER.pack(MIN_LENGTH + body, frame.TYPE, bits, 0, frame.id)


def _encode_publish(frame: Publish) -> Pieces:
    topic, batch = frame.topic.encode(), frame.batch.data
    prefix = _PUBLISH.pack(frame.producer, frame.sequence, len(topic)) + topic
    return _header(frame, len(prefix) + len(batch)) + prefix, batch


def _decode_publish(frame_id: int, data: bytes, at: int, end: int) -> Publish:
    producer, sequence, size = _PUBLISH.unpack_from(data, at)
    batch_at = at + _PUBLISH.size + size
    topic = data[at + _PUBLISH.size : batch_at].decode()
    batch = Batch.parse(data[min(batch_at, end) : end])
    return Publish(frame_id, topic, batch, producer=producer, sequence=sequence)


def _encode_published(frame: Published) -> Pieces:
    if len(frame.dropped) != bitmap_size(frame.stored, frame.compacted):
        raise ValueError("not the bitmap expected")
    body = _PUBLISHED.pack(frame.first_offset, frame.stored, frame.compacted, frame.subscribers) + frame.dropped
    return (_header(frame, len(body), frame.duplicate | frame.durable << 1) + body,)


def _decode_published(frame_id: int, data: bytes, at: int, end: int, *, durable: bool = False) -> Published:
    body = data[at:end]
    first_offset, stored, compacted, subscribers = _PUBLISHED.unpack_from(body)
    dropped = body[_PUBLISHED.size :]
    if len(dropped) != bitmap_size(stored, compacted):
        raise ValueError("not the bitmap expected")
    return Published(frame_id, first_offset, stored, compacted, subscribers, dropped, durable=durable)


def _integers(cls: type[Frame], names: Sequence[str], formats: str) -> tuple[Encoder, Decoder]:
    """The twins of a frame that is nothing but integers."""
    whole, body = Struct("<IBBHI" + formats), Struct("<" + formats)
    values = attrgetter("id", *names)

    def encode(frame: Frame) -> Pieces:
        return (whole.pack(MIN_LENGTH + body.size, cls.TYPE, 0, 0, *values(frame)),)

    def decode(frame_id: int, data: bytes, at: int, end: int) -> Frame:
        return cls(frame_id, *body.unpack(data[at:end]))

    return encode, decode


def _encode_messages(frame: Messages) -> Pieces:
    if frame.holes or frame.redelivered or frame.deltas:
        raise ValueError("left to the declaration")
    batch = frame.batch.data
    return _header(frame, _MESSAGES.size + len(batch)) + _MESSAGES.pack(frame.base, frame.accepted_us), batch


def _decode_messages(frame_id: int, data: bytes, at: int, end: int) -> Messages:
    base, accepted_us = _MESSAGES.unpack_from(data, at)
    return Messages(frame_id, base, accepted_us, Batch.parse(data[min(at + _MESSAGES.size, end) : end]))


TWINS: dict[type[Frame], tuple[Encoder, Decoder]] = {
    Publish: (_encode_publish, _decode_publish),
    Published: (_encode_published, _decode_published),
    Commit: _integers(Commit, ("subscription", "next"), "IQ"),
    Committed: _integers(Committed, ("committed",), "Q"),
    Messages: (_encode_messages, _decode_messages),
}
ENCODERS = {cls: encode for cls, (encode, _) in TWINS.items()}
DECODERS = {cls: decode for cls, (_, decode) in TWINS.items()}
FLAGGED: dict[tuple[type[Frame], int], Decoder] = {
    (Published, Published.FLAGS["durable"]): partial(_decode_published, durable=True)
}
