"""Values the client returns (messages, lag, results of publishing), and conversion of its arguments for the wire."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count, repeat
from typing import Any, Literal, NamedTuple

from zaichik.client.errors import BrokerError
from zaichik_protocol import FOREVER, Error, ErrorCode, Messages, Overflow, Publish, Published, Setting, Start, Welcome

Payload = bytes | bytearray | memoryview
Key = str | Payload | None
Duration = float | timedelta | Literal["forever"]
StartAt = Literal["earliest", "latest"] | int | datetime


class Message(NamedTuple):
    """One message. A named tuple, because it is made a million times and never changed.

    Attributes:
        topic: the topic's name.
        offset: its place in the topic, counted from 0 without gaps.
        timestamp: when the broker accepted it: seconds since 1970.
        key: the key's bytes, None if it has none.
        payload: its bytes.
    """

    topic: str
    offset: int
    timestamp: float
    key: bytes | None
    payload: bytes


# Does what `Message._make` does, without a Python call for each message.
_message: Callable[[tuple[Any, ...]], Message] = partial(tuple.__new__, Message)


def messages_of(frame: Messages, topic: str) -> Iterator[Message]:
    """Returns the messages of a frame, each made when it is asked for."""
    batch = frame.batch
    offsets = (frame.base + delta for delta in frame.deltas) if frame.holes else count(frame.base)
    column = batch.keys() if batch.key_size else ()
    keys = (key or None for key in column) if column else repeat(None)
    rows = zip(repeat(topic), offsets, repeat(frame.accepted_us / 1e6), keys, batch.each_payload(), strict=False)
    return map(_message, rows)


def rest_of(frame: Messages, offset: int) -> Messages | None:
    """Returns the messages of a frame from that offset on; None if there are none."""
    deltas = frame.deltas
    first = bisect_left(deltas, offset - frame.base) if frame.holes else offset - frame.base
    if first <= 0:
        return frame
    if first >= frame.batch.count:
        return None
    start = deltas[first] if frame.holes else first
    rest = frame.batch.cut(first, frame.batch.count)
    return replace(frame, base=frame.base + start, batch=rest, deltas=tuple(at - start for at in deltas[first:]))


@dataclass(frozen=True, slots=True)
class Lagged:
    """Messages that were gone before they could be delivered (LAG-1): offsets `start` up to, not including, `end`."""

    topic: str
    start: int
    end: int

    @property
    def count(self) -> int:
        """The exact number of messages."""
        return self.end - self.start


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
        first_offset: offset of the first message stored, followed by the others; if none was, the topic's next offset.
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
    """Returns a topic's settings by name; a newer broker may have some that this client cannot name."""
    known = set(Setting)
    return {Setting(number).name.lower(): value for number, value in pairs if number in known}


def publish_results(reply: Published, count: int) -> list[PublishResult]:
    """Returns the result of each message of a batch of `count`."""
    bits = int.from_bytes(reply.dropped, "little")
    offsets = iter(range(reply.first_offset, reply.first_offset + reply.stored))
    return [
        PublishResult(None if dropped else next(offsets, None), dropped, reply.subscribers, reply.durable)
        for dropped in (bool(bits >> index & 1) for index in range(count))
    ]


def batch_result(reply: Published, count: int) -> BatchResult:
    """Returns the result of a batch of `count`."""
    bits = int.from_bytes(reply.dropped, "little")
    dropped = tuple(index for index in range(count) if bits >> index & 1) if bits else ()
    return BatchResult(reply.first_offset, reply.stored, reply.compacted, dropped, reply.subscribers, reply.durable)


def check_size(count: int, size: int, limits: Welcome) -> None:
    """Refuse a batch that the broker would refuse: it closes a connection over a frame that is too large.

    Raises:
        MessageTooLarge: one message has more bytes than the broker accepts.
        BatchTooLarge: a batch has more messages, or more bytes.
    """
    if size > limits.max_message or count > limits.max_batch:
        if count == 1:
            code, what = ErrorCode.MESSAGE_TOO_LARGE, "a message of"
        else:
            code, what = ErrorCode.BATCH_TOO_LARGE, f"a batch of {count} messages and"
        most = f"at most {limits.max_batch} messages and {limits.max_message} bytes at once"
        problem = f"{what} {size} bytes is too large: the broker accepts {most}. Send it in pieces."
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
        raise ValueError('an empty key means "no key" on the wire; leave the key out, or make it at least one byte')
    return key.encode() if isinstance(key, str) else _as_bytes("key", key)


def payload_bytes(payload: Payload) -> bytes:
    """Returns the payload as the wire carries it.

    Raises:
        TypeError: it is not bytes.
    """
    return _as_bytes("payload", payload)


def _as_bytes(what: str, value: object) -> bytes:
    """Returns the value if it is bytes, or a copy if it could still change."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a {what} must be bytes, not {type(value).__name__}; .encode() turns text into bytes")


def milliseconds(duration: object) -> int:
    """Returns a `Duration` as the wire carries it.

    Raises:
        ValueError: it is negative or infinite, or a word other than "forever", or not a duration at all.
    """
    match duration:
        case "forever":
            return FOREVER
        case timedelta():
            return milliseconds(duration.total_seconds())
        case int() | float() if 0 <= duration < float("inf"):
            # At least 1, unless it is exactly 0, which means off.
            return max(round(duration * 1000), 1 if duration else 0)
        case _:
            raise ValueError(f'a duration must be 0 or more seconds, a timedelta or "forever", not {duration!r}')


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
        ValueError: the text is not a start; the message says what to write, and is meant to follow the text.
    """
    match text:
        case "earliest" | "latest":
            return text
        case _ if text.isascii() and text.isdigit():
            return int(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError("write earliest, latest, an offset, or a time such as 2026-01-31T08:00") from None


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
            return Start.TIME, max(0, round(start.timestamp() * 1_000_000))
        case int() if start >= 0:
            return Start.OFFSET, start
        case _:
            raise ValueError(f'a start must be "earliest", "latest", an offset or a datetime, not {start!r}')
