"""`zaichik stats`: shows what compaction has done to topics, and what other windows would do."""

import argparse
import importlib.util
import os
import re
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaichik.client.errors import ZaichikError
from zaichik.console import address, quantities, screen
from zaichik.console.failure import Failure
from zaichik.escapes import harmless, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zaichik.spark.advice import Statistics
    from zaichik.spark.report import Columns
    from zaichik.spark.sources import Source
    from zaichik.spark.windows import Window

DESCRIPTION = """\
Which compaction window should a topic have, what will it save, and what will it lose? Computed with Spark, on this
machine or on a cluster, from recordings (see zaichik record) or from what a broker holds now. A topic with a journal
is read from that: only the journal knows what was dropped.

An update is lost if a dropped message's payload differs from that of the message that was kept. The broker keeps the
first message of a window, so readers see the older value until the key's next message is stored: late, or never.
With a policy that keeps the last message, only later readers would miss superseded ones.

If messages are missing in between, the numbers are not exact: that is reported, and the exit code is 3.
"""

EPILOG = """\
examples:
  zaichik stats recording                               # all topics of a recording
  zaichik stats orders payments                         # topics of a running broker
  zaichik stats recording --windows 1m,5m,15m,1h,forever
  zaichik stats recording --html report.html --plot report.png
  zaichik stats recording --master spark://cluster:7077
  zaichik stats recording --json | jq '.[].advice'
"""

WINDOWS = "1m,5m,15m,1h,6h,1d"
LONGEST = 36_525 * 86_400  # seconds: a century, as in a topic's settings
MISSING = 3  # the exit code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `zaichik stats`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="+", help="a recording's folder; anything else is a topic of the broker"
    )
    parser.add_argument(
        "--windows", metavar="LIST", type=_windows, default=WINDOWS, help="windows to try (default: %(default)s)"
    )
    parser.add_argument(
        "--most-lost",
        metavar="PERCENT",
        type=_percent,
        default="1",
        help="most updates an advised window may lose (default: %(default)s)",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write a page to read in a browser")
    parser.add_argument("--plot", metavar="FILE", type=_picture, help="also write the plots: .png or .svg")
    parser.add_argument("--json", action="store_true", help="print one JSON list with everything")
    parser.add_argument(
        "--master", metavar="URL", default="local[*]", help="where Spark runs (default: %(default)s, all cores here)"
    )
    address.add_option(parser)


def _windows(text: str) -> "list[Window]":
    lengths: list[Window] = []
    for word in text.split(","):
        seconds = quantities.duration(word.strip())
        if seconds == "forever":
            lengths.append("forever")
        elif timedelta(microseconds=1).total_seconds() <= seconds <= LONGEST:
            lengths.append(timedelta(seconds=seconds))
        else:
            raise argparse.ArgumentTypeError(f"{word} is not a window; write one from 1ms to 36525d, or forever")
    return lengths


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage; write a number from 0 to 100")
    return value / 100


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix not in {".png", ".svg"}:
        raise argparse.ArgumentTypeError(f"{text!r} does not name a picture; it must end with .png or .svg")
    return path


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Compute the statistics and show them."""
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("statistics need PySpark, which is not installed: pip install 'zaichik[spark]'")
    # Nothing else runs in this event loop, and Spark's calls block it: let Ctrl-C end them as in any program.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for file in filter(None, (arguments.html, arguments.plot)):
        if not file.parent.is_dir():
            raise Failure(f"{file.parent} is not a folder, so {file.name} cannot be written there")
        if file.is_dir():
            raise Failure(f"{file} is a folder, so it cannot be written")
    statistics = _counted(arguments)
    from zaichik.spark import report

    if arguments.html:
        report.write_page(arguments.html, statistics, arguments.most_lost)
    files = report.write_plots(arguments.plot, statistics) if arguments.plot else []
    if arguments.json:
        _print_json(statistics, arguments.most_lost)
    else:
        for one in statistics:
            _show(console, one, arguments.most_lost)
    for file in filter(None, (arguments.html, *files)):
        screen.remark(f"written: {file}")
    return MISSING if any(one.missing for one in statistics) else 0


def _counted(arguments: argparse.Namespace) -> "list[Statistics]":
    """Returns the statistics. An error inside Spark becomes one sentence; Java's log has the rest."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    from zaichik.spark import advice

    sources = _sources(arguments)  # before Spark starts: a missing source is reported at once
    descriptor, name = tempfile.mkstemp(prefix="zaichik-spark-", suffix=".log")
    os.close(descriptor)
    log = Path(name)
    try:
        with (
            screen.on_stderr().status("starting Spark, which takes some seconds") as status,
            _session(arguments.master, log) as spark,
            _damage_named(arguments),
        ):
            status.update("counting")
            events = reduce(DataFrame.unionByName, (source.events(spark) for source in sources))
            counted = advice.collect(events, arguments.windows)
    except (PySparkException, Py4JJavaError) as error:
        raise Failure(f"{_sentence(str(error), log)} (Spark's log: {log})") from error
    except (ZaichikError, KeyboardInterrupt):  # the log has nothing to add
        log.unlink()
        raise
    log.unlink()
    if not counted:
        raise Failure(f"there are no messages in {', '.join(arguments.sources)}, so there is nothing to count")
    return counted


@contextmanager
def _session(master: str, log: Path) -> "Iterator[SparkSession]":
    """Returns a session that ends with the block, unless it was running before."""
    from pyspark.sql import SparkSession

    from zaichik.spark import session

    was_running = SparkSession.getActiveSession() is not None
    with _uninterrupted():
        spark = session(master, log=log)
    try:
        yield spark
    finally:
        if not was_running:
            spark.stop()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Defers Ctrl-C to the end of the block: interrupted while starting Java, PySpark leaves it running for good."""
    asked = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


@contextmanager
def _damage_named(arguments: argparse.Namespace) -> "Iterator[None]":
    """If Spark fails on a damaged file, raises an error that names the file, which Spark's own does not."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from zaichik.spark.sources import check_all

    try:
        yield
    except (PySparkException, Py4JJavaError):
        for folder in _folders(arguments):
            check_all(folder)
        raise


def _sources(arguments: argparse.Namespace) -> "list[Source]":
    """Returns the sources, checked."""
    from zaichik.spark.sources import at_broker, check_distinct, recorded

    topics = [source for source in arguments.sources if not Path(source).is_dir()]
    sources = [recorded(folder) for folder in _folders(arguments)]
    if topics:
        host, port = arguments.connect
        sources.append(at_broker(host, port, topics))
    check_distinct(sources)
    return sources


def _folders(arguments: argparse.Namespace) -> list[Path]:
    """Returns the recordings among the sources."""
    return [Path(source) for source in arguments.sources if Path(source).is_dir()]


def _sentence(text: str, log: Path) -> str:
    """Returns the sentence for an exception from Spark: our own if it contains one, else that of the innermost."""
    if "[JAVA_GATEWAY_EXITED]" in text:  # Java ended while it was starting: only the log says why
        reason = re.search(r"^Exception in thread \S+ [\w.]+: (.+)$", log.read_text(errors="replace"), re.MULTILINE)
        return reason[1] if reason else "Java ended while Spark was starting"
    ours = re.findall(r"^zaichik\.[\w.]+: (.+)$", text, re.MULTILINE)
    causes = re.findall(r"^(?:Caused by)?: (.+)$", text, re.MULTILINE)  # py4j puts the outermost behind a bare colon
    return next((found[-1] for found in (ours, causes) if found), text.strip().partition("\n")[0])


def _print_json(statistics: "Sequence[Statistics]", most_lost: float) -> None:
    from zaichik.spark.advice import sentence

    screen.print_json(
        [
            {
                "topic": one.topic,
                "advice": sentence(one, most_lost),
                "missing": one.missing,
                "account": one.account,
                "what_if": one.what_if,
                "hot_keys": [row | {"key": screen.json_bytes(bytes(row["key"]))} for row in one.hot_keys],
            }
            for one in statistics
        ]
    )


def _show(console: Console, one: "Statistics", most_lost: float) -> None:
    from zaichik.spark.advice import caveat, sentence
    from zaichik.spark.report import ACCOUNT_COLUMNS, HOT_KEY_COLUMNS, WHAT_IF_COLUMNS

    _show_table(console, f"topic {shown(one.topic)}: the policy that ran", ACCOUNT_COLUMNS, [one.account])
    if one.hot_keys:
        _show_table(console, "hot keys", HOT_KEY_COLUMNS, one.hot_keys)
    _show_table(console, "other windows", WHAT_IF_COLUMNS, one.what_if)
    console.print(Text(harmless(sentence(one, most_lost)), "bold"), soft_wrap=not console.is_terminal)
    console.print()
    if one.missing:
        screen.remark(caveat(one), "yellow")


def _show_table(console: Console, title: str, columns: "Columns", rows: list[dict[str, object]]) -> None:
    console.print(Text(harmless(title), "bold"), soft_wrap=True)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for number, (name, _) in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(show(row))) for _, show in columns))
    screen.print_table(console, table)
    console.print()
