"""What went over the wire in one trial: every frame both ways, with time, bytes and fields."""

from dataclasses import dataclass, field

from zaichik.learn import notation
from zaichik.learn.layouts import HEADER
from zaichik.learn.wire import BadFrame, Frame, frame_size, parse

HEX_SHOWN = 40  # bytes of a frame that are shown in hexadecimal
_OUT, _IN = "->", "<-"
# Clear from the frame's name, or of no interest when 0.
_QUIET = {"length", "type", "zero", "flags", "id"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the record.

    Attributes:
        at: seconds since the trial began.
        connection: the number of the connection in the trial, from 1.
        direction: "->" to the broker, "<-" from it, "--" for what happened to the connection
            itself.
        data: the bytes, if there were any.
        frame: the same, parsed, if they are a frame.
        note: what the bytes alone don't show.
    """

    at: float
    connection: int
    direction: str
    data: bytes
    frame: Frame | None
    note: str = ""

    def line(self) -> str:
        """Name and fields, without time and bytes."""
        size = len(self.data)
        raw = f"{size} raw {'byte' if size == 1 else 'bytes'}" if size else ""
        what = frame_line(self.frame) if self.frame else raw
        return " ".join(filter(None, (what, f"({self.note})" if self.note else "")))

    def hex(self, longest: int = HEX_SHOWN, between: str = " ") -> str:
        """The first bytes in hexadecimal; of a secret, which comes last, only the length."""
        secret = self.frame.secret if self.frame else b""
        known = len(self.data) - len(secret)
        if secret and known < longest:
            return f"{shown_hex(self.data[:known], known, between)}{between}{notation.mask(secret)}"
        return shown_hex(self.data, longest, between)


def shown_hex(data: bytes, longest: int = HEX_SHOWN, between: str = " ") -> str:
    """Bytes in hexadecimal, cut if it gets long."""
    more = len(data) - longest
    text = data[:longest].hex(between) if between else data[:longest].hex()
    return text + (f" … {more} more" if more > 0 else "")


def frame_line(frame: Frame) -> str:
    """A frame in one line: name, id, flags if any, and the body's fields."""
    flags = f" flags={frame.flags:#x}" if frame.flags else ""
    fields = [
        f"{s.name}={notation.value(frame.name, s.name, s.kind, s.value)}"
        for s in frame.spans
        if s.name not in _QUIET
    ]
    return " ".join([f"{frame.name} id={frame.id}{flags}", *fields])


def whole(data: bytes) -> Frame | None:
    """The frame that these bytes are; None if they are not exactly one frame."""
    try:
        return parse(data) if len(data) >= HEADER.size and frame_size(data) == len(data) else None
    except BadFrame:
        return None


@dataclass(slots=True)
class Trace:
    """The record of one trial. Entries are only ever added."""

    entries: list[Entry] = field(default_factory=list)

    def sent(self, at: float, connection: int, data: bytes, note: str = "") -> None:
        """Record bytes that are a frame, or deliberately not."""
        self.entries.append(Entry(at, connection, _OUT, data, whole(data), note))

    def received(
        self, at: float, connection: int, data: bytes, frame: Frame | None, note: str = ""
    ) -> None:
        """Record a frame, or bytes that should have been one."""
        self.entries.append(Entry(at, connection, _IN, data, frame, note))

    def happened(self, at: float, connection: int, note: str) -> None:
        """Record that a connection was opened, ended or reset."""
        self.entries.append(Entry(at, connection, "--", b"", None, note))
