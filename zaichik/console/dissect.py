"""`zaichik dissect`: the bytes of the wire protocol, field by field."""

import argparse
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaichik.console import screen
from zaichik.console.dissection import Field, dissect
from zaichik.console.failure import Failure
from zaichik.console.lines import everything

DESCRIPTION = """\
Explain bytes of the wire protocol: every field of every frame, where it lies, its value and its meaning. A frame
that is cut or wrong is explained up to the place where it is, which is marked, and the exit code is 1. The bytes
may also be given as text in hexadecimal digits; a file of nothing but such digits is taken for that.
"""

EPILOG = """\
examples:
  echo 10000000 07 00 0000 08000000 0100000000000000 | zaichik dissect -
  zaichik dissect conversation.bin
  jq -r '.[].hex' protocol/vectors/frames.json | zaichik dissect -
  tshark -r capture.pcap -q -z follow,tcp,raw,0 | grep -E '^[0-9a-f]+$' | zaichik dissect - --hex
"""

SHOWN_BYTES = 8  # of a field, in hexadecimal
SHOWN_VALUE = 48  # characters
_HEX = re.compile(rb"[0-9a-fA-F\s]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `zaichik dissect`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("file", metavar="FILE", help='where the bytes are; "-" is standard input')
    parser.add_argument("--hex", action="store_true", help="they are hexadecimal digits, spaces between them allowed")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object a field: offset, bytes, frame, name, value, meaning, problem",
    )


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Read it all, explain it all."""
    fields = list(dissect(_bytes(everything(arguments.file), is_hex=arguments.hex)))
    if not fields:
        raise Failure("there are no bytes to explain")
    if arguments.json:
        for field in fields:
            screen.print_json(_state(field))
    else:
        for frame in _frames(fields):
            size = sum(len(field.data) for field in frame)
            console.print(Text(f"{frame[0].frame}: {size} bytes from {frame[0].offset} on", "bold"), soft_wrap=True)
            screen.print_table(console, _table(frame))
    return 1 if any(field.problem for field in fields) else 0


def _bytes(data: bytes, *, is_hex: bool) -> bytes:
    # No frame looks like that by chance: its length would have to be 800 million at least.
    if not is_hex and not _HEX.fullmatch(data):
        return data
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        raise Failure("these are not hexadecimal digits, two for each byte") from None


def _frames(fields: Iterable[Field]) -> Iterator[list[Field]]:
    """The fields, a list for each frame."""
    frame: list[Field] = []
    for field in fields:
        if field.name == "length" and frame:
            yield frame
            frame = []
        frame.append(field)
    yield frame


def _table(fields: list[Field]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right", no_wrap=True, min_width=6)
    table.add_column(no_wrap=True, min_width=3 * SHOWN_BYTES + 1)
    table.add_column(no_wrap=True, min_width=15, style="bold")
    table.add_column(overflow="fold", min_width=12)
    table.add_column()
    for field in fields:
        value, meaning = Text(_value(field.value), "cyan"), Text(field.meaning, "dim")
        if field.problem:
            value, meaning = Text("!!", "bold red"), Text(field.problem, "bold red")
        table.add_row(str(field.offset), _hex(field.data), Text(field.name), value, meaning)
    return table


def _hex(data: bytes) -> str:
    return data[:SHOWN_BYTES].hex(" ") + (" …" if len(data) > SHOWN_BYTES else "")


def _value(value: Any) -> str:
    """A value in one line, which is cut if it is long."""
    plain = _plain(value)
    match plain:
        case str():
            text = repr(plain)
        case {"base64": str()}:
            text = "bytes that are not UTF-8"
        case [dict(), *_]:  # settings
            text = str([tuple(item.values()) for item in plain])
        case _:
            text = str(plain)
    return text if len(text) <= SHOWN_VALUE else f"{text[: SHOWN_VALUE - 1]}…"


def _state(field: Field) -> dict[str, Any]:
    return {
        "offset": field.offset,
        "bytes": field.data.hex(),
        "frame": field.frame,
        "name": field.name,
        "value": _plain(field.value),
        "meaning": field.meaning,
        "problem": field.problem,
    }


def _plain(value: Any) -> Any:
    """What construct parsed as JSON has it; bytes are text if they can be."""
    match value:
        case bytes():
            return screen.json_bytes(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            # Names with an underscore are construct's own.
            return {name: _plain(item) for name, item in value.items() if not name.startswith("_")}
        case _:
            return value
