"""`zaichik bridge`: copies a topic into a topic of Kafka, each message exactly once.

Copy a topic into a topic of Kafka, each message exactly once and in order, and go on with what
comes, until it is stopped. Run it again, after whatever has happened, and it continues after the
last record that Kafka has. With Kafka on three machines, an acknowledged message survives the
broker's: `zaichik publish --acked-by kafka` waits for that, and `zaichik restore` makes the topic
again.

The topic of Kafka must lose nothing. --create makes it so; one that is there is checked, and what
differs is refused by name. A topic has one bridge: another one that is started takes its place,
and the first ends. While Kafka is away the bridge waits.

SIGTERM stops it with exit code 0, Ctrl-C with 130. Exit code 4: another bridge has taken its
place, so do not start this one again by itself.

Examples:
  zaichik create orders --durable --overflow reject --retention forever
  zaichik bridge orders kafka://kafka-1:9092,kafka-2:9092/orders --create
  zaichik bridge orders kafka://127.0.0.1:9092/orders --create --replication 1
  zaichik bridge orders kafka://kafka-1:9093/orders --kafka-config kafka.conf
  zaichik bridge orders kafka://kafka-1:9092/orders --accept retention.ms

files:
  --kafka-config names settings of Kafka's client (librdkafka), one a line:
  security.protocol=SASL_SSL
  sasl.mechanisms=PLAIN
  sasl.username=zaichik-bridge
  sasl.password=...
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import anyio.to_thread
from rich.console import Console
from rich.progress import TimeElapsedColumn
from rich.text import Text

from zaichik.apps.replication.acceptable import ACCEPTABLE
from zaichik.base.escapes import shown
from zaichik.base.extras import getting
from zaichik.cli import (
    connecting,
    kafka_place,
    log,
    names,
    quantities,
    screen,
    serve_log,
    until_stdin_closes,
)
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, restated
from zaichik.cli.progress import bars as progress_bars
from zaichik.cli.signals import stopping
from zaichik.client.errors import ZaichikError

if TYPE_CHECKING:
    from zaichik.apps.replication.bridge import Progress

logger = logging.getLogger("zaichik.console.bridge")

REPLACED = 4  # the exit code
MISSING = (
    f"zaichik bridge needs confluent-kafka, which is not installed; get it with {getting('bridge')}"
)


def _accepted(text: str) -> str:
    if text not in ACCEPTABLE:
        raise WrongUsage(f"{text!r} is not one of {', '.join(ACCEPTABLE)}")
    return text


ARGUMENTS = (
    argument("TOPIC", "the topic to copy", names.name),
    kafka_place.KAFKA,
    argument("--create", "make the topic of Kafka if it is not there"),
    argument(
        "--replication N",
        "on how many of Kafka's servers it is; min.insync.replicas is one less",
        quantities.positive,
        default=3,
    ),
    argument(
        "--accept SETTING",
        f"put up with what differs; may be repeated: {', '.join(ACCEPTABLE)}",
        _accepted,
        action="append",
        default=[],
    ),
    kafka_place.CONFIG,
    *serve_log.OPTIONS,
    argument("--json", "when it has begun, print one JSON object: topic, kafka, epoch, next, pid"),
    until_stdin_closes.OPTION,
    connecting.ADDRESS,
    connecting.RECONNECT,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Copy until a signal comes, or the bridge cannot go on."""
    try:
        from zaichik.apps.replication.errors import CannotReplicate, Replaced
        from zaichik.apps.replication.servers import Servers  # noqa: F401 (whether it is there)
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    with (
        _log_and_bar(arguments) as show,
        _noted(arguments),
        restated(CannotReplicate),
        restated(Replaced, by=partial(Failure, code=REPLACED)),
    ):
        stop = threading.Event()
        async with stopping(lambda _: stop.set()) as tasks:
            if arguments.until_stdin_closes:
                tasks.start_soon(_stop_when_closed, stop)
            await anyio.to_thread.run_sync(_replicate, arguments, console, stop, show)


@contextmanager
def _noted(arguments: Namespace) -> Iterator[None]:
    """Has the log for programs say why the bridge ended."""
    try:
        yield
    except (Failure, ZaichikError) as error:
        if arguments.log_format == "json":
            logger.error("the bridge has ended: %s", error)  # noqa: TRY400 (it is no bug)
        raise


async def _stop_when_closed(stop: threading.Event) -> None:
    closed = anyio.Event()
    await until_stdin_closes.stop_when_closed(closed)
    stop.set()


def _replicate(
    arguments: Namespace,
    console: Console,
    stop: threading.Event,
    show: "Callable[[Progress], None]",
) -> None:
    """Run the bridge, in a thread."""
    from zaichik.apps.replication.bridge import Bridge
    from zaichik.apps.replication.servers import Servers
    from zaichik.client import blocking

    has_begun = False

    def tell(progress: "Progress") -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            _announce(progress, arguments, console)
        show(progress)

    servers = Servers(arguments.kafka.servers, arguments.kafka_config)
    connecting = blocking.connect(
        arguments.connect, name="zaichik bridge", reconnect=arguments.reconnect
    )
    # What was missed is told as a gap, and a watermark that a restart has lost is published again.
    quiet = screen.at_level(logging.ERROR, "zaichik.client.subscription", "zaichik.client.epochs")
    with connecting as client, quiet:
        Bridge(
            client,
            arguments.topic,
            servers,
            arguments.kafka.topic,
            stop=stop,
            create=arguments.create,
            replication=arguments.replication,
            accepted=frozenset(arguments.accept),
            tell=tell,
        ).run()


def _announce(progress: "Progress", arguments: Namespace, console: Console) -> None:
    """Say that the bridge has begun, and where."""
    if arguments.json:
        told = {"topic": arguments.topic, "kafka": str(arguments.kafka), "epoch": progress.epoch}
        screen.print_json(told | {"next": progress.next, "pid": os.getpid()})
    elif arguments.log_format == "text":
        text = Text.assemble(
            "copying ",
            (shown(arguments.topic), "bold"),
            f" to {arguments.kafka}, which has what is below offset {progress.next:,}",
        )
        console.print(text, soft_wrap=True)


@contextmanager
def _log_and_bar(arguments: Namespace) -> "Iterator[Callable[[Progress], None]]":
    """Writes the log during the block; returns a function that shows progress on a terminal."""
    bars = progress_bars(TimeElapsedColumn())
    if bars.disable or arguments.log_format == "json":
        with serve_log.written(arguments):
            yield lambda _: None
        return
    bar = bars.add_task(shown(arguments.topic), total=None)

    def show(progress: "Progress") -> None:
        bars.update(bar, completed=progress.next, total=max(progress.next, progress.end))

    # Standard error is that of the bars now: the log goes above them.
    with bars, screen.logging_to_stderr(log.LEVELS[arguments.log_level]):
        yield show
