"""`zaichik restore`: makes a topic again from Kafka, after its broker's machine is lost.

Make a topic again from what `zaichik bridge` has copied of it to Kafka: in a folder for `zaichik
serve --data`. The topic has the epoch that it had, and its messages their offsets, times, keys and
payloads. No broker may be using the folder, and it must have no topic of that name. If anything
goes wrong, nothing is left in the folder, and the command can be run again.

The lost broker may have given offsets beyond the last one in Kafka, and readers may have seen those
messages. So the topic goes on behind a gap of --skip offsets, which no other message ever gets.
Readers are told of the gap as of messages that are gone.

A bridge that may still run is fenced first, so that it commits nothing that the folder lacks: from
then on Kafka refuses what it sends, and it ends. With --no-fence it goes on, for a trial, or a copy
to look at. Never serve such a copy in the place of the broker.

Examples:
  zaichik restore orders kafka://kafka-1,kafka-2/orders --data ./topics
  zaichik check ./topics                     # whole; the gap counts as lost
  zaichik serve --data ./topics              # then start the bridge again
  zaichik restore orders kafka://kafka-1/orders --data ./trial --no-fence
  zaichik restore orders kafka://kafka-1/orders --data ./topics --json
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import TimeRemainingColumn

from zaichik.apps.replication.restoring import MOST_SKIP, SKIP, CannotRestore, Restored
from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.base.extras import getting
from zaichik.cli import interrupts, kafka_place, names, quantities, screen, topic_settings
from zaichik.cli.arguments import Namespace, argument, group, within
from zaichik.cli.commands.create import OVERFLOW
from zaichik.cli.failure import Failure, restated
from zaichik.cli.progress import bars as progress_bars
from zaichik.client.messages import milliseconds, overflow_of
from zaichik.storage.disk import DiskFull, StorageFailed
from zaichik.storage.store import CannotOpen
from zaichik_protocol import Setting

MISSING = (
    f"zaichik restore needs confluent-kafka, which is not installed; get it with "
    f"{getting('bridge')}"
)

_skipped = within(
    quantities.natural,
    lambda count: count <= MOST_SKIP,
    f"{{}} is not a number of offsets to skip: 0 to {MOST_SKIP}",
)
ARGUMENTS = (
    argument("TOPIC", "the topic's name", names.name),
    kafka_place.KAFKA,
    argument("--data DIR", "the folder to make it in, for serve --data", Path, required=True),
    argument(
        "--skip N",
        "offsets that are given up behind the last one in Kafka (default: 2^40: weeks of "
        "publishing)",
        _skipped,
        default=SKIP,
    ),
    argument("--no-fence", "leave a bridge alone that may still run"),
    kafka_place.CONFIG,
    argument("--json", "print one JSON object"),
    group(
        "settings of the topic",
        topic_settings.RETENTION,
        topic_settings.COMPACTION_WINDOW,
        topic_settings.CAPACITY,
        topic_settings.MAX_BYTES,
        topic_settings.MAX_KEYS,
        topic_settings.LOG_BYTES,
        OVERFLOW,
        about="in place of those that it had, which its first record in Kafka says",
    ),
)
# As they are on the wire, by the names of the options.
_SETTINGS: dict[str, tuple[Setting, Callable[[object], int]]] = {
    "retention_ttl": (Setting.RETENTION_TTL_MS, milliseconds),
    "compaction_window": (Setting.COMPACTION_WINDOW_MS, milliseconds),
    "capacity": (Setting.CAPACITY, lambda count: int(str(count))),
    "max_bytes": (Setting.MAX_BYTES, lambda count: int(str(count))),
    "max_keys": (Setting.MAX_KEYS, lambda count: int(str(count))),
    "log_bytes": (Setting.LOG_BYTES, lambda count: int(str(count))),
    "overflow": (Setting.OVERFLOW, lambda word: overflow_of(str(word)).value),
}


async def run(arguments: Namespace, console: Console) -> None:
    """Restore the topic."""
    # Nothing else runs in this event loop, and restoring blocks it.
    with interrupts.at_once(), _bar(arguments) as tell:
        done = _restored(arguments, tell)
    if arguments.json:
        screen.print_json(_fields(done, arguments))
    else:
        _print(console, done, arguments)


def _restored(arguments: Namespace, tell: Callable[[int, int], None]) -> Restored:
    try:
        from zaichik.apps.replication.committed import CannotRead
        from zaichik.apps.replication.errors import CannotReplicate
        from zaichik.apps.replication.restore import restore_topic
        from zaichik.apps.replication.servers import Servers
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    try:
        with restated(CannotRead, CannotReplicate, CannotRestore, DiskFull, StorageFailed):
            return restore_topic(
                arguments.data,
                arguments.topic,
                Servers(arguments.kafka.servers, arguments.kafka_config),
                arguments.kafka.topic,
                skip=arguments.skip,
                pairs=_pairs(arguments),
                fences=not arguments.no_fence,
                tell=tell,
            )
    except CannotOpen as error:
        raise Failure(str(error), error.code) from error


def _pairs(arguments: Namespace) -> list[tuple[int, int]]:
    """Returns the settings that were named, as the wire carries them."""
    pairs: list[tuple[int, int]] = []
    for name, (setting, number) in _SETTINGS.items():
        value = getattr(arguments, name)
        if value is not None:
            pairs.append((setting.value, number(value)))
    return pairs


@contextmanager
def _bar(arguments: Namespace) -> Iterator[Callable[[int, int], None]]:
    """Returns a function that shows progress: a bar on a terminal, nothing elsewhere."""
    bars = progress_bars(TimeRemainingColumn(), transient=True)
    bar = bars.add_task(shown(arguments.topic), total=None)

    def tell(done: int, most: int) -> None:
        bars.update(bar, completed=done, total=max(done, most))

    # Standard error is that of the bar now: the log goes above it.
    with bars, screen.logging_to_stderr():
        yield tell


def _fields(done: Restored, arguments: Namespace) -> dict[str, object]:
    return {
        "topic": done.topic,
        "epoch": done.epoch,
        "messages": done.messages,
        "missing": done.missing,
        "head": done.head,
        "last": done.last,
        "next": done.next,
        "bytes": done.size,
        "settings": done.settings,
        "folder": str(arguments.data),
    }


def _print(console: Console, done: Restored, arguments: Namespace) -> None:
    rows = [("messages", f"{done.messages:,}"), ("offsets", f"0 to {done.last}")]
    if done.missing:
        rows.append(("missing", f"{done.missing:,}"))
    if done.head:
        rows.append(("evicted", f"offsets below {done.head}: the log has --log-bytes"))
    rows.append(("next offset", str(done.next)))
    rows.append(("size", screen.setting("bytes", done.size)))
    screen.print_rows(console, f"{shown(done.topic)}: restored in {arguments.data}", rows)
    if done.missing:
        screen.remark(
            f"{counted(done.missing, 'offset')} had no message in Kafka: the broker had lost "
            "those before the bridge could read them, or an earlier restore has skipped them",
            "yellow",
        )
