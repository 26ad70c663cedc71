r"""Values as text, in a notation that readers of any programming language know: "a\x00b", 5, 03 01.

Strings are in double quotes, with bytes other than printable ASCII as escapes, as in C, Go and
Rust. Numbers that stand for something are shown by name: errors, ends of subscriptions, types of
frames, settings.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zaichik.learn.layouts import (
    DURATIONS,
    ENDS,
    ERRORS,
    FATAL,
    FOREVER,
    LAYOUTS,
    NEVER,
    SETTINGS,
    TYPES,
    fields_of,
)

if TYPE_CHECKING:
    from zaichik.learn.wire import Message

LONGEST, MOST = 24, 4  # bytes of a string, messages of a batch
_ESCAPED = {0x22: '\\"', 0x5C: "\\\\", 0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}


def text(data: bytes, longest: int = LONGEST) -> str:
    """Bytes as a string in quotes, cut if it gets long."""
    shown = "".join(
        _ESCAPED.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")
        for byte in data[:longest]
    )
    return f'"{shown}…" ({len(data):,} bytes)' if len(data) > longest else f'"{shown}"'


def mask(data: bytes) -> str:
    """The length of a secret, in its place."""
    return f"‹{len(data)} bytes›"  # noqa: RUF001 (not < and >: this is not a value)


def numbers(values: Iterable[int]) -> str:
    """Numbers in a row, "0, 5, 7"; "none" if there are none."""
    return ", ".join(map(str, values)) or "none"


def batch(messages: Iterable[tuple[bytes, bytes]]) -> str:
    """Keys and payloads of the first few messages."""
    pairs = list(messages)
    shown = [f"{text(key)}: {text(payload)}" for key, payload in pairs[:MOST]]
    if len(pairs) > MOST:
        shown.append(f"… {len(pairs)} in all")
    return f"[{', '.join(shown)}]"


def settings(pairs: Iterable[tuple[int, int]]) -> str:
    """Settings by their names."""
    named = (
        f"{SETTINGS.get(number, number)}: "
        f"{'forever' if number in DURATIONS and value == FOREVER else value}"
        for number, value in pairs
    )
    return f"{{{', '.join(named)}}}"


def message(each: "Message") -> str:
    """A message with its offset."""
    return f"offset {each.offset}: key {text(each.key)}, payload {text(each.payload)}"


def value(frame: str, field: str, kind: str, what: Any) -> str:
    """A field's value in a few words.

    Args:
        frame: the name of the frame it is in.
        field: its name.
        kind: its layout.
        what: the value.
    """
    match frame, field, kind:
        case "Error", "code", _:
            return ERRORS.get(what, f"{what}, which is not an error code")
        case "Hello", "secret", _ if what:
            return mask(_bytes(what))
        case _, "code", _:
            return ENDS.get(frame, {}).get(what, str(what))
        case "Error", "flags", _ if what == FATAL:
            return f"{what} (FATAL)"
        case _, "type" | "request_type", _:
            return f"{what:#04x} {LAYOUTS[what][0] if what in LAYOUTS else '?'}"
        case _, _, "batch" if not isinstance(what, bytes):
            return batch(what)
        case _, _, "settings":
            return settings(what.items() if isinstance(what, dict) else what)
        case _, _, "deltas":
            return f"[{numbers(what)}]"
        case _, _, "rest":
            return bytes(what).hex(" ") or "(no bytes)"
        case _, "until", _ if what == NEVER:
            return "never"
        case _ if isinstance(what, bytes | str):
            return text(_bytes(what))
    return str(what)


def _bytes(what: bytes | str) -> bytes:
    return what if isinstance(what, bytes) else what.encode()


def fields(frame: str, given: dict[str, Any]) -> str:
    """A frame's name and some of its fields, including those of its header."""
    kinds = dict(fields_of(TYPES[frame], 0xFF))
    named = (
        f"{field}={value(frame, field, kinds.get(field, 'u32'), what)}"
        for field, what in given.items()
    )
    return " ".join([frame, *named])
