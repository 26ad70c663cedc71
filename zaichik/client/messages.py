"""What the client returns (messages, lag, results), and its arguments as the wire carries them."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count, repeat
from typing import Any, Literal, NamedTuple

from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik.client.errors import BrokerError
from zaichik_protocol import (
    FOREVER,
    Batch,
    Error,
    ErrorCode,
    Messages,
    Overflow,
    Publish,
    Published,
    Setting,
    Start,
    Welcome,
)

Payload = bytes | bytearray | memoryview
Key = str | Payload | None
Duration = float | timedelta | Literal["forever"]
StartAt = Literal["earliest", "latest"] | int | datetime
CommitMode = Literal["automatic", "explicit"]
AckedBy = Literal["kafka"]

KAFKA: AckedBy = "kafka"


class Message(NamedTuple):
    """One message. A named tuple, because it is made a million times and never changed.

    Attributes:
        topic: the topic's name.
        offset: its place in the topic, counted from 0 without gaps.
        timestamp: when the broker accepted it: seconds since 1970.
        key: the key's bytes, None if it has none.
        payload: its bytes; none in a tombstone.
    """

    topic: str
    offset: int
    timestamp: float
    key: bytes | None
    payload: bytes

    @property
    def is_tombstone(self) -> bool:
        """Whether it has a key and no payload: in a table, its key was deleted (TAB-5).

        In other topics that means what the program takes it to mean.
        """
        return self.key is not None and not self.payload


# Does what `Message._make` does, without a Python call for each message.
_message: Callable[[tuple[Any, ...]], Message] = partial(tuple.__new__, Message)


def messages_of(frame: Messages, topic: str) -> Iterator[Message]:
    """Returns the messages of a frame, each made when it is asked for."""
    batch = frame.batch
    offsets: Iterable[int] = count(frame.base)
    if frame.holes:
        offsets = (frame.base + delta for delta in frame.deltas)
    keys: Iterable[bytes | None] = repeat(None)
    if batch.key_size:
        column = batch.keys()
        keys = (key or None for key in column)
    rows = zip(
        repeat(topic),
        offsets,
        repeat(frame.accepted_us / 1e6),
        keys,
        batch.each_payload(),
        strict=False,
    )
    return map(_message, rows)


def rest_of(frame: Messages, offset: int) -> Messages | None:
    """Returns the messages of a frame from that offset on; None if there are none."""
    deltas = frame.deltas
    first = offset - frame.base
    if frame.holes:
        first = bisect_left(deltas, first)
    if first <= 0:
        return frame
    if first >= frame.batch.count:
        return None
    start = first
    if frame.holes:
        start = deltas[first]
    rest = frame.batch.cut(first, frame.batch.count)
    return replace(
        frame,
        base=frame.base + start,
        batch=rest,
        deltas=tuple(at - start for at in deltas[first:]),
    )


@dataclass(frozen=True, slots=True)
class Lagged:
    """Messages that were gone before they could be delivered (LAG-1).

    Their offsets are `start` up to, not including, `end`.
    """

    topic: str
    start: int
    end: int

    @property
    def count(self) -> int:
        """The exact number of messages."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class DeletionsMissed:
    """Tombstones of a table that were gone before they could be delivered (TAB-5).

    Their offsets are below `below`. So what the reader holds may have keys that were deleted: to be
    exact, it drops all of it and calls `Subscription.start_over`.
    """

    topic: str
    below: int


# What a reader has missed.
Missed = Lagged | DeletionsMissed


@dataclass(frozen=True, slots=True)
class TopicGone:
    """A topic that a pattern was reading, and that is there no more (PAT-2).

    What had not been delivered by then is gone with it.

    Attributes:
        topic: its name.
        epoch: its identity.
        next: the offset that would have been read next.
    """

    topic: str
    epoch: int
    next: int


@dataclass(frozen=True, slots=True)
class TopicMissed:
    """Topics of one name that had gone before a pattern's subscription could read them (PAT-2).

    Attributes:
        topic: their name.
        count: how many there were.
    """

    topic: str
    count: int


@dataclass(frozen=True, slots=True)
class TopicUnread:
    """A topic that a pattern matches, and that cannot be read for now (PAT-4).

    It is read as soon as it can be, from where it would have been.

    Attributes:
        topic: its name.
        reason: why, for a person.
    """

    topic: str
    reason: str


# What is reported to a reader of a pattern besides messages.
PatternEvent = Missed | TopicGone | TopicMissed | TopicUnread


class PublishResult(NamedTuple):
    """The result of publishing one message.

    Attributes:
        offset: where it is stored; None if it was compacted away.
        compacted: whether it was dropped because its key's window was open.
        subscribers: number of subscriptions the topic had.
        durable: whether that is on the broker's disk (DUR-1).
    """

    offset: int | None
    compacted: bool
    subscribers: int
    durable: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of publishing a batch.

    Attributes:
        first_offset: offset of the first message stored, followed by the others; if none was, the
            topic's next offset.
        stored, compacted: number of messages stored, and of those that compaction dropped.
        dropped: the indices of the dropped messages within the batch.
        subscribers: number of subscriptions the topic had.
        durable: whether that is on the broker's disk (DUR-1).
    """

    first_offset: int
    stored: int
    compacted: int
    dropped: tuple[int, ...]
    subscribers: int
    durable: bool = False


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the broker has it.

    Attributes:
        name: its name.
        created: whether this call made it.
        epoch: its identity: microseconds since 1970 when it was made.
        settings: every setting in force, as the wire names them.
    """

    name: str
    created: bool
    epoch: int
    settings: dict[str, int]


def named_settings(pairs: tuple[tuple[int, int], ...]) -> dict[str, int]:
    """Returns a topic's settings by name.

    A newer broker may have some that this client cannot name.
    """
    known = set(Setting)
    return {Setting(number).name.lower(): value for number, value in pairs if number in known}


def publish_results(reply: Published, count: int) -> list[PublishResult]:
    """Returns the result of each message of a batch of `count`."""
    bits = int.from_bytes(reply.dropped, "little")
    offsets = iter(range(reply.first_offset, reply.first_offset + reply.stored))
    results: list[PublishResult] = []
    for index in range(count):
        dropped = bool(bits >> index & 1)
        offset = None
        if not dropped:
            offset = next(offsets, None)
        results.append(PublishResult(offset, dropped, reply.subscribers, reply.durable))
    return results


def batch_result(reply: Published, count: int) -> BatchResult:
    """Returns the result of a batch of `count`."""
    bits = int.from_bytes(reply.dropped, "little")
    dropped: tuple[int, ...] = ()
    if bits:
        dropped = tuple(index for index in range(count) if bits >> index & 1)
    return BatchResult(
        reply.first_offset, reply.stored, reply.compacted, dropped, reply.subscribers, reply.durable
    )


def check_size(count: int, size: int, limits: Welcome) -> None:
    """Refuse a batch that is too large for the broker.

    The broker closes a connection over a frame that is too large.

    Raises:
        MessageTooLarge: one message has more bytes than the broker accepts.
        BatchTooLarge: a batch has more messages, or more bytes.
    """
    if size > limits.max_message or count > limits.max_batch:
        if count == 1:
            code, what = ErrorCode.MESSAGE_TOO_LARGE, "a message of"
        else:
            code, what = ErrorCode.BATCH_TOO_LARGE, f"a batch of {counted(count, 'message')} and"
        most = f"at most {counted(limits.max_batch, 'message')} and "
        most += f"{counted(limits.max_message, 'byte')} at once"
        problem = (
            f"{what} {counted(size, 'byte')} is too large: the broker accepts {most}. Send it in "
            "pieces."
        )
        raise BrokerError.of(Error(0, code, Publish.TYPE, "batch", 0, problem))


def key_bytes(key: Key) -> bytes:
    """Returns the key as the wire carries it: b"" for none.

    Raises:
        ValueError: an empty key, which the wire cannot tell from none.
        TypeError: it is neither str nor bytes.
    """
    if key is None:
        return b""
    if not key:
        raise ValueError(
            'an empty key means "no key" on the wire; leave the key out, or make it at least one '
            "byte"
        )
    if isinstance(key, str):
        return key.encode()
    return _as_bytes("key", key)


def payload_bytes(payload: Payload | None, key: bytes) -> bytes:
    """Returns the payload as the wire carries it: b"" for None, which makes a tombstone.

    Raises:
        ValueError: it is to be a tombstone, and there is no key to delete.
        TypeError: it is not bytes.
    """
    if payload is None:
        if not key:
            raise ValueError("a payload of None deletes a key, so it needs one: name the key")
        return b""
    return _as_bytes("payload", payload)


def batch_of(
    messages: Iterable[tuple[Key, Payload | None]], *, tombstones: bool = False
) -> tuple[Batch, bool]:
    """Returns messages as the wire's batch, and whether it has tombstones.

    Args:
        messages: (key, payload) pairs; a payload of None deletes its key.
        tombstones: whether all empty payloads with a key do.

    Raises:
        ValueError: only some of these are None: a batch cannot say which of them are meant.
    """
    keys: list[bytes] = []
    payloads: list[bytes] = []
    deletes = False
    is_ambiguous = False
    for key, payload in messages:
        name = key_bytes(key)
        data = payload_bytes(payload, name)
        keys.append(name)
        payloads.append(data)
        if payload is None:
            deletes = True
        elif name and not data:
            is_ambiguous = True
    if deletes and is_ambiguous and not tombstones:
        raise ValueError(
            "a batch that deletes keys cannot have empty payloads with a key besides: make each of "
            "them None, to delete its key, or publish it in another batch"
        )
    return Batch.of_columns(keys, payloads), deletes or tombstones


def _as_bytes(what: str, value: object) -> bytes:
    """Returns the value if it is bytes, or a copy if it could still change."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {what} must be bytes, not {type(value).__name__}; .encode() turns text into bytes"
    )


def milliseconds(duration: object) -> int:
    """Returns a `Duration` as the wire carries it.

    Raises:
        ValueError: it is negative or infinite, or a word other than "forever", or not a duration at
            all.
    """
    match duration:
        case "forever":
            return FOREVER
        case timedelta():
            return milliseconds(duration.total_seconds())
        case int() | float() if 0 <= duration < float("inf"):
            if not duration:
                return 0
            # At least 1, for 0 means off.
            return max(round(duration * 1000), 1)
        case _:
            raise ValueError(
                f'a duration must be 0 or more seconds, a timedelta or "forever", not {duration!r}'
            )


def overflow_of(word: str) -> Overflow:
    """Returns what a full topic does, as the wire carries it.

    Raises:
        ValueError: the word is not one of those allowed.
    """
    words = {overflow.name.lower(): overflow for overflow in Overflow}
    if word not in words:
        raise ValueError(f"overflow must be {' or '.join(map(repr, words))}, not {word!r}")
    return words[word]


def start_written(text: str) -> StartAt:
    """Returns the start that is written in a command or an option.

    Raises:
        ValueError: the text is not a start; the message says what to write, and is meant to follow
            the text.
    """
    match text:
        case "earliest" | "latest":
            return text
    try:
        if text.isascii() and text.isdigit():
            return int(text)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(
            "write earliest, latest, an offset, or a time such as 2026-01-31T08:00"
        ) from None


def is_explicit(commit: object) -> bool:
    """Returns whether a `CommitMode` leaves commits to the program.

    Raises:
        ValueError: it is not a valid mode.
    """
    match commit:
        case "automatic":
            return False
        case "explicit":
            return True
    raise ValueError(f"commit must be 'automatic' or 'explicit', not {commit!r}")


def check_acked_by(by: object) -> None:
    """Refuse an `AckedBy` that is none.

    Raises:
        ValueError: nothing of that name acknowledges messages.
    """
    if by != KAFKA:
        raise ValueError(f"acked_by must be {KAFKA!r}, not {by!r}")


def start_at(start: object) -> tuple[Start, int]:
    """Returns a `StartAt` as the wire carries it: its kind and its value.

    Raises:
        ValueError: it is not a valid start.
    """
    match start:
        case "earliest":
            return Start.EARLIEST, 0
        case "latest":
            return Start.LATEST, 0
        case datetime():
            return Start.TIME, max(0, round(start.timestamp() * SECOND_US))
        case int() if start >= 0:
            return Start.OFFSET, start
        case _:
            raise ValueError(
                f'a start must be "earliest", "latest", an offset or a datetime, not {start!r}'
            )
