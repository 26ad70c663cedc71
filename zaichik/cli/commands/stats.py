"""`zaichik stats`: shows what compaction has done to topics, and what other windows would do.

Which compaction window should a topic have, what will it save, and what will it lose? From
recordings (see zaichik record) or from what a broker holds now, of a durable topic all that is on
its disk. A topic that already has a window needs a journal (zaichik create --journal; a durable
topic cannot have one yet), and is read from that: only the journal knows what was dropped. So
does a table, whose journal knows what was superseded.

An update is lost if a dropped message's payload differs from that of the message that was kept. The
broker keeps the first message of a window, so readers see the older value until the key's next
message is stored: late, or never. With a policy that keeps the last message, only readers that come
later miss the messages it replaces. So it is with a table, which keeps the newest message of each
key, and has no window.

What is not known is shown as "?", never guessed.

Everything is counted in this process, topic by topic, within about the memory that --memory allows:
a larger topic is divided into temporary files first (in TMPDIR). With --master, Spark counts, on
this machine or on a cluster.

exit codes: 0; 3 if something is not known, such as messages that were gone, or dropped without a
journal; 1 for an error; 130 for Ctrl-C, after showing the topics that were finished

Examples:
  zaichik stats recording                          # all topics of a recording
  zaichik stats orders payments                    # topics of a running broker
  zaichik stats s3://lake/zaichik                  # one in an object store
  zaichik stats recording --windows 1m,5m,15m,1h,forever
  zaichik stats recording --html report.html --plot report.png
  zaichik stats recording --json | jq '.[].advice'
  zaichik stats recording --master 'local[*]'      # with Spark, on all cores
  zaichik stats recording --master spark://cluster:7077
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import TimeRemainingColumn

from zaichik.apps.recording.places import Place, is_in_object_store, place
from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.base.extras import getting
from zaichik.cli import connecting, interrupts, progress, quantities, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument, within
from zaichik.cli.failure import Failure
from zaichik.client.errors import ZaichikError

if TYPE_CHECKING:
    from zaichik.apps.statistics.chain import Window
    from zaichik.apps.statistics.report import Columns
    from zaichik.apps.statistics.sources import Topic
    from zaichik.apps.statistics.truth import Statistics

WINDOWS = "1m,5m,15m,1h,6h,1d"
LONGEST = 36_525 * 86_400  # seconds: a century, as in a topic's settings
MISSING, INTERRUPTED = 3, 130  # exit codes


def _windows(text: str) -> "list[Window]":
    lengths: list[Window] = []
    for word in text.split(","):
        seconds = quantities.duration(word.strip())
        if seconds == "forever":
            lengths.append("forever")
        elif timedelta(microseconds=1).total_seconds() <= seconds <= LONGEST:
            lengths.append(timedelta(seconds=seconds))
        else:
            raise WrongUsage(f"{word} is not a window; write one from 1ms to 36525d, or forever")
    return lengths


_percent = within(
    lambda text: float(text) / 100,
    lambda part: 0 <= part <= 1,
    "{} is not a percentage; write a number from 0 to 100",
)
_memory = within(
    quantities.size,
    lambda size: size > 0,
    "{} is no memory to count with; write some, such as 64MiB",
)
_picture = within(
    Path,
    lambda path: path.suffix in {".png", ".svg"},
    "{} does not name a picture; it must end with .png or .svg",
)

ARGUMENTS = (
    argument(
        "SOURCE...",
        "a recording's folder or place (s3://, gs://, abfs://); anything else is a topic of the "
        "broker",
        dest="sources",
    ),
    argument("--windows LIST", "windows to try", _windows, default=WINDOWS),
    argument(
        "--most-lost PERCENT",
        "updates that an advised window may lose at most, in %% of all messages",
        _percent,
        default="1",
    ),
    argument("--html FILE", "also write a page to read in a browser", Path),
    argument("--plot FILE", "also write the plots: .png or .svg", _picture),
    argument("--json", "print one JSON list with everything"),
    argument("--memory SIZE", "memory limit for counting", _memory, default="1GiB"),
    argument("--master URL", "count with Spark, which runs there (needs the extra spark)"),
    connecting.ADDRESS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Compute the statistics and show them."""
    _check_packages(arguments)
    _check_files(arguments)
    # Nothing else runs in this event loop, and counting blocks it.
    with interrupts.at_once():
        return _shown(arguments, console)


def _shown(arguments: Namespace, console: Console) -> int:
    topics = _topics(arguments)
    if arguments.master:
        from zaichik.cli.stats_spark import counted_by_spark

        statistics, end = counted_by_spark(topics, arguments.windows, arguments.master), None
    else:
        statistics, end = _counted(topics, arguments)
    if statistics:
        _output(statistics, arguments, console)
    if isinstance(end, ZaichikError):
        raise end
    if end is not None:
        screen.remark(
            f"interrupted: counted {len(statistics):,} of {counted(len(topics), 'topic')}", "yellow"
        )
        return INTERRUPTED
    without = [topic for topic in topics if topic.name not in {one.topic for one in statistics}]
    if not statistics and not any(map(_lost, without)):
        raise Failure(
            f"there are no messages in {', '.join(arguments.sources)}, so there is nothing to count"
        )
    for topic in without:
        gone = "it has no messages"
        if _lost(topic):
            gone = f"all of its {_lost(topic):,} messages are gone"
            if _lost(topic) == 1:
                gone = "its only message is gone"
        screen.remark(f"{shown(topic.name)}: {gone}, so there is nothing to count", "yellow")
    if all(one.is_exact for one in statistics) and not any(map(_lost, without)):
        return 0
    return MISSING


def _check_packages(arguments: Namespace) -> None:
    needed = [("pyarrow", "stats"), ("matplotlib", "stats")]
    if arguments.master:
        needed.append(("pyspark", "spark"))
    for package, extra in needed:
        if importlib.util.find_spec(package) is None:
            raise Failure(
                f"this needs {package}, which is not installed; get it with {getting(extra)}"
            )


def _check_files(arguments: Namespace) -> None:
    """Refuse files that could not be written, before counting begins."""
    for file in filter(None, (arguments.html, arguments.plot)):
        if not file.parent.is_dir():
            raise Failure(f"{file.parent} is not a folder, so {file.name} cannot be written there")
        if file.is_dir():
            raise Failure(f"{file} is a folder, so it cannot be written")


def _lost(topic: "Topic") -> int:
    """How many messages were published to a topic that has none to count."""
    return sum(topic.ends.values())


def _topics(arguments: Namespace) -> "list[Topic]":
    """Returns the sources' topics, in the order of their names."""
    from zaichik.apps.statistics.sources import check_distinct, held, recorded

    places: list[Place] = []
    at_broker = []
    for source in arguments.sources:
        if is_in_object_store(source):
            places.append(_in_object_store(source, arguments))
        elif Path(source).is_dir():
            places.append(Path(source))
        else:
            at_broker.append(source)
    topics: list[Topic] = [topic for where in places for topic in recorded(where)]
    if at_broker:
        topics += held(arguments.connect, at_broker)
    check_distinct(topics)
    return sorted(topics, key=lambda topic: topic.name)


def _in_object_store(source: str, arguments: Namespace) -> Place:
    if arguments.master:
        raise WrongUsage(
            "--master reads recordings in folders: leave it out, and they are counted here"
        )
    try:
        return place(source)
    except ValueError as error:
        raise WrongUsage(str(error)) from None


def _counted(
    topics: "list[Topic]", arguments: Namespace
) -> "tuple[list[Statistics], KeyboardInterrupt | ZaichikError | None]":
    """Returns the statistics.

    If Ctrl-C or an error ended counting, those of the topics before, and what it was.
    """
    from zaichik.apps.statistics.counting import count

    statistics: list[Statistics] = []
    with _bar(topics) as on_progress:
        try:
            statistics.extend(
                count(topics, arguments.windows, memory=arguments.memory, on_progress=on_progress)
            )
        except (KeyboardInterrupt, ZaichikError) as end:
            return statistics, end
    return statistics, None


@contextmanager
def _bar(topics: "Sequence[Topic]") -> "Iterator[Callable[[Topic, int], None]]":
    """Returns a function that shows progress, on a terminal."""
    bar = progress.bars(TimeRemainingColumn(), transient=True)
    task = bar.add_task("", total=sum(topic.rows for topic in topics))
    before = {
        topic.name: sum(other.rows for other in topics[:number])
        for number, topic in enumerate(topics)
    }

    def on_progress(topic: "Topic", rows: int) -> None:
        bar.update(task, description=shown(topic.name), completed=before[topic.name] + rows)

    with bar:
        yield on_progress


def _output(statistics: "Sequence[Statistics]", arguments: Namespace, console: Console) -> None:
    """Writes the files, and prints everything."""
    from zaichik.apps.statistics import report

    if arguments.html:
        report.write_page(arguments.html, statistics, arguments.most_lost)
    files = []
    if arguments.plot:
        files = report.write_plots(arguments.plot, statistics, arguments.most_lost)
    if arguments.json:
        _print_json(statistics, arguments.most_lost)
    else:
        for one in statistics:
            _show(console, one, arguments.most_lost)
    for file in filter(None, (arguments.html, *files)):
        screen.remark(f"written: {file}")


def _print_json(statistics: "Sequence[Statistics]", most_lost: float) -> None:
    from zaichik.apps.statistics.advice import sentence
    from zaichik.apps.statistics.truth import caveats

    same = (
        "missing",
        "before",
        "left_out",
        "source",
        "count",
        "first_us",
        "last_us",
        "account",
        "what_if",
    )
    documents = []
    for one in statistics:
        document = {
            "topic": one.topic,
            "advice": sentence(one, most_lost),
            "exact": one.is_exact,
            "caveats": caveats(one),
            "own_window_us": one.own_us,
            "table": one.is_table,
            "journal": one.is_journaled,
        }
        document |= {name: getattr(one, name) for name in same}
        document["hot_keys"] = [
            row | {"key": screen.json_bytes(row["key"])} for row in one.hot_keys
        ]
        documents.append(document)
    screen.print_json(documents)


def _show(console: Console, one: "Statistics", most_lost: float) -> None:
    from zaichik.apps.statistics.advice import sentence
    from zaichik.apps.statistics.report import ACCOUNT_COLUMNS, HOT_KEY_COLUMNS, WHAT_IF_COLUMNS
    from zaichik.apps.statistics.truth import caveats

    account = {"own_us": one.own_us} | one.account
    _show_table(
        console, f"topic {shown(one.topic)}: the policy that ran", ACCOUNT_COLUMNS, [account]
    )
    if one.hot_keys:
        _show_table(console, "hot keys", HOT_KEY_COLUMNS, one.hot_keys)
    _show_table(console, "other windows, and a table", WHAT_IF_COLUMNS, one.what_if)
    screen.say(console, sentence(one, most_lost), "bold", folds=True)
    console.print()
    for caveat in caveats(one):
        screen.remark(caveat, "yellow")


def _show_table(
    console: Console, title: str, columns: "Columns", rows: Sequence[dict[str, Any]]
) -> None:
    screen.say(console, title, "bold")
    names = [name for name, _ in columns]
    screen.print_columns(
        console, names, ([show(row) for _, show in columns] for row in rows), right=names[1:]
    )
    console.print()
