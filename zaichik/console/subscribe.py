r"""`zaichik subscribe`: prints a topic's messages as they come.

Print a topic's messages, first those that retention has kept, then new ones, until Ctrl-C. On a terminal, each line
begins with offset, time and key, and control and invisible characters are escaped, line ends included: \n, \x1b,
\u2028 (a backslash becomes \\). A pipe or file gets the payload alone, unescaped; only bytes that aren't UTF-8
become \xff. For an exact record use --json: one object a line with topic, offset, timestamp (seconds since 1970),
key (null: none) and payload; key and payload are strings, or {"base64": "..."} if they aren't UTF-8.

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

A reader that can't keep up, such as a pager, doesn't hold up others: when the topic's ring is full, messages it
hasn't read are evicted, and their exact number is reported. With --json --events the report is a line of its own:
{"lagged": {"topic": "orders", "start": 10, "end": 35, "count": 25}}

After a lost connection, zaichik reconnects and resumes where it stopped. A restarted broker has lost its topics, and
their offsets with them, unless they are durable: that's an error, and ends the command. The broker keeps a named
reader's position for a minute after the reader has gone, and in a durable topic for a week. Messages that it was sent
but hadn't handled are sent again.
"""

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.client import subscription as subscription_module
from zaichik.client.messages import Lagged, Message, StartAt, start_written
from zaichik.client.subscription import Subscription
from zaichik.console import connecting, names, quantities, screen
from zaichik.console.arguments import Namespace, WrongUsage, argument, within
from zaichik.console.quantities import positive
from zaichik.console.screen import json_bytes
from zaichik.escapes import shown, shown_key
from zaichik.net.background import BackgroundTasks

# In flight at most, in bytes. While the reader of our output blocks us, we do not read from the broker. What it has
# sent by then must fit into the sockets' buffers, or it would disconnect us (SLOW_CONSUMER).
CREDIT_BYTES = 512 * 1024
CREDIT = 1000
MOST_CREDIT = 2**32 - 1  # that a frame can carry


def _start(text: str) -> StartAt:
    if text.isascii() and text.isdigit():
        return quantities.natural(text)
    try:
        return start_written(text)
    except ValueError as error:
        raise WrongUsage(f"{text!r} is not a start; {error}") from None


_credit = within(positive, lambda credit: credit <= MOST_CREDIT, f"{{}} is too large; the largest is {MOST_CREDIT}")
_reader = within(names.name, bool, "{} is no name; leave --name out to read without one")
ARGUMENTS = (
    argument("TOPIC", "the topic to read; created if it doesn't exist", names.name),
    argument(
        "--from WHERE", "earliest, latest, an offset, or an ISO 8601 time", _start, dest="start", default="earliest"
    ),
    argument("--until OFFSET", "stop before this offset", quantities.natural),
    argument("--count N", "stop after this many messages", positive),
    argument("--name NAME", "resume where the last reader of this name stopped", _reader),
    argument("--forget", "only have the broker forget the position of --name"),
    argument("--events", "also report missed messages"),
    argument("--json", "print one JSON object per line"),
    argument("-v --verbose", "in a pipe, too, print offset, time and key, and escape characters"),
    argument("--credit N", "messages in flight at most", _credit, default=CREDIT),
    connecting.ADDRESS,
    connecting.RECONNECT,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Print messages until something ends it."""
    if arguments.forget:
        await _forget(arguments)
        return
    began = time.perf_counter()
    seen = _Seen()
    # The client warns of lag by itself; with --events it is reported here, and not twice.
    quiet = screen.without_warnings(subscription_module.__name__) if arguments.events else nullcontext()
    async with (
        connecting.connected(arguments, "subscribe") as client,
        client.subscribe(
            arguments.topic,
            start=arguments.start,
            until=arguments.until,
            credit=arguments.credit,
            credit_bytes=CREDIT_BYTES,
            name=arguments.name or "",
            events=True,
        ) as subscription,
    ):
        if console.is_terminal and not arguments.json:
            again = f", resuming {shown(arguments.name)}" if subscription.resumed else ""
            screen.remark(f"{shown(subscription.topic)}: from offset {subscription.start:,}{again}; Ctrl-C ends")
        try:
            with quiet, anyio.CancelScope() as scope:
                async with BackgroundTasks() as background:
                    background.group.start_soon(_end_with_the_reader, scope)
                    await _print_all(subscription, arguments, _printer(arguments, console), seen)
        except anyio.get_cancelled_exc_class():
            lag = f", {subscription.lagged:,} were gone" if subscription.lagged else ""
            screen.remark(
                f"{shown(arguments.topic)}: {seen.count:,} messages{lag}, {time.perf_counter() - began:.3g} s"
            )
            raise


async def _forget(arguments: Namespace) -> None:
    if not arguments.name:
        raise WrongUsage("--forget needs a --name to forget")
    async with (
        connecting.connected(arguments, "subscribe") as client,
        client.subscribe(arguments.topic, start="latest", credit=1, name=arguments.name) as subscription,
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
    subscription: Subscription[Message | Lagged],
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
            case Lagged() if arguments.events:
                _show_lag(item, as_json=arguments.json)


def _printer(arguments: Namespace, console: Console) -> Callable[[Message], None]:
    """Returns the function that prints a message."""
    if arguments.json:
        return _print_json
    if console.is_terminal:
        return lambda message: console.print(_line(message), soft_wrap=True)
    if arguments.verbose:
        return lambda message: _write(_line(message).plain)
    return lambda message: _write(message.payload.decode("utf-8", "backslashreplace"))


def _print_json(message: Message) -> None:
    topic, offset, timestamp, key, payload = message
    told = {"topic": topic, "offset": offset, "timestamp": timestamp, "key": None if key is None else json_bytes(key)}
    screen.print_json(told | {"payload": json_bytes(payload)})


def _write(line: str) -> None:
    """Write a line and flush it: the pipe's reader waits for it. Without rich, which is far slower than the broker."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _line(message: Message) -> Text:
    """Offset, time and key in faint letters, then the payload."""
    payload, key = shown(message.payload), shown_key(message.key) if message.key else ""
    prefix = f"{message.offset:>8}  {quantities.show_time(message.timestamp * 1e6, with_offset=False)}  "
    return Text.assemble((prefix, "dim"), (f"{key}  " if key else "", "cyan"), payload)


def _show_lag(lagged: Lagged, *, as_json: bool) -> None:
    if as_json:
        gone = {"topic": lagged.topic, "start": lagged.start, "end": lagged.end, "count": lagged.count}
        screen.print_json({"lagged": gone})
    else:
        what = f"1 message, offset {lagged.start}, was"
        if lagged.count != 1:
            what = f"{lagged.count:,} messages, offsets {lagged.start} to {lagged.end - 1}, were"
        screen.remark(f"lag: {what} gone", "yellow")
