"""`zaichik demo`: what a broker does, step by step, shown on one that runs as long as the demo.

Watch a broker at work: echo, retention, compaction, lag, a restart, and a year of real flights. The
demo starts its own broker, shows each call and its result, adds up what became of every message,
and has Spark work out what other compaction windows would have done. It leaves nothing behind.

Examples:
  zaichik demo
  zaichik demo --pause           # at your own pace: press Enter to continue
  zaichik demo --days 31         # January is enough

In a clone, `make demo` installs what the steps need. With a wheel, the flights are the extra
"flights", the statistics are "stats"; with Spark, and a Java for it: pip install
'WHEEL[flights,spark,java]'
"""

# Each step is a function whose body is printed and then run, so the code shown is the code that
# ran. The broker runs on a `ManualClock`, so a minute, or a year of flights, passes at once.
#
# The last steps add up the messages of every topic, and have Spark recompute the compaction of the
# flights. If a sum is wrong, a restart has lost something, or Spark and the broker disagree, the
# exit code is 1.

import inspect
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import anyio.to_thread
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from zaichik.apps.demo.departures import Departure, by_minute, read_departures
from zaichik.base.clock import ManualClock
from zaichik.base.counted import counted
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.demo_restart import show_restart
from zaichik.cli.demo_statistics import show_statistics
from zaichik.cli.meter import Meter
from zaichik.cli.quantities import positive
from zaichik.cli.screen import without_warnings
from zaichik.client.client import Client, connect
from zaichik.client.messages import BatchResult, Lagged, Message, Missed
from zaichik.server.running import running_broker

# When the broker's clock starts: before the first flight.
NEW_YEAR_2013 = datetime(2013, 1, 1, tzinfo=UTC)

# As `describe` names them.
COUNTS = ("published", "stored", "compacted", "resident", "expired", "evicted")
# The laws of conservation: in every topic the first number is the sum of the others.
LAWS = (("published", "stored", "compacted"), ("stored", "resident", "expired", "evicted"))

ARGUMENTS = (
    argument("--no-flights", "skip the year of real flights"),
    argument("--no-stats", "skip the statistics, which need Spark"),
    argument("--days N", "only the first N days of that year", positive),
    argument("--pause", "wait for Enter after each step"),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Show everything; 0 if every account adds up, else 1."""
    show = Show(console, pause=arguments.pause)
    clock = ManualClock(round(NEW_YEAR_2013.timestamp()) * 1_000_000)
    async with (
        running_broker(clock=clock) as broker,
        connect(port=broker.port, name="zaichik demo") as client,
    ):
        show.begin(broker.port)
        await show_echo(show, client)
        await show_retention(show, client, clock)
        await show_compaction(show, client, clock)
        await show_lag(show, client)
        survived = await show_restart(show)
        if not arguments.no_flights:
            await show_flights(show, client, clock, arguments.days)
        # a sweep runs once a second; with one now, the numbers are the same in every run
        broker.sweep()
        agreed = await show_account(show, client) and survived
        if await client.topics("flights") and not arguments.no_stats:
            agreed &= await show_statistics(show, client, broker.port)
        if agreed:
            show.end()
        return 0 if agreed else 1


class Show:
    """The look of the demo: numbered steps, each with a sentence, the code, and its result.

    Args:
        console: for all output.
        pause: whether to wait for Enter after each step (if there is a keyboard).
    """

    def __init__(self, console: Console, *, pause: bool) -> None:
        self.console = console
        self._pause = pause and sys.stdin.isatty()
        self._step = 0

    def begin(self, port: int) -> None:
        """Introduce the broker."""
        self.console.print()
        self.console.print("[bold]zaichik[/], a message broker", highlight=False)
        self.console.print()
        self.say(
            "Programs send each other messages through a broker: one [bold]publishes[/] to a "
            "topic, others "
            "[bold]subscribe[/] to it. This is a broker of our own, started just now on port "
            f"{port}. It runs on a "
            "clock that we move by hand, so we never have to wait. `client` is a connection to it."
        )

    def end(self) -> None:
        """Say what to try next."""
        # The command as it was started: after `make demo`, its virtual environment is not active in
        # the user's shell.
        name = sys.argv[0] if sys.argv[0].endswith("zaichik") else "zaichik"
        self.say(
            f"\nWhat next? `{name} serve` runs a broker, `{name} publish` and `{name} subscribe` "
            "talk to it."
        )

    async def step(
        self, title: str, sentence: str, code: Callable[..., object] | None = None
    ) -> None:
        """Begin a step: say what will happen, and show the calls that do it.

        If that was asked for, Enter begins it. It waits for the keyboard to be readable, because
        that can be cancelled by Ctrl-C; a thread that reads cannot.
        """
        if self._pause and self._step:
            self.console.print("\n[dim]Press Enter to continue[/] ", end="")
            await anyio.wait_readable(sys.stdin)
            sys.stdin.readline()
        self._step += 1
        self.console.print()
        self.console.rule(f"[bold]{self._step}. {title}[/]", align="left", style="dim")
        self.say(sentence)
        if code is not None:
            self.console.print()
            self.console.print(_body(code), soft_wrap=True)
            self.console.print()

    def say(self, sentence: str) -> None:
        """Print some prose."""
        self.console.print(sentence, highlight=False)

    def came(self, outcome: str) -> None:
        """Print a result."""
        line = Table.grid(padding=(0, 1))
        line.add_row("[green]=>[/]", Text.from_markup(outcome))
        self.console.print(line)


def _body(function: Callable[..., object]) -> Text:
    """Returns the body of a function below its docstring, coloured, with its indentation."""
    _, _, body = inspect.getsource(function).partition('"""\n')
    text = Syntax("", "python", theme="ansi_dark").highlight(body)
    text.rstrip()
    return text


# -- the steps -----------------------------------------------------------------------------------


async def show_echo(show: Show, client: Client) -> None:
    """Show one connection that publishes and subscribes."""
    await show.step(
        "Echo",
        "A subscriber gets everything that is published to its topic, its own messages included.",
        echo,
    )
    message = await echo(client)
    show.came(
        f"[bold]{_payloads([message])}[/] at offset {message.offset}: its place in the topic, "
        "counted from 0"
    )


async def echo(client: Client) -> Message:
    """Returns the message that came back."""
    async with client.subscribe("echo") as subscription:
        await client.publish("echo", b"hello")
        return await anext(subscription)


async def show_retention(show: Show, client: Client, clock: ManualClock) -> None:
    """Show a latecomer in time, and one too late."""
    await show.step(
        "Retention",
        "A topic can keep its messages for latecomers. This one keeps them for 60 seconds; "
        "`until` ends the subscription by itself after the last of them.",
        retention,
    )
    early, late = await retention(client, clock)
    show.came(f"the first latecomer got [bold]{_payloads(early)}[/]")
    show.came(f"60 seconds later the second one got [bold]{_payloads(late)}[/]")


async def retention(client: Client, clock: ManualClock) -> tuple[list[Message], list[Message]]:
    """Returns what two latecomers got."""
    await client.create_topic("news", retention_ttl=60)
    await client.publish("news", b"it rains")
    await client.publish("news", b"it pours")
    async with client.subscribe("news", until=2) as latecomer:
        early = [message async for message in latecomer]
    clock.advance(60)
    async with client.subscribe("news", until=2) as latecomer:
        late = [message async for message in latecomer]
    return early, late


def _payloads(messages: list[Message]) -> str:
    return escape(", ".join(repr(message.payload) for message in messages)) or "nothing"


async def show_compaction(show: Show, client: Client, clock: ManualClock) -> None:
    """Show a hundred rings, twice."""
    await show.step(
        "Compaction",
        "A message may have a key. In a topic with a compaction window, the first message of a key "
        "keeps its "
        "repeats out until the window ends. Here it lasts 10 seconds, and somebody rings like mad.",
        compaction,
    )
    at_once, later = await compaction(client, clock)
    rings = at_once.stored + at_once.compacted
    show.came(
        f"of {rings} rings [bold]{at_once.stored} stored, {at_once.compacted} compacted[/]: each "
        "door rang once"
    )
    show.came(
        f"10 seconds later, with the windows over: [bold]{later.stored} stored, {later.compacted} "
        "compacted[/]"
    )


async def compaction(client: Client, clock: ManualClock) -> tuple[BatchResult, BatchResult]:
    """Returns what became of the rings."""
    await client.create_topic("doorbell", compaction_window=10)
    rings = [("front door", b"ding")] * 100 + [("back door", b"dong")]
    at_once = await client.publish_batch("doorbell", rings)
    clock.advance(10)
    later = await client.publish_batch("doorbell", rings)
    return at_once, later


async def show_lag(show: Show, client: Client) -> None:
    """Show a reader that sleeps through most of it."""
    await show.step(
        "Lag",
        "A slow reader holds nobody up. This topic has room for 100 messages, and 1000 are "
        "published before the "
        "reader looks at the first; its credit lets the broker send it no more than 10 ahead.",
        lag,
    )
    # The library also logs a warning about missed messages. Here they are the lesson, and reported
    # below.
    with without_warnings():
        events = await lag(client)
    for event in events:
        if isinstance(event, Lagged):
            what = f"{event.count:,} messages are gone[/], offsets {event.start} to {event.end - 1}"
            if event.count == 1:
                what = f"1 message is gone[/], offset {event.start}"
            show.came(f"reported: [bold]{what}")
    lagged = sum(event.count for event in events if isinstance(event, Lagged))
    received = sum(isinstance(event, Message) for event in events)
    show.came(
        f"{received} received + {lagged} lagged = {received + lagged} published: nothing is lost "
        "in silence"
    )


async def lag(client: Client) -> list[Message | Missed]:
    """Returns what the reader was sent, in order."""
    await client.create_topic("ticker", capacity=100, retention_ttl="forever")
    async with client.subscribe("ticker", credit=10, until=1000, events=True) as slow:
        for number in range(1000):
            await client.publish("ticker", b"price %d" % number)
        return [event async for event in slow]


async def show_flights(show: Show, client: Client, clock: ManualClock, days: int | None) -> None:
    """Show a year of departures, at the data's own pace."""
    await show.step(
        "Flights",
        "Now real events: the departures from New York in 2013, published minute by minute, while "
        "the broker's "
        "clock moves through that year with them. The key is the aircraft; of each, the topic "
        "stores the first "
        "departure in six hours, and keeps it for a week. Its journal, also a topic, records every "
        "departure.",
        flights,
    )
    try:
        with show.console.status("reading the timetable"):
            departures = await anyio.to_thread.run_sync(
                read_departures, days, abandon_on_cancel=True
            )
    except ModuleNotFoundError as error:
        show.say(f"[yellow]This step is skipped:[/] {escape(str(error))}")
        return
    with Meter(show.console, clock, len(departures)) as meter:
        await flights(client, clock, departures, meter)
    show.came(
        f"{counted(meter.published, 'departure')}: [bold]{meter.stored:,} stored, "
        f"{meter.compacted:,} compacted[/]"
    )
    batches = counted(meter.batches, "batch", "batches")
    show.came(f"{batches}, one for each minute of the timetable, {meter.rate:,.0f} messages/s")


async def flights(
    client: Client, clock: ManualClock, departures: list[Departure], meter: Meter
) -> None:
    """Publish all departures."""
    six_hours, week = timedelta(hours=6), timedelta(days=7)
    await client.create_topic(
        "flights", compaction_window=six_hours, retention_ttl=week, journal=2**26
    )
    for minute_us, together in by_minute(departures):
        clock.move_to(minute_us)
        batch = [(departure.tail, departure.payload) for departure in together]
        meter.add(await client.publish_batch("flights", batch))


# -- the end -------------------------------------------------------------------------------------


async def show_account(show: Show, client: Client) -> bool:
    """Shows what became of every message, topic by topic; returns whether it adds up."""
    await show.step(
        "The account",
        "What became of every message. [bold]Stored[/] messages got an offset, [bold]compacted[/] "
        "ones were dropped "
        "because of their key. Of those stored, the [bold]resident[/] ones can be read now; "
        "[bold]expired[/] means "
        "that their time was over, [bold]evicted[/] that a full topic needed the room for newer "
        "ones.",
    )
    topics = await client.topics()
    sums = {name: sum(topic[name] for topic in topics) for name in COUNTS}
    table = Table(
        box=box.SIMPLE,
        show_footer=True,
        header_style="bold",
        footer_style="bold",
        collapse_padding=True,
    )
    table.add_column("topic", footer="total", style="cyan")
    for name in COUNTS:
        table.add_column(name, footer=f"{sums[name]:,}", justify="right")
    for topic in topics:
        table.add_row(topic["name"], *(f"{topic[name]:,}" for name in COUNTS))
    show.console.print(table)

    wrong = [sentence for law in LAWS for topic in topics for sentence in _breach(law, topic)]
    for total, *parts in LAWS:
        numbers = " + ".join(f"{sums[part]:,}" for part in parts)
        show.came(f"{total} = {' + '.join(parts)}: [bold]{sums[total]:,} = {numbers}[/]")
    for sentence in wrong:
        show.say(f"[bold red]{escape(sentence)}[/]")
    if wrong:
        return False
    show.say("\nIt adds up, in every topic: nothing is lost in silence.")
    return True


def _breach(law: tuple[str, ...], topic: dict[str, Any]) -> Iterator[str]:
    """Yields a sentence if the topic breaks that law."""
    total, *parts = law
    if topic[total] != sum(topic[part] for part in parts):
        told = " + ".join(f"{part} {topic[part]:,}" for part in parts)
        yield (
            f"{topic['name']} does not add up, which is a bug of the broker: {total} "
            f"{topic[total]:,} is not {told}"
        )
