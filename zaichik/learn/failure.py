"""Why a check failed: what was asked, expected and received, and the first byte that is wrong."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any

from zaichik.learn import causes, notation
from zaichik.learn.drawing import Drawing
from zaichik.learn.trace import Entry, frame_line
from zaichik.learn.wire import Frame, Message, Span, encode_field


@dataclass(frozen=True, slots=True)
class WrongByte:
    """The first byte that differs from what the protocol asks for.

    Attributes:
        at: its position in the frame, from 0.
        field: the field it is in.
        expected, came: the bytes of that field from this one on; b"" if there are none.
    """

    at: int
    field: str
    expected: bytes
    came: bytes


@dataclass(eq=False, repr=False)
class Failure(Exception):
    """The broker did something other than the protocol says.

    Attributes:
        summary: what is wrong, in one sentence.
        asked: the request it was about, in one line; "" without one.
        expected, came: in one line each.
        wrong: the first wrong byte, if there is one.
        cause: a guess at the reason; "" without one.
        excerpt: lines that prove it, if the trace alone does not.
        drawing: the same, as a diagram.
        frames: the frames of the trace that matter; () for the last ones.

    What came may be given as a frame.
    """

    summary: str
    _: KW_ONLY
    asked: str = ""
    expected: str = ""
    came: str = ""
    wrong: WrongByte | None = None
    cause: str = ""
    excerpt: tuple[str, ...] = ()
    drawing: Drawing | None = None
    frames: tuple[Entry, ...] = ()
    frame: InitVar[Frame | None] = None

    def __post_init__(self, frame: Frame | None) -> None:
        if frame is not None:
            self.came = frame_line(frame)


class Missing(Failure):
    """Something was due and did not come in time, or not before the stream ended."""


class Inconclusive(Exception):
    """Too much time passed to tell right from wrong. Nobody's fault; try again, slower."""


class Skipped(Exception):
    """The check cannot be run here."""


def compare(frame: Frame, name: str, expected: dict[str, Any], asked: str = "") -> None:
    """Check a frame's name and those fields that are given, header fields included.

    Raises:
        Failure: something differs.
        KeyError: the frame has no such field, so the check itself is wrong.
    """
    about: dict[str, Any] = {
        "asked": asked,
        "expected": notation.fields(name, expected),
        "frame": frame,
    }
    about["cause"] = ""
    if frame.name == "Error" and frame["message"]:
        about["cause"] = f"the server says: {frame['message']}"
    if frame.name != name:
        problem = f"{_due(name, expected)} should have come, but {_due(frame.name, frame)} came"
        raise Failure(problem, wrong=WrongByte(4, "type", b"", frame.span("type").raw), **about)
    spans = sorted(map(frame.span, expected), key=lambda span: span.at)
    differing = [span for span in spans if span.value != expected[span.name]]
    if differing:
        # Of an Error, the code says most. Another error has other flags, too, and those come first.
        says = next((span for span in differing if span.name == "code"), differing[0])
        should, is_ = (
            notation.value(name, says.name, says.kind, value)
            for value in (expected[says.name], says.value)
        )
        what = "the error" if (name, says.name) == ("Error", "code") else f"{name}.{says.name}"
        due = f": the message with offset {should} was due" if what == "Messages.base" else ""
        wrong = first_wrong_byte(differing[0], expected[differing[0].name])
        about["cause"] = about["cause"] or causes.of_number(expected[says.name], says.value)
        raise Failure(f"{what} should be {should}, but is {is_}{due}", wrong=wrong, **about)


def first_wrong_byte(span: Span, value: Any) -> WrongByte:
    """Where a field begins to differ from what was expected."""
    should = encode_field(span.kind, value)
    pairs = zip(should, span.raw, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(should), len(span.raw)))
    return WrongByte(span.at + same, span.name, should[same : same + 8], span.raw[same : same + 8])


def _due(name: str, fields: Frame | dict[str, Any]) -> str:
    """A frame in words: an Error by the name of its code."""
    code = (
        fields["code"]
        if name == "Error" and (isinstance(fields, Frame) or "code" in fields)
        else None
    )
    if code is not None:
        return f"the error {notation.value(name, 'code', 'u16', code)}"
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def difference(came: Sequence[Message], should: Sequence[tuple[bytes, bytes]]) -> str:
    """The first thing wrong with messages that have the right offset, in a sentence."""
    for message, (key, payload) in zip(came, should, strict=False):
        if (message.key, message.payload) != (key, payload):
            wrong = (
                "key"
                if message.payload == payload
                else "payload"
                if message.key == key
                else "key and payload"
            )
            return f"the {wrong} of offset {message.offset} is not what was published"
    verb = "was" if len(should) == 1 else "were"
    return f"{len(came)} messages came, but {len(should)} {verb} due"
