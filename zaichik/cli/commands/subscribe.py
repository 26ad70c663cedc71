r"""`zaichik subscribe`: prints a topic's messages as they come.

Print a topic's messages, first those that retention has kept, then new ones, until Ctrl-C. On a
terminal, each line begins with offset, time and key, and control and invisible characters are
escaped, line ends included: \n, \x1b, \u2028 (a backslash becomes \\). A pipe or file gets the
payload alone, unescaped; only bytes that aren't UTF-8 become \xff. For an exact record use --json:
one object a line with topic, offset, timestamp (seconds since 1970), key (null: none) and payload;
key and payload are strings, or {"base64": "..."} if they aren't UTF-8. In a table, a message with
a key and no payload deletes its key.

Examples:
  zaichik create orders --retention 1h               # keeps its messages
  zaichik publish orders one two three
  zaichik subscribe orders                           # all, then new ones
  zaichik subscribe orders --from latest             # only new messages
  zaichik subscribe orders --from 1 --until 3        # these offsets, then end
  zaichik subscribe orders --from 2026-01-31T08:00   # since then; local time
  zaichik subscribe orders --count 1 --json | jq .payload
  zaichik subscribe orders --events                  # also report lost messages
  zaichik subscribe orders --name billing            # where billing stopped
  zaichik subscribe orders --name billing --forget   # drop its position
  zaichik subscribe 'orders.*'                       # orders.de, orders.fr ...
  zaichik subscribe bills --acked-by kafka           # only what Kafka has, too
  zaichik subscribe 'orders.*' --cluster 10.0.0.1:8900   # of all its shards

A TOPIC with a * is a pattern: * stands for one or more characters but a dot, ** for any number of
any characters. All topics that match are read, also those that come later, except for the broker's
own, whose names begin with $. Quote it, or the shell looks for files. Each line names its topic: in
a pipe, before a tab. With --exact, a * is a character of the topic's name.

A reader that can't keep up, such as a pager, doesn't hold up others: when the topic's ring is full,
messages it hasn't read are evicted, and their exact number is reported. With --json --events the
report is a line of its own: {"lagged": {"topic": "orders", "start": 10, "end": 35, "count": 25}}
A reader of a table may have missed that keys were deleted. The report of that is
{"deletions_missed": {"topic": "rates", "below": 35}}; to be exact, read the table again from
earliest. A reader of a pattern is told of a topic that has gone (topic_gone), of topics that came
and went unread (topic_missed, with their count), and of those that can't be read for now
(topic_unread).

After a lost connection, zaichik reconnects and resumes where it stopped. A restarted broker has
lost its topics, and their offsets with them, unless they are durable: that's an error, and ends the
command. The broker keeps a named reader's position for a minute after the reader has gone, and in a
durable topic for a week. Messages that it was sent but hadn't handled are sent again.
"""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.base.counted import counted
from zaichik.base.escapes import shown, shown_key
from zaichik.cli import acked_by, connecting, missed, names, quantities, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument, within
from zaichik.cli.quantities import positive
from zaichik.cli.screen import json_bytes
from zaichik.client import subscription as subscription_module
from zaichik.client.client import Client
from zaichik.client.messages import Message, Missed, PatternEvent, StartAt, start_written
from zaichik.client.patterns.pattern import Pattern, is_pattern
from zaichik.client.patterns.subscription import PatternSubscription
from zaichik.client.subscription import Subscription
from zaichik.net.background import BackgroundTasks

if TYPE_CHECKING:
    from zaichik.client.cluster.cluster import Cluster

# In flight at most, in bytes. While the reader of our output blocks us, we do not read from the
# broker. What it has sent by then must fit into the sockets' buffers, or it would disconnect us
# (SLOW_CONSUMER).
CREDIT_BYTES = 512 * 1024
CREDIT = 1000
MOST_CREDIT = 2**32 - 1  # that a frame can carry

_Subscription = Subscription[Message | Missed] | PatternSubscription[Message | PatternEvent]


def _start(text: str) -> StartAt:
    if text.isascii() and text.isdigit():
        return quantities.natural(text)
    try:
        return start_written(text)
    except ValueError as error:
        raise WrongUsage(f"{text!r} is not a start; {error}") from None


_credit = within(
    positive,
    lambda credit: credit <= MOST_CREDIT,
    f"{{}} is too large; the largest is {MOST_CREDIT}",
)
_reader = within(names.name, bool, "{} is no name; leave --name out to read without one")
ARGUMENTS = (
    argument("TOPIC", "the topic to read, created if it doesn't exist; or a pattern", names.name),
    argument(
        "--from WHERE",
        "earliest, latest, an offset, or an ISO 8601 time",
        _start,
        dest="start",
        default="earliest",
    ),
    argument("--until OFFSET", "stop before this offset", quantities.natural),
    argument("--exact", "a * in TOPIC is a character of its name, and not a pattern"),
    argument("--count N", "stop after this many messages", positive),
    argument("--name NAME", "resume where the last reader of this name stopped", _reader),
    argument("--forget", "only have the broker forget the position of --name"),
    acked_by.option("hold back messages that WHAT does not have yet; WHAT is kafka"),
    argument("--events", "also report what was missed, and topics that have gone or can't be read"),
    argument("--json", "print one JSON object per line"),
    argument("-v --verbose", "in a pipe, too, print offset, time and key, and escape characters"),
    argument("--credit N", "messages in flight at most", _credit, default=CREDIT),
    connecting.PLACE,
    connecting.RECONNECT,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Print messages until something ends it."""
    of_pattern = is_pattern(arguments.topic) and not arguments.exact
    if of_pattern:
        _check_pattern(arguments)
    if arguments.forget:
        await _forget(arguments)
        return
    began = time.perf_counter()
    seen = _Seen()
    subscribe = _subscription
    if of_pattern:
        subscribe = _pattern_subscription
    async with (
        _connected(arguments) as client,
        subscribe(client, arguments) as subscription,
    ):
        if console.is_terminal and not arguments.json:
            screen.remark(f"{shown(arguments.topic)}: {_from_where(subscription)}; Ctrl-C ends")
        try:
            with _quietly(arguments), anyio.CancelScope() as scope:
                async with BackgroundTasks() as background:
                    background.group.start_soon(_end_with_the_reader, scope)
                    show = _printer(arguments, console, _line_of(subscription))
                    await _print_all(subscription, arguments, show, seen)
        except anyio.get_cancelled_exc_class():
            lag = ""
            if subscription.lagged:
                lag = f", {subscription.lagged:,} gone"
            seconds = time.perf_counter() - began
            screen.remark(
                f"{shown(arguments.topic)}: {counted(seen.count, 'message')}{lag}, {seconds:.3g} s"
            )
            raise


def _quietly(arguments: Namespace) -> AbstractContextManager[None]:
    """Keep the client from warning of lag, if that is reported here, with --events."""
    if arguments.events:
        return screen.without_warnings(subscription_module.__name__)
    return nullcontext()


def _check_pattern(arguments: Namespace) -> None:
    """Refuse what makes no sense for many topics.

    Raises:
        WrongUsage: see above.
    """
    try:
        Pattern(arguments.topic)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    problem = f"{arguments.topic!r} is a pattern of many topics"
    advice = "name one topic, or say with --exact that the * is a part of its name"
    if isinstance(arguments.start, int):
        raise WrongUsage(f"{problem}, and --from {arguments.start} is an offset of one; {advice}")
    if arguments.until is not None:
        raise WrongUsage(f"{problem}, and --until is an offset of one; {advice}")
    if arguments.acked_by is not None:
        raise WrongUsage(f"{problem}, and --acked-by is for one at a time; {advice}")
    if arguments.forget:
        raise WrongUsage(f"{problem}, and --forget is for one at a time; {advice}")


def _connected(arguments: Namespace) -> AbstractAsyncContextManager["Client | Cluster"]:
    """Returns a client of one broker, or of all shards of a cluster."""
    if arguments.cluster is not None:
        return connecting.in_cluster(arguments, "subscribe")
    return connecting.connected(arguments, "subscribe")


def _subscription(
    client: "Client | Cluster", arguments: Namespace
) -> AbstractAsyncContextManager[_Subscription]:
    return client.subscribe(
        arguments.topic,
        start=arguments.start,
        until=arguments.until,
        credit=arguments.credit,
        credit_bytes=CREDIT_BYTES,
        name=arguments.name or "",
        events=True,
        acked_by=acked_by.chosen(arguments),
    )


def _pattern_subscription(
    client: "Client | Cluster", arguments: Namespace
) -> AbstractAsyncContextManager[_Subscription]:
    return client.subscribe_pattern(
        arguments.topic,
        start=arguments.start,
        credit=arguments.credit,
        credit_bytes=CREDIT_BYTES,
        name=arguments.name or "",
        events=arguments.events,
    )


def _from_where(subscription: _Subscription) -> str:
    if isinstance(subscription, PatternSubscription):
        return f"{counted(len(subscription.topics), 'topic')}, and those that come"
    again = ""
    if subscription.resumed:
        again = f", resuming {shown(subscription.name)}"
    return f"from offset {subscription.start:,}{again}"


async def _forget(arguments: Namespace) -> None:
    if not arguments.name:
        raise WrongUsage("--forget needs a --name to forget")
    async with (
        _connected(arguments) as client,
        client.subscribe(
            arguments.topic, start="latest", credit=1, name=arguments.name
        ) as subscription,
    ):
        await subscription.forget()
    what = "is forgotten" if subscription.resumed else "was not known"
    screen.remark(f"{shown(arguments.topic)}: the position of {shown(arguments.name)} {what}")


async def _end_with_the_reader(scope: anyio.CancelScope) -> None:
    await screen.reader_gone()
    scope.cancel()


class _Seen:
    """Counts the messages printed."""

    count = 0


async def _print_all(
    subscription: _Subscription,
    arguments: Namespace,
    show: Callable[[Message], None],
    seen: _Seen,
) -> None:
    async for item in subscription:
        match item:
            case Message():
                show(item)
                seen.count += 1
                if seen.count == arguments.count:
                    if arguments.name:
                        await subscription.commit(item)  # or it would come again next time
                    return
            case event if arguments.events:
                of_pattern = isinstance(subscription, PatternSubscription)
                missed.show(event, as_json=arguments.json, of_pattern=of_pattern)
            case _:
                # The client has written it to the log.
                pass


def _line_of(subscription: _Subscription) -> "_Lines":
    """Returns how messages are shown in lines."""
    if isinstance(subscription, PatternSubscription):
        return _Lines(_line_with_topic, _payload_with_topic)
    if subscription.table:
        return _Lines(_row, _payload)
    return _Lines(_line, _payload)


class _Lines(NamedTuple):
    """How messages are shown: with offset, time and key; and in a pipe."""

    long: Callable[[Message], Text]
    short: Callable[[Message], str]


def _printer(arguments: Namespace, console: Console, lines: _Lines) -> Callable[[Message], None]:
    """Returns the function that prints a message."""
    if arguments.json:
        return _print_json
    if console.is_terminal:
        return lambda message: console.print(lines.long(message), soft_wrap=True)
    if arguments.verbose:
        return lambda message: _write(lines.long(message).plain)
    return lambda message: _write(lines.short(message))


def _print_json(message: Message) -> None:
    topic, offset, timestamp, key, payload = message
    told = {
        "topic": topic,
        "offset": offset,
        "timestamp": timestamp,
        "key": None if key is None else json_bytes(key),
    }
    screen.print_json(told | {"payload": json_bytes(payload)})


def _write(line: str) -> None:
    """Write a line and flush it: the pipe's reader waits for it.

    Without rich, which is far slower than the broker.
    """
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _payload(message: Message) -> str:
    return message.payload.decode("utf-8", "backslashreplace")


def _payload_with_topic(message: Message) -> str:
    """The topic, a tab, which no topic's name has, and the payload."""
    return f"{message.topic}\t{_payload(message)}"


def _line(message: Message) -> Text:
    """Offset, time and key in faint letters, then the payload."""
    return _text(message, "")


def _line_with_topic(message: Message) -> Text:
    """The same, with the topic before the key."""
    return _text(message, f"{shown(message.topic)}  ")


def _text(message: Message, topic: str) -> Text:
    payload, key = shown(message.payload), shown_key(message.key) if message.key else ""
    prefix = (
        f"{message.offset:>8}  {quantities.show_time(message.timestamp * 1e6, with_offset=False)}  "
    )
    return Text.assemble(
        (prefix, "dim"), (topic, "green"), (f"{key}  " if key else "", "cyan"), payload
    )


def _row(message: Message) -> Text:
    """The line of a message of a table."""
    line = _line(message)
    if message.is_tombstone:
        line.append("(deleted)", "dim")
    return line
