"""The generated part of `wireshark/zaichik.lua`: the declaration, for its handwritten part.

`make docs` runs it through cog, as it does `document.py`; a test checks that it is current.
"""

import dataclasses
import json
import textwrap
from collections.abc import Iterable, Iterator

from zaichik_protocol import (
    DEFAULT_PORT,
    HELLO_MAX_FRAME,
    DeadAction,
    EndCode,
    ErrorCode,
    GoAwayCode,
    Kind,
    Outcome,
    Setting,
    Start,
)
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS, Frame
from zaichik_protocol.layout import HEADER_SIZE, LENGTH_SIZE, MIN_LENGTH

# A number on the wire is a plain integer in the declaration. These have names.
_NAMED = {
    ("Subscribe", "start"): Start,
    ("Describe", "kind"): Kind,
    ("Settle", "outcome"): Outcome,
    ("Dead", "action"): DeadAction,
    ("Error", "code"): ErrorCode,
    ("SubscriptionEnded", "code"): EndCode,
    ("GoAway", "code"): GoAwayCode,
}
_TIE = "\u00a0"  # a space at which no line is broken
_ROLES = {"request": REQUESTS, "reply": REPLIES, "event": EVENTS}


def tables() -> str:
    """All tables, as Lua."""
    enums = {
        enum.__name__: ((member.value, member.name) for member in enum)
        for enum in (*_NAMED.values(), Setting)
    }
    enums["Type"] = ((cls.TYPE, cls.__name__) for cls in _all())
    lines = [
        f"local PORT, HELLO_MAX_FRAME = {DEFAULT_PORT}, {HELLO_MAX_FRAME}",
        f"local LENGTH_SIZE, MIN_LENGTH, HEADER_SIZE = {LENGTH_SIZE}, {MIN_LENGTH}, {HEADER_SIZE}",
        "",
        "local NAMES = {",
    ]
    for name, pairs in enums.items():
        lines += [
            f"  {name} = {{",
            *_wrapped(f'[{number}] = "{value}",' for number, value in pairs),
            "  },",
        ]
    lines += [
        "}",
        "",
        (
            "-- A field: its name, its kind, how filters call it, its meaning, and the names of "
            "its "
            "values."
        ),
    ]
    lines += ["local FRAMES = {"]
    for role, group in _ROLES.items():
        for cls in group:
            lines += _frame(cls, role)
    return "\n".join([*lines, "}"])


def _frame(cls: type[Frame], role: str) -> Iterator[str]:
    flags = ", ".join(f'{{ "{name}", {bit} }}' for name, bit in cls.FLAGS.items())
    yield f"  [0x{cls.TYPE:02x}] = {{"
    yield f'    name = "{cls.__name__}", role = "{role}", flags = {{{flags and f" {flags} "}}},'
    body = [_field(cls, *field) for field in fields(cls)]
    yield from ["    body = {", *body, "    },"] if body else ["    body = {},"]
    yield "  },"


def _field(cls: type[Frame], name: str, kind: str, meaning: str) -> str:
    texts = [
        json.dumps(text, ensure_ascii=False)
        for text in (name, kind, abbreviation(cls, name), meaning)
    ]
    names = _names(cls, name)
    line = f"      {{ {', '.join(texts)}{names and f', NAMES.{names}'} }},"
    return line if len(line) <= 120 else line.replace(f" {texts[3]}", f"\n        {texts[3]}")


def _wrapped(items: Iterable[str]) -> list[str]:
    """Several items a line; none is broken."""
    tied = " ".join(item.replace(" ", _TIE) for item in items)
    return [
        line.replace(_TIE, " ")
        for line in textwrap.wrap(tied, 120, initial_indent="    ", subsequent_indent="    ")
    ]


def fields(cls: type[Frame]) -> Iterator[tuple[str, str, str]]:
    """(name, kind, meaning) of every field of a frame's body."""
    secrets = {item.name for item in dataclasses.fields(cls) if not item.repr}
    for field in cls.FIELDS:
        if field.name in secrets:
            kind = "secret"
        elif field.name == "json":
            kind = "json"
        elif field.only:
            kind = f"{field.kind.name} if {field.only}"
        else:
            kind = field.kind.name
        yield field.name, kind, field.meaning


def abbreviation(cls: type[Frame], name: str) -> str:
    """Returns a field's name in filters.

    The name of its frame comes first if different things have that name.
    """
    kinds = {
        (kind, _names(other, field))
        for other in _all()
        for field, kind, _ in fields(other)
        if field == name
    }
    return f"zaichik.{name}" if len(kinds) == 1 else f"zaichik.{cls.__name__.lower()}.{name}"


def _names(cls: type[Frame], name: str) -> str:
    """The table of the names that a field's values have; "" if they have none."""
    if name == "request_type":
        return "Type"
    return _NAMED[cls.__name__, name].__name__ if (cls.__name__, name) in _NAMED else ""


def _all() -> Iterator[type[Frame]]:
    for group in _ROLES.values():
        yield from group
