"""The original's six commands, declared once: what can be said, and how it is laid out in bytes.

The bytes are those of Rust's bincode 1, with no frame around them: the number of the command as a
u32, then its fields, little-endian, each right after the other. There is no length, greeting or id.
Nothing is answered; the server's only command is Publish, which delivers a message.

So where a frame ends shows only while it is parsed, and `FrameReader` has three outcomes, kept
apart as in `zaichik_protocol.codec`: a command; None, as long as the rest of it has not come; and
`NotAFrame`, if no bytes that may still come can complete it. (The original took half a frame for a
broken one, and threw away all that it had received.)
"""

from dataclasses import asdict, dataclass, fields
from typing import IO, Any, cast

from construct import (
    ConstructError,
    ExprAdapter,
    GreedyBytes,
    Int8ul,
    Int32ul,
    Int64ul,
    OneOf,
    PascalString,
    Prefixed,
    PrefixedArray,
    StringError,
    Struct,
)

TAG = Int32ul
TEXT = PascalString(Int64ul, "utf8")
BYTES = Prefixed(Int64ul, GreedyBytes)


def _first(texts: Any, _context: object) -> Any:
    return texts[0] if texts else None


def _list(text: Any, _context: object) -> Any:
    return [] if text is None else [text]


# One byte, 0 or 1, and then as many texts: an option is a list that has at most one item.
OPTIONAL_TEXT = ExprAdapter(PrefixedArray(OneOf(Int8ul, (0, 1)), TEXT), _first, _list)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic with these settings; ignored if it exists."""

    topic: str
    retention_ttl: int  # ms
    compaction_window: int  # ms


@dataclass(frozen=True, slots=True)
class Publish:
    """From a client: store this message. From the server: a message of a topic subscribed to."""

    topic: str
    key: str | None
    payload: bytes


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Read a topic, from the oldest message it has kept."""

    topic: str


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Stop reading a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close the connection."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Ask for the next message, of whichever topic."""


Command = CreateTopic | Publish | Subscribe | Unsubscribe | CloseConnection | Commit

# In the order of their numbers, from 0; each with its fields, in their order.
BODIES: dict[type[Command], Struct] = {
    CreateTopic: Struct("topic" / TEXT, "retention_ttl" / Int64ul, "compaction_window" / Int64ul),
    Publish: Struct("topic" / TEXT, "key" / OPTIONAL_TEXT, "payload" / BYTES),
    Subscribe: Struct("topic" / TEXT),
    Unsubscribe: Struct("topic" / TEXT),
    CloseConnection: Struct(),
    Commit: Struct(),
}
COMMANDS = list(BODIES)


class NotAFrame(Exception):
    """Bytes that can never become a frame.

    Where the next one begins is unknown, so the connection must be closed.
    """


def encode(command: Command) -> bytes:
    """Returns the bytes of a command."""
    kind = type(command)
    return TAG.build(COMMANDS.index(kind)) + BODIES[kind].build(asdict(command))


class FrameReader:
    """Bytes in any pieces in; commands, None or `NotAFrame` out.

    An incomplete frame is parsed again only when the field that was cut off has come. So a frame
    that comes byte by byte is parsed a few times, not thousands of times.

    Args:
        most: bytes of the largest frame. A frame that announces more is refused at once, and never
            waited for.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = _Received()
        self._start = 0  # of the next frame
        self._needed = TAG.sizeof()  # bytes of the next frame before it makes sense to parse it

    @property
    def is_between_frames(self) -> bool:
        """Whether nothing is left of what was received, when `next_frame` has returned None."""
        return self._start == len(self._bytes.data)

    def receive_data(self, data: bytes) -> None:
        """Add what has come."""
        del self._bytes.data[: self._start]  # of frames that were taken
        self._start = 0
        self._bytes.data += data

    def next_frame(self) -> Command | None:
        """Returns the next command; None if it is not all here.

        Raises:
            NotAFrame: and asking again raises it again.
        """
        here = len(self._bytes.data) - self._start
        if here < self._needed:
            return None
        self._bytes.at = self._start
        try:
            command = self._parse()
        except ConstructError as error:
            self._needed = self._bytes.end - self._start
            if self._needed > self._most:
                raise NotAFrame(
                    f"a frame of {self._needed:,} bytes or more; at most {self._most:,} are read"
                ) from None
            if self._needed > here:
                return None
            is_text = isinstance(error, StringError)
            raise NotAFrame(
                "a name or key that is not UTF-8" if is_text else "an option that is not 0 or 1"
            ) from None
        self._start, self._needed = self._bytes.at, TAG.sizeof()
        return command

    def _parse(self) -> Command:
        stream = cast("IO[bytes]", self._bytes)
        number: int = TAG.parse_stream(stream)
        if number >= len(COMMANDS):
            raise NotAFrame(
                f"command {number}, which does not exist: it is not a client of the original"
            )
        kind = COMMANDS[number]
        values = BODIES[kind].parse_stream(stream)
        return kind(**{field.name: values[field.name] for field in fields(kind)})


class _Received:
    """What construct needs of a stream.

    It remembers where the last field would have ended, if it was cut off.

    Attributes:
        data: the bytes.
        at: where the next read begins.
        end: where the last one ended, or would have.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.at = self.end = 0

    def read(self, size: int) -> bytes:
        """Returns this many bytes.

        If there are fewer, none at all, which construct takes for an error.
        """
        self.end = self.at + size
        if self.end > len(self.data):
            return b""
        piece = bytes(self.data[self.at : self.end])
        self.at = self.end
        return piece

    def tell(self) -> int:
        """Returns where the next read begins."""
        return self.at
