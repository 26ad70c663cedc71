"""Output: coloured on a terminal, plain for other programs, JSON on request.

Results go to standard output; everything about them (progress, summaries, warnings) goes to
standard error, so that a pipe never carries both.
"""

import logging
import os
import stat
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, TextIO

import anyio
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from zaichik.base.escapes import LogFormatter, harmless, json_line
from zaichik.base.sizes import show_size
from zaichik.cli import quantities
from zaichik.cli.log_events import JsonFormatter
from zaichik.cli.streams import STDOUT
from zaichik_protocol import Overflow

PLAIN_WIDTH = 1000  # of a table that is not on a terminal: no line is folded

Row = tuple[str, Any]


class Screen(Console):
    """A rich console that leaves a closed pipe to `main`, which does not treat it as a failure.

    Whether it is a terminal depends on the file alone, since it decides what is printed: a pipe
    gets the payloads as they are, in lines that are not folded. Variables such as FORCE_COLOR
    (CI systems set it) and TTY_COMPATIBLE choose a style: colours, and what moves.

    Args:
        file: is written to.
        is_plain: whether it counts as a pipe, without colours.
    """

    def __init__(self, file: TextIO, *, is_plain: bool = False) -> None:
        self._is_terminal = file.isatty() and not is_plain
        colours: Literal["auto", "standard"] | None = None
        if self._is_terminal:
            colours = "auto"
        elif os.environ.get("FORCE_COLOR") and not (is_plain or os.environ.get("NO_COLOR")):
            colours = "standard"
        super().__init__(file=file, highlight=False, color_system=colours)

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self._is_terminal

    @property
    def is_dumb_terminal(self) -> bool:
        """Whether it is a terminal that cannot move its cursor."""
        return super().is_dumb_terminal or os.environ.get("TTY_COMPATIBLE") == "0"

    def on_broken_pipe(self) -> None:
        """Called by rich when a write fails."""
        raise BrokenPipeError


def on(file: TextIO) -> Console:
    """Returns a console that writes there."""
    return Screen(file)


def on_stderr() -> Console:
    """Returns the console for remarks about the results."""
    return on(sys.stderr)


def complain(sentence: str) -> None:
    """Print an error."""
    console = on_stderr()
    console.print(
        Text.assemble(("zaichik: ", "bold red"), harmless(sentence)),
        soft_wrap=not console.is_terminal,
    )


def remark(sentence: str, style: str = "dim", file: TextIO | None = None) -> None:
    """Print a remark beside the results, on standard error or in another file."""
    say(on(file or sys.stderr), sentence, style, folds=True)


def say(console: Console, sentence: str, style: str = "", *, folds: bool = False) -> None:
    """Print a sentence.

    If it folds, a terminal breaks it between words, and else where its edge is.
    """
    console.print(Text(harmless(sentence), style), soft_wrap=not (folds and console.is_terminal))


def print_json(value: Any, file: TextIO | None = None) -> None:
    """Print a value as one line of JSON, flushed at once, on standard output or in another file."""
    out = file or sys.stdout
    is_unicode = (out.encoding or "").lower().startswith("utf")
    out.write(json_line(value, ascii_only=not is_unicode) + "\n")
    out.flush()


def json_bytes(data: bytes) -> str | dict[str, str]:
    """Returns bytes as a JSON value: text if they are UTF-8, else {"base64": ...}."""
    import base64

    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


async def reader_gone() -> None:
    """Returns when the pipe on standard output has lost its reader; never if it is not a pipe.

    A program that notices only when it writes would stay, in `zaichik subscribe t | head`, until
    the next message.
    """
    if not stat.S_ISFIFO(os.fstat(STDOUT).st_mode):
        await anyio.sleep_forever()
    await anyio.wait_readable(STDOUT)  # a pipe's writing end becomes readable only when it breaks


def print_table(console: Console, table: Table) -> None:
    """Print a table: fitted to a terminal; elsewhere as plain columns, none of them cut."""
    if console.is_terminal:
        console.print(table)
        return
    table.box = None
    table.pad_edge = False
    wide = Console(file=console.file, width=PLAIN_WIDTH, highlight=False)
    with wide.capture() as captured:
        wide.print(table)
    for line in captured.get().removesuffix("\n").split("\n"):
        console.print(Text(line.rstrip()), soft_wrap=True)


def print_rows(console: Console, title: str, pairs: list[Row]) -> None:
    """Print a heading, and names and values below it."""
    say(console, title, "bold")
    print_table(console, rows(pairs))


def rows(pairs: list[Row]) -> Table:
    """Returns a table of names and values."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, Text(harmless(number(value))))
    return table


def print_columns(
    console: Console,
    names: Sequence[str],
    lines: Iterable[Sequence[str | Text]],
    right: Container[str] = (),
) -> None:
    """Print a table, with headings if there are any; the columns in `right` are numbers."""
    table = Table(header_style="bold", box=None, pad_edge=False, show_header=any(names))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for cells in lines:
        table.add_row(*(cell if isinstance(cell, Text) else Text(harmless(cell)) for cell in cells))
    print_table(console, table)


def number(value: Any) -> str:
    """Returns a value as text; a number with commas."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "-"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def setting(name: str, value: Any) -> str:
    """Returns the value of a limit or setting, formatted in its unit."""
    if name in SIZES:
        return show_size(value) + ("/s" if name == "frame_rate" else "")
    if name.endswith("_ms"):
        return quantities.show_duration(value)
    if name in {"durable", "table"}:
        return "yes" if value else "no"
    if name == "overflow":
        return Overflow(value).name.lower()
    if name.endswith(("_timeout", "_ttl")):
        return f"{value}s" if value % 1 else quantities.show_duration(round(value * 1000))
    return number(value)


SIZES = {
    "max_message",
    "max_frame",
    "max_key",
    "soft_output",
    "max_replies",
    "max_bytes",
    "max_client_bytes",
    "max_disk_bytes",
    "journal_bytes",
    "frame_rate",
    "log_bytes",
    "segment_bytes",
    "bytes",
}


def log_handler(level: int, file: TextIO, *, as_json: bool = False) -> logging.Handler:
    """Returns a handler for a log of that level.

    A client's log, of warnings only, has the style of other remarks. A broker's log has times.
    """
    handler: logging.Handler = logging.StreamHandler(file)
    if as_json:
        handler.setFormatter(JsonFormatter())
    elif level >= logging.WARNING:
        handler.setFormatter(LogFormatter("zaichik: %(message)s"))
    elif file.isatty():
        handler = RichHandler(
            console=on(file), show_path=False, omit_repeated_times=False, log_time_format="%X"
        )
        handler.setFormatter(LogFormatter())
    else:
        handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


@contextmanager
def logging_to(handler: logging.Handler, level: int) -> Iterator[None]:
    """Give zaichik's log to the handler for the duration of the block.

    A client's log also says when it has recovered: after a warning, its user waits for that.
    """
    logger = logging.getLogger("zaichik")
    before, logger.handlers = logger.handlers, [handler]
    try:
        with at_level(level, "zaichik"), at_level(min(level, logging.INFO), "zaichik.client"):
            yield
    finally:
        logger.handlers = before


@contextmanager
def logging_to_stderr(level: int = logging.WARNING) -> Iterator[None]:
    """Show zaichik's log on standard error for the duration of the block."""
    with logging_to(log_handler(level, sys.stderr), level):
        yield


@contextmanager
def at_level(level: int, *names: str) -> Iterator[None]:
    """Have the loggers of these names log from this level on for the duration of the block."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.setLevel(old)


def without_warnings(client: str = "zaichik.client") -> AbstractContextManager[None]:
    """Show only the client's errors during the block: its warnings are reported another way."""
    return at_level(logging.ERROR, client)
