r"""`zaichik dissect`: the bytes of the wire protocol, field by field.

Explain bytes of the wire protocol: every field of every frame, its offset, value and meaning. A
frame that is cut or wrong is explained up to the fault, which is marked, and the exit code is 1.
The bytes may also be given as text in hexadecimal digits: a file of nothing but hexadecimal digits
is read as such. Of a secret in a Hello, only its length is shown.

Examples:
  echo 10000000 07 00 0000 08000000 0100000000000000 | zaichik dissect -
  zaichik dissect conversation.bin
  jq -r '.[].hex' protocol/vectors/frames.json | zaichik dissect -
  tshark -r capture.pcap -q -z follow,tcp,raw,0 \
    | grep -E '^[0-9a-f]+$' | zaichik dissect - --hex
"""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaichik.base.counted import counted
from zaichik.base.escapes import harmless, shown
from zaichik.cli import interrupts, screen
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.dissection import Field, dissect
from zaichik.cli.failure import Failure
from zaichik.cli.lines import everything

# Fields left out of a line about a whole frame: its header but for the id, and where in a batch
# each message is.
_LEFT_OUT = {"length", "type", "flags", "zero", "magic", "key_offsets", "payload_offsets"}
SHOWN_BYTES = 8  # of a field, in hexadecimal
SHOWN_VALUE = 48  # characters
WIDTHS = (6, 3 * SHOWN_BYTES + 1, 15, 12)  # of the columns, at least; the last one ends the line
WIDE = (
    100  # columns of a terminal: on a narrower one, frames do not line up with one another, but fit
)
_HEX = re.compile(rb"[0-9a-fA-F\s]+")

ARGUMENTS = (
    argument("FILE", 'a file of bytes; "-" is standard input'),
    argument("--hex", "the bytes are hexadecimal digits, with spaces allowed between them"),
    argument(
        "--json",
        "print one JSON object per field: offset, bytes, frame, name, value, meaning, problem",
    ),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Read all bytes and explain them frame by frame."""
    # Nothing else runs in this event loop, and reading blocks it.
    with interrupts.at_once():
        return _explained(arguments, console)


def _explained(arguments: Namespace, console: Console) -> int:
    data = _bytes(everything(arguments.file), is_hex=arguments.hex)
    if not data:
        raise Failure("there are no bytes to explain")
    is_wrong = False
    for frame in _frames(dissect(data)):
        is_wrong |= any(field.problem for field in frame)
        if arguments.json:
            for field in frame:
                screen.print_json(_state(field))
            continue
        size = counted(sum(len(field.data) for field in frame), "byte")
        title = f"{frame[0].frame}: {size} from {frame[0].offset} on"
        if console.is_terminal:
            screen.say(console, title, "bold")
            console.print(_table(frame, WIDTHS if console.width >= WIDE else (WIDTHS[0], 0, 0, 0)))
        else:
            sys.stdout.write("\n".join((title, *_lines(frame), "")))
    sys.stdout.flush()
    return 1 if is_wrong else 0


def in_lines(data: bytes) -> Iterator[str]:
    """Yields a line for each frame: its name, and what is in it."""
    for frame in _frames(dissect(data)) if data else ():
        fields = [field for field in frame if field.problem or field.name not in _LEFT_OUT]
        words = (f"{cells[2]} {cells[3]}" for cells in map(_cells, fields))
        yield f"{frame[0].frame}: {', '.join(words)}"


def _bytes(data: bytes, *, is_hex: bool) -> bytes:
    # No frame looks like hexadecimal digits by chance: its length would have to be at least 800
    # million.
    if not is_hex and not _HEX.fullmatch(data):
        return data
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        raise Failure("these are not hexadecimal digits, two for each byte") from None


def _frames(fields: Iterable[Field]) -> Iterator[list[Field]]:
    """Yields the fields of each frame as a list."""
    frame: list[Field] = []
    for field in fields:
        if field.name == "length" and frame:
            yield frame
            frame = []
        frame.append(field)
    yield frame


def _table(fields: list[Field], widths: tuple[int, ...]) -> Table:
    offset, data, name, value = widths
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right", no_wrap=True, min_width=offset)
    table.add_column(no_wrap=True, min_width=data)
    table.add_column(no_wrap=True, min_width=name, style="bold")
    table.add_column(overflow="fold", min_width=value)
    table.add_column()
    for field in fields:
        styles = ("", "", "", "cyan", "dim")
        if field.problem:
            styles = ("", "", "", "bold red", "bold red")
        table.add_row(*map(Text, _cells(field), styles))
    return table


def _lines(fields: list[Field]) -> Iterator[str]:
    """Yields the lines of the same table for a pipe, without rich.

    Rich needs some milliseconds to lay out a table, and a capture of 400 kB may hold 20,000 frames.
    """
    rows = [_cells(field) for field in fields]
    widths = [
        max(width, *map(cell_len, column))
        for width, column in zip(WIDTHS, zip(*rows, strict=True), strict=False)
    ]
    for offset, *cells in rows:
        padded = [
            cell + " " * (width - cell_len(cell))
            for width, cell in zip([*widths[1:], 0], cells, strict=True)
        ]
        yield "  ".join((offset.rjust(widths[0]), *padded)).rstrip()


def _cells(field: Field) -> tuple[str, ...]:
    if field.problem:
        value, meaning = "!!", harmless(field.problem)
    else:
        value, meaning = _hidden(field) or _value(field.value), field.meaning
    return str(field.offset), _hex(field), field.name, value, meaning


def _hidden(field: Field) -> str:
    """Returns how long a secret is, to be shown in place of it; "" if the field may be shown."""
    if not field.hidden:
        return ""
    return f"‹{counted(field.hidden, 'byte')}›"  # noqa: RUF001 (these are no < and >: it is no value)


def _shown(field: Field) -> bytes:
    return field.data[: len(field.data) - field.hidden]


def _hex(field: Field) -> str:
    shown = _shown(field)[:SHOWN_BYTES]
    return shown.hex(" ") + (" …" if len(field.data) > len(shown) else "")


def _value(value: Any) -> str:
    """Returns a value as one line, cut if it is long."""
    plain = _plain(value)
    match plain:
        case str():
            text = f"'{shown(plain)}'"
        case {"base64": str()}:
            text = "bytes that are not UTF-8"
        case [dict(), *_]:  # settings
            text = str([tuple(item.values()) for item in plain])
        case _:
            text = harmless(str(plain))
    return text if len(text) <= SHOWN_VALUE else f"{text[: SHOWN_VALUE - 1]}…"


def _state(field: Field) -> dict[str, Any]:
    place = {
        "offset": field.offset,
        "bytes": _shown(field).hex(),
        "frame": field.frame,
        "name": field.name,
    }
    value = _hidden(field) or _plain(field.value)
    return place | {"value": value, "meaning": field.meaning, "problem": field.problem}


def _plain(value: Any) -> Any:
    """Returns a value parsed by construct as a JSON value; bytes become text if they are UTF-8."""
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
