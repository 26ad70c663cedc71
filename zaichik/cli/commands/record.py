"""`zaichik record`: saves topics as Parquet files.

Save topics as Parquet files, a folder for each topic and day (UTC), for Spark, DuckDB, Polars and
pandas to read. Run it again with the same folder, and it continues where the files end: however the
last run ended, no message is saved twice, and none is skipped. If the connection is lost, it ends
with what it has; with --follow, or if the topic is durable, it tries to reconnect for a minute
first. Messages that the broker had dropped before they could be saved are reported as missing, and
the exit code is 3; so are deletions of a table's keys that came and went between two runs. Of a
topic with a compaction window, record the journal: it knows what was dropped. (A durable topic
cannot have one yet.)

Examples:
  zaichik record orders                       # all messages, into ./recording
  zaichik record orders payments --into /data/zaichik
  zaichik record orders payments --follow     # and new ones, until Ctrl-C
  zaichik record '$journal/orders'            # what became of each message
  zaichik stats recording                     # what a window would do

files:
  FOLDER/topic=orders/day=2026-01-31/EPOCH-START-END.parquet
  with the columns offset, timestamp, key and payload
  A name that is too long for a folder is shortened; the full name is in the
  files' metadata (zaichik.topic).
"""

import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import TaskID, TimeElapsedColumn

from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.base.extras import getting
from zaichik.cli import connecting, interrupts, names, screen
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.failure import Failure
from zaichik.cli.progress import bars as progress_bars
from zaichik.client.client import RECONNECT_SECONDS

if TYPE_CHECKING:
    from zaichik.apps.recording.recorder import Progress

MISSING = 3  # the exit code
POLL_SECONDS = 0.25  # between two checks of the recorders: signals come to this thread only
INTERRUPTED = 130

ARGUMENTS = (
    argument("TOPIC...", "a topic to record", names.name, dest="topics"),
    argument("--into FOLDER", "the recording's folder", Path, default="./recording"),
    argument("--follow", "continue with new messages, until Ctrl-C"),
    argument("--json", "print one JSON object for each topic"),
    connecting.ADDRESS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Record the topics: one after the other, or all at once if they are followed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise Failure(
            f"recording needs pyarrow, which is not installed; get it with {getting('record')}"
        )
    if len(set(arguments.topics)) < len(arguments.topics):
        raise Failure("a topic is named twice; name each once")
    # Nothing else runs in this event loop, and recording blocks it.
    with interrupts.at_once():
        return _recorded(arguments, console)


def _recorded(arguments: Namespace, console: Console) -> int:
    durable = _check(arguments)
    at_once = len(arguments.topics) if arguments.follow else 1
    with (
        interrupts.noted() as interrupted,
        screen.without_warnings("zaichik.client.subscription"),
        _bars() as tell,
    ):
        failed = Event()

        def stopping() -> bool:
            return interrupted() or failed.is_set()

        with ThreadPoolExecutor(at_once) as threads:
            recorders = [
                threads.submit(
                    _record, topic, arguments, tell, stopping, is_durable=topic in durable
                )
                for topic in arguments.topics
            ]
            while wait(recorders, POLL_SECONDS, FIRST_EXCEPTION).not_done and not failed.is_set():
                if any(recorder.done() and recorder.exception() for recorder in recorders):
                    failed.set()  # the others end, and what they have is complete
    found = [recorder.result() for recorder in recorders if recorder.exception() is None]
    for progress in found:
        if progress is not None and (progress.recorded or progress.missing or not failed.is_set()):
            _summarise(progress, arguments, console)
    for recorder in recorders:
        recorder.result()  # raises its error, if it has one
    if interrupted():
        return INTERRUPTED
    is_whole = not any(
        progress.missing or progress.deletions_missed for progress in found if progress
    )
    return 0 if is_whole else MISSING


def _check(arguments: Namespace) -> set[str]:
    """Finds out whether all topics are there, before any is recorded.

    Returns those that are durable.
    """
    from zaichik.apps.recording.recorder import state_of
    from zaichik.client import blocking

    with blocking.connect(arguments.connect, name="zaichik record", reconnect=0) as client:
        return {
            topic
            for topic in arguments.topics
            if state_of(client, topic)["settings"].get("durable")
        }


def _record(
    topic: str,
    arguments: Namespace,
    tell: Callable[["Progress"], None],
    stopping: Callable[[], bool],
    *,
    is_durable: bool,
) -> "Progress | None":
    """Records a topic, over a connection of its own.

    None if it is time to stop before it has begun.
    """
    from zaichik.apps.recording.recorder import record
    from zaichik.client import blocking

    if stopping():
        return None
    # What there was to record of a topic that is not durable is gone with its broker.
    reconnect = RECONNECT_SECONDS if arguments.follow or is_durable else 0
    with blocking.connect(arguments.connect, name="zaichik record", reconnect=reconnect) as client:
        return record(
            client, topic, arguments.into, follow=arguments.follow, tell=tell, stopping=stopping
        )


@contextmanager
def _bars() -> Iterator[Callable[["Progress"], None]]:
    """Returns a function that shows progress: bars on a terminal, nothing elsewhere."""
    bars = progress_bars(TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}

    def tell(progress: "Progress") -> None:
        if progress.topic not in tasks:
            tasks[progress.topic] = bars.add_task(shown(progress.topic), total=None)
        total = None if progress.end is None else progress.end - progress.start
        bars.update(tasks[progress.topic], completed=progress.next - progress.start, total=total)

    with bars, screen.logging_to_stderr():  # which is that of the bars now: the log goes above them
        yield tell


def _summarise(progress: "Progress", arguments: Namespace, console: Console) -> None:
    topic, recorded, missing = shown(progress.topic), progress.recorded, progress.missing
    if arguments.json:
        names = ("topic", "epoch", "start", "next", "recorded", "missing", "deletions_missed")
        screen.print_json({name: getattr(progress, name) for name in names})
    elif missing and not recorded:
        screen.remark(_all_gone(progress), "yellow")
    else:
        offsets = f"offsets {progress.start:,} to {progress.next - 1:,}"
        done = f"{counted(recorded, 'message')} recorded into {arguments.into} ({offsets})"
        if not recorded:
            done = f"nothing new; {arguments.into} has everything below offset {progress.next:,}"
        screen.say(console, f"{topic}: {done}")
    if missing and recorded:
        what = f"{missing:,} messages are missing: the broker no longer had them"
        if missing == 1:
            what = "1 message is missing: the broker no longer had it"
        screen.remark(f"{topic}: {what}", "yellow")
    if progress.deletions_missed:
        screen.remark(
            f"{topic}: keys may have been deleted unseen, below offset "
            f"{progress.deletions_missed:,}: record more often, or keep tombstones for longer",
            "yellow",
        )


def _all_gone(progress: "Progress") -> str:
    """Why there was nothing to record, and what to do."""
    what = f"{progress.missing:,} messages are gone"
    if progress.missing == 1:
        what = "1 message is gone"
    gone = f"{shown(progress.topic)}: nothing to record: {what}"
    if progress.retention_ms:
        return (
            f"{gone}, because the topic's retention or its room was over before they could be "
            "recorded"
        )
    return (
        f"{gone}, because the topic has no retention: it keeps nothing for those who come later. "
        "Create it with one "
        "before anything is published (zaichik create TOPIC --retention 1h), or record while "
        "messages come (--follow)"
    )
