"""`zaichik record`: saves topics as Parquet files, in a folder or an object store.

Save topics as Parquet files, a folder for each topic and day (UTC), for Spark, DuckDB, Polars and
pandas to read. Run it again with the same folder, and it continues where the files end: however the
last run ended, no message is saved twice, and none is skipped. If the connection is lost, it ends
with what it has; with --follow, or if the topic is durable, it tries to reconnect for a minute
first. Messages that the broker had dropped before they could be saved are reported as missing, and
the exit code is 3; so are deletions of a table's keys that came and went between two runs. Of a
topic with a compaction window, record the journal: it knows what was dropped. (A durable topic
cannot have one yet.) The journal of a table knows what was superseded. Recorded itself, a table has
its tombstones, messages with a key and an empty payload, and its holes are no gaps.

Into an object store, it records as into a folder. With --follow, the broker keeps what is not
recorded yet under a name (archive, or --name; also for a folder), which is committed when a file is
complete: a topic with --overflow reject and --retention forever keeps it for a minute after the
recorder has gone, a durable one for a week. Credentials are found as by the store's own tools:
environment, profile, or role.

A TOPIC with a * is a pattern: * stands for one or more characters but a dot, ** for any number of
any characters. With --follow, topics that come later are recorded, too, up to 100 of a pattern at
once; topics that go are reported, and what was recorded of them is kept.

Examples:
  zaichik record orders                       # all messages, into ./recording
  zaichik record orders payments --into /data/zaichik
  zaichik record orders payments --follow     # and new ones, until Ctrl-C
  zaichik record 'orders.*' --follow          # also those that come later
  zaichik record orders --follow --into s3://lake/zaichik      # or gs:, abfs:
  zaichik record '$journal/orders'            # what became of each message
  zaichik stats recording                     # what a window would do

files:
  PLACE/topic=orders/day=2026-01-31/EPOCH-START-END.parquet
  with the columns offset, timestamp, key, payload and epoch
  A name that is too long for a folder is shortened; the full name is in the
  files' metadata (zaichik.topic).
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import TaskID, TimeElapsedColumn

from zaichik.apps.recording.places import Place, place, shown_place
from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.base.extras import getting
from zaichik.cli import connecting, interrupts, names, quantities, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument, within
from zaichik.cli.failure import Failure
from zaichik.cli.progress import bars as progress_bars
from zaichik.client.client import RECONNECT_SECONDS
from zaichik.client.patterns.pattern import Pattern, is_pattern

if TYPE_CHECKING:
    from pathlib import Path

    from zaichik.apps.recording.matching import MatchingTopics
    from zaichik.apps.recording.recorder import Progress
    from zaichik.apps.recording.stores import Store

MISSING = 3  # the exit code
INTERRUPTED = 130


def _into(text: str) -> Place:
    try:
        return place(text)
    except ValueError as error:
        raise WrongUsage(str(error)) from None


_every = within(
    quantities.duration,
    lambda seconds: seconds != "forever" and seconds >= 1,
    "{} is no time between two files; write 1s or more, such as 5m",
)

ARGUMENTS = (
    argument("TOPIC...", "a topic to record, or a pattern", names.name, dest="topics"),
    argument(
        "--into PLACE",
        "a folder, or a place in an object store: s3://, gs:// or abfs://",
        _into,
        default="./recording",
    ),
    argument("--follow", "continue with new messages, until Ctrl-C"),
    argument(
        "--every DURATION",
        "with --follow: messages are in a file after that time at most (default: 30s in a "
        "folder, 5m in an object store)",
        _every,
    ),
    argument(
        "--name NAME",
        "have the broker keep what is not recorded yet, under this name (default: archive, with "
        "--follow into an object store)",
        names.name,
        default="",
    ),
    argument("--exact", "a * in TOPIC is a character of its name, and not a pattern"),
    argument("--json", "print one JSON object for each topic"),
    connecting.ADDRESS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Record the topics: one after the other, or all at once if they are followed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise Failure(
            f"recording needs pyarrow, which is not installed; get it with {getting('record')}"
        )
    if arguments.every and not arguments.follow:
        raise WrongUsage("--every is for --follow: without it, all is in files at the end")
    if len(set(arguments.topics)) < len(arguments.topics):
        raise Failure("a topic is named twice; name each once")
    # Nothing else runs in this event loop, and recording blocks it.
    with interrupts.at_once():
        return _recorded(arguments, console)


def _recorded(arguments: Namespace, console: Console) -> int:
    from zaichik.apps.recording.recorders import Recorders
    from zaichik.apps.recording.stores import Store

    names, patterns = _divided(arguments)
    # A bucket that is not there is found out before anything is read.
    root: Path | Store = arguments.into
    if isinstance(arguments.into, str):
        root = Store.at(arguments.into)
    with (
        _looking(arguments, names, patterns) as (durable, matching),
        interrupts.noted() as interrupted,
        screen.without_warnings("zaichik.client.subscription"),
        _progress(arguments, console) as tell,
    ):

        def record(topic: str) -> "Progress | None":
            return _record(topic, root, arguments, tell, stopping, is_durable=topic in durable)

        def stopping() -> bool:
            return interrupted() or recorders.failed.is_set()

        recorders = Recorders(record, names, matching, follow=arguments.follow)
        found = recorders.run(stopping)
    for progress in sorted(found.progress, key=lambda one: _place(one, names)):
        if progress.recorded or progress.missing or not found.failures:
            _summarise(progress, arguments, console)
    if found.failures:
        raise found.failures[0]
    if interrupted():
        return INTERRUPTED
    if patterns and not found.progress and not arguments.json:
        screen.remark(f"no topic matches {' or '.join(map(shown, patterns))}", "yellow")
    is_whole = not any(progress.missing or progress.deletions_missed for progress in found.progress)
    if found.unseen or found.unread:
        is_whole = False
    return 0 if is_whole else MISSING


def _place(progress: "Progress", names: Sequence[str]) -> tuple[int, str]:
    """Where the summary of a topic comes: first those that were named, in their order."""
    if progress.topic in names:
        return names.index(progress.topic), progress.topic
    return len(names), progress.topic


def _divided(arguments: Namespace) -> tuple[list[str], list[str]]:
    """Returns the topics that are named, and the patterns.

    Raises:
        WrongUsage: a pattern can match nothing.
    """
    patterns = []
    if not arguments.exact:
        patterns = [topic for topic in arguments.topics if is_pattern(topic)]
    for pattern in patterns:
        try:
            Pattern(pattern)
        except ValueError as error:
            raise WrongUsage(str(error)) from None
    return [topic for topic in arguments.topics if topic not in patterns], patterns


@contextmanager
def _looking(
    arguments: Namespace, names: Sequence[str], patterns: Sequence[str]
) -> "Iterator[tuple[set[str], list[MatchingTopics]]]":
    """Returns which named topics are durable, and for each pattern the topics that match.

    That all named topics are there is found out before any is recorded.
    """
    from zaichik.apps.recording.matching import MatchingTopics
    from zaichik.apps.recording.recorder import state_of
    from zaichik.client import blocking

    reconnect = RECONNECT_SECONDS * bool(patterns and arguments.follow)
    connecting = blocking.connect(arguments.connect, name="zaichik record", reconnect=reconnect)
    with ExitStack() as stack:
        client = stack.enter_context(connecting)
        durable = {name for name in names if state_of(client, name)["settings"].get("durable")}
        matching = []
        for pattern in patterns:
            matching.append(MatchingTopics(client, Pattern(pattern)))
            # The client waits for all that is open.
            stack.callback(matching[-1].close)
        if not matching:
            # Nothing more is asked.
            stack.close()
        yield durable, matching


def _record(
    topic: str,
    root: "Path | Store",
    arguments: Namespace,
    tell: Callable[["Progress"], None],
    stopping: Callable[[], bool],
    *,
    is_durable: bool,
) -> "Progress | None":
    """Records a topic, over a connection of its own.

    None if it is time to stop before it has begun.
    """
    from zaichik.apps.recording.recorder import EVERY_SECONDS, FLUSH_SECONDS, NAME, record
    from zaichik.client import blocking

    if stopping():
        return None
    name, every = arguments.name, arguments.every or FLUSH_SECONDS
    if isinstance(arguments.into, str):
        every = arguments.every or EVERY_SECONDS
        if arguments.follow:
            name = name or NAME
    # What there was to record of a topic that is not durable is gone with its broker.
    reconnect = RECONNECT_SECONDS if arguments.follow or is_durable else 0
    with blocking.connect(arguments.connect, name="zaichik record", reconnect=reconnect) as client:
        return record(
            client,
            topic,
            root,
            follow=arguments.follow,
            name=name,
            every=every,
            tell=tell,
            stopping=stopping,
        )


@contextmanager
def _progress(arguments: Namespace, console: Console) -> Iterator[Callable[["Progress"], None]]:
    """Returns a function that shows progress: bars on a terminal.

    Elsewhere a recorder that follows, which may run for months, says once that it has begun.
    """
    bars = progress_bars(TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}

    def tell(progress: "Progress") -> None:
        if progress.topic not in tasks:
            tasks[progress.topic] = bars.add_task(shown(progress.topic), total=None)
            if bars.disable and arguments.follow and not arguments.json:
                where = shown_place(arguments.into)
                begun = f"recording into {where} from offset {progress.start:,}"
                screen.say(console, f"{shown(progress.topic)}: {begun}")
        total = None if progress.end is None else progress.end - progress.start
        bars.update(tasks[progress.topic], completed=progress.next - progress.start, total=total)

    with bars, screen.logging_to_stderr():  # which is that of the bars now: the log goes above them
        yield tell


def _summarise(progress: "Progress", arguments: Namespace, console: Console) -> None:
    topic, recorded, missing = shown(progress.topic), progress.recorded, progress.missing
    where = shown_place(arguments.into)
    if arguments.json:
        names = ("topic", "epoch", "start", "next", "recorded", "missing", "deletions_missed")
        screen.print_json({name: getattr(progress, name) for name in names})
    elif missing and not recorded:
        screen.remark(_all_gone(progress), "yellow")
    else:
        offsets = f"offsets {progress.start:,} to {progress.next - 1:,}"
        done = f"{counted(recorded, 'message')} recorded into {where} ({offsets})"
        if not recorded:
            done = f"nothing new; {where} has everything below offset {progress.next:,}"
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
