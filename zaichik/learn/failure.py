"""Why a check failed: what was asked, what should have come, what came, and the first byte that is wrong."""

from dataclasses import dataclass
from typing import Any

from zaichik.learn.trace import frame_line
from zaichik.learn.wire import Frame, Span, encode_field, show_value


@dataclass(frozen=True, slots=True)
class WrongByte:
    """The first byte that differs from what the protocol asks for.

    Attributes:
        at: its place in the frame, from 0.
        field: whose byte it is.
        expected, came: the bytes of that field from this one on; b"" if there are none.
    """

    at: int
    field: str
    expected: bytes
    came: bytes


class Failed(Exception):
    """The broker did something else than the protocol says.

    Attributes:
        summary: what is wrong, in one sentence.
        asked: the request it was about, in one line; "" without one.
        expected, came: in one line each.
        wrong: the first wrong byte, if it can be told.
        cause: a guess at the reason; "" without one.
        excerpt: lines that prove it, if a trace alone does not.
    """

    def __init__(
        self,
        summary: str,
        *,
        asked: str = "",
        expected: str = "",
        came: str = "",
        wrong: WrongByte | None = None,
        cause: str = "",
        excerpt: tuple[str, ...] = (),
    ) -> None:
        super().__init__(summary)
        self.summary = summary
        self.asked = asked
        self.expected = expected
        self.came = came
        self.wrong = wrong
        self.cause = cause
        self.excerpt = excerpt


class Inconclusive(Exception):
    """Too much time has passed between two steps to tell right from wrong: nobody's fault, try again slower."""


class Skipped(Exception):
    """The check cannot be made here."""


def compare(frame: Frame, name: str, expected: dict[str, Any], asked: str = "") -> None:
    """Judge a frame by name and by those fields that are given, header fields among them.

    Raises:
        Failed: something differs.
        KeyError: the frame has no such field, so that the check itself is wrong.
    """
    if frame.name != name:
        type_span = frame.span("type")
        raise Failed(
            f"{_a(name)} should have come, and {_a(frame.name)} came",
            asked=asked,
            expected=_wanted(name, expected),
            came=frame_line(frame),
            wrong=WrongByte(4, "type", b"", type_span.raw),
            cause=_error_text(frame),
        )
    for span in sorted(map(frame.span, expected), key=lambda span: span.at):
        if span.value != expected[span.name]:
            raise Failed(
                f"{name}.{span.name} should be {show_value(span.name, span.kind, expected[span.name])}, "
                f"and is {show_value(span.name, span.kind, span.value)}",
                asked=asked,
                expected=_wanted(name, expected),
                came=frame_line(frame),
                wrong=first_wrong_byte(span, expected[span.name]),
            )


def first_wrong_byte(span: Span, value: Any) -> WrongByte:
    """Where a field begins to differ from the one that was expected."""
    should = encode_field(span.kind, value)
    pairs = zip(should, span.raw, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(should), len(span.raw)))
    return WrongByte(span.at + same, span.name, should[same : same + 8], span.raw[same : same + 8])


def _wanted(name: str, expected: dict[str, Any]) -> str:
    return " ".join([name, *(f"{field}={value!r}" for field, value in expected.items())])


def _error_text(frame: Frame) -> str:
    return f"the server says: {frame['message']}" if frame.name == "Error" and frame["message"] else ""


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
