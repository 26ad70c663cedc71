"""`zaichik record`: saves topics as Parquet files."""

import argparse
import importlib.util
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from zaichik.console import address, names, screen
from zaichik.console.failure import Failure
from zaichik.escapes import harmless, shown

if TYPE_CHECKING:
    from zaichik.recording.recorder import Progress

DESCRIPTION = """\
Save topics as Parquet files, a folder for each topic and day (UTC), for Spark, DuckDB, Polars and pandas to read.
Run it again with the same folder, and it continues where the files end: however the last run ended, no message is
lost or saved twice. Messages that the broker had dropped before they could be saved are reported as missing, and the
exit code is 3.
"""

EPILOG = """\
examples:
  zaichik record orders                       # all messages there are, into ./recording
  zaichik record orders payments --into /data/zaichik
  zaichik record orders --follow              # and new ones, until Ctrl-C
  zaichik stats recording                     # what a compaction window would do

files:
  FOLDER/topic=orders/day=2026-01-31/EPOCH-START-END.parquet
  with the columns offset, timestamp, key and payload
  A name that is too long for a folder is shortened; the full name is in the files' metadata (zaichik.topic).
"""

MISSING = 3  # the exit code
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `zaichik record`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("topics", metavar="TOPIC", nargs="+", type=names.name, help="a topic to record")
    parser.add_argument(
        "--into",
        metavar="FOLDER",
        type=Path,
        default=Path("recording"),
        help="the recording's folder (default: ./recording)",
    )
    parser.add_argument("--follow", action="store_true", help="continue with new messages; for one topic only")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each topic")
    address.add_option(parser)


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Record the topics, one after the other."""
    if importlib.util.find_spec("pyarrow") is None:
        raise Failure("recording needs pyarrow, which is not installed: pip install 'zaichik[record]'")
    if arguments.follow and len(arguments.topics) > 1:
        raise argparse.ArgumentTypeError("--follow takes one topic; start a recorder for each of them")
    from zaichik import blocking
    from zaichik.recording.recorder import record

    missing = 0
    host, port = arguments.connect
    with _interruptible() as stopping, blocking.connect(host, port, name="zaichik record") as client:
        for topic in arguments.topics:
            with screen.without_warnings(blocking.__name__), _bar(topic) as tell:
                progress = record(client, topic, arguments.into, follow=arguments.follow, tell=tell, stopping=stopping)
            _summarise(progress, arguments, console)
            missing += progress.missing
            if stopping():
                return INTERRUPTED
    return MISSING if missing else 0


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks to stop, so that the current file is finished. A second one interrupts at once."""
    asked = []

    def ask(*_: object) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar(topic: str) -> Iterator[Callable[["Progress"], None]]:
    """Returns a function that shows progress: a bar on a terminal, elsewhere nothing."""
    console = screen.on_stderr()
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("messages"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal or console.is_dumb_terminal,
    )
    task = bar.add_task(shown(topic), total=None)

    def tell(progress: "Progress") -> None:
        total = None if progress.end is None else progress.end - progress.start
        bar.update(task, completed=progress.next - progress.start, total=total)

    with bar:
        yield tell


def _summarise(progress: "Progress", arguments: argparse.Namespace, console: Console) -> None:
    topic, recorded, missing = shown(progress.topic), progress.recorded, progress.missing
    if arguments.json:
        names = ("topic", "epoch", "start", "next", "recorded", "missing")
        screen.print_json({name: getattr(progress, name) for name in names})
    elif recorded:
        offsets = f"offsets {progress.start:,} to {progress.next - 1:,}"
        sentence = f"{topic}: {recorded:,} messages recorded into {arguments.into} ({offsets})"
        console.print(Text(harmless(sentence)), soft_wrap=True)
    elif missing and progress.next == progress.start:
        screen.remark(_all_gone(progress), "yellow")
    else:
        sentence = f"{topic}: nothing new; {arguments.into} has everything below offset {progress.next:,}"
        console.print(Text(harmless(sentence)), soft_wrap=True)
    if missing and progress.next > progress.start:
        screen.remark(f"{topic}: {missing:,} messages are missing: the broker no longer had them", "yellow")


def _all_gone(progress: "Progress") -> str:
    """Why there was nothing to record, and what to do."""
    gone = f"{shown(progress.topic)}: nothing to record: {progress.missing:,} messages are gone"
    if progress.retention_ms:
        return f"{gone}, because the topic's retention or its room was over before they could be recorded"
    return (
        f"{gone}, because the topic has no retention: it keeps nothing for those who come later. Create it with one "
        "before anything is published (zaichik create TOPIC --retention 1h), or record while messages come (--follow)"
    )
