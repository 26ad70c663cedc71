"""Plain `struct` twins of the frames that messages travel in.

construct reads a field at a time through several Python calls, which takes longer than all the rest of the
broker's work on a frame. So the few frames that come once a batch have a second, plain reading and writing
here, many times as fast (`python benchmarks/core.py` tells how many). The declaration in `frames` stays the
reference:

* A twin knows the well-formed case only. Whatever it stumbles over (it raises `struct.error` or `ValueError`)
  is read again by the declaration, which finds the right error. So both accept and reject alike.
* A property test holds the two against each other.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from zaichik_protocol.batch import Batch, bitmap_size
from zaichik_protocol.frames import Commit, Committed, Frame, Messages, Publish, Published

HEADER = Struct("<IBBHI")  # length, type, flags, zero, id
_AFTER_LENGTH = HEADER.size - 4

_PUBLISH = Struct("<QQH")  # producer, sequence, length of the topic's name
_PUBLISHED = Struct("<QIII")  # first_offset, stored, compacted, subscribers
_COMMIT = Struct("<IQ")  # subscription, next
_COMMITTED = Struct("<Q")  # committed
_MESSAGES = Struct("<Qq")  # base, accepted_us


def _header(frame: Frame, body: int, bits: int = 0) -> bytes:
    return HEADER.pack(_AFTER_LENGTH + body, frame.TYPE, bits, 0, frame.id)


def _encode_publish(frame: Publish) -> bytes:
    topic, batch = frame.topic.encode(), frame.batch.data
    prefix = _PUBLISH.pack(frame.producer, frame.sequence, len(topic)) + topic
    return b"".join((_header(frame, len(prefix) + len(batch)), prefix, batch))


def _decode_publish(frame_id: int, data: bytes) -> Publish:
    producer, sequence, size = _PUBLISH.unpack_from(data, HEADER.size)
    topic_at = HEADER.size + _PUBLISH.size
    topic = data[topic_at : topic_at + size].decode()
    batch = Batch.parse(data[topic_at + size :])
    return Publish(frame_id, topic, batch, producer=producer, sequence=sequence)


def _encode_published(frame: Published) -> bytes:
    if len(frame.dropped) != bitmap_size(frame.stored, frame.compacted):
        raise ValueError("not the bitmap expected")
    body = _PUBLISHED.pack(frame.first_offset, frame.stored, frame.compacted, frame.subscribers) + frame.dropped
    return _header(frame, len(body), frame.duplicate) + body


def _decode_published(frame_id: int, data: bytes) -> Published:
    first_offset, stored, compacted, subscribers = _PUBLISHED.unpack_from(data, HEADER.size)
    dropped = data[HEADER.size + _PUBLISHED.size :]
    if len(dropped) != bitmap_size(stored, compacted):
        raise ValueError("not the bitmap expected")
    return Published(frame_id, first_offset, stored, compacted, subscribers, dropped)


def _encode_commit(frame: Commit) -> bytes:
    return _header(frame, _COMMIT.size) + _COMMIT.pack(frame.subscription, frame.next)


def _decode_commit(frame_id: int, data: bytes) -> Commit:
    return Commit(frame_id, *_exactly(_COMMIT, data))


def _encode_committed(frame: Committed) -> bytes:
    return _header(frame, _COMMITTED.size) + _COMMITTED.pack(frame.committed)


def _decode_committed(frame_id: int, data: bytes) -> Committed:
    return Committed(frame_id, *_exactly(_COMMITTED, data))


def _encode_messages(frame: Messages) -> bytes:
    if frame.holes or frame.redelivered or frame.deltas:
        raise ValueError("left to the declaration")
    batch = frame.batch.data
    header = _header(frame, _MESSAGES.size + len(batch))
    return b"".join((header, _MESSAGES.pack(frame.base, frame.accepted_us), batch))


def _decode_messages(frame_id: int, data: bytes) -> Messages:
    base, accepted_us = _MESSAGES.unpack_from(data, HEADER.size)
    return Messages(frame_id, base, accepted_us, Batch.parse(data[HEADER.size + _MESSAGES.size :]))


def _exactly(layout: Struct, data: bytes) -> tuple[Any, ...]:
    """The body's values, if the body is these fields and nothing more."""
    if len(data) != HEADER.size + layout.size:
        raise ValueError("not the length expected")
    return layout.unpack_from(data, HEADER.size)


ENCODERS: dict[type[Frame], Callable[[Any], bytes]] = {
    Publish: _encode_publish,
    Published: _encode_published,
    Commit: _encode_commit,
    Committed: _encode_committed,
    Messages: _encode_messages,
}

# Only for frames without a flag bit set: the rare others are the declaration's business.
DECODERS: dict[type[Frame], Callable[[int, bytes], Frame]] = {
    Publish: _decode_publish,
    Published: _decode_published,
    Commit: _decode_commit,
    Committed: _decode_committed,
    Messages: _decode_messages,
}
