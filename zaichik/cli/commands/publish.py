r"""`zaichik publish`: messages from arguments, or a line each from a file or standard input.

Send messages to a topic, which is created if it doesn't exist. Without MESSAGE, every line of the
file or of standard input is a message, without its line end; empty lines count, too. Messages may
have a key: the same one for all, or one taken from each message. A topic with a compaction window
keeps only the first message of each key in a window; a table keeps only the last. After a lost
connection, zaichik reconnects and retries messages that the broker hasn't confirmed; nothing is
stored twice. If the broker is restarted, its topics are gone, except durable ones: publishing
continues, and the exit code is 1. A topic created with --overflow reject makes publishers wait for
its readers.

With --acked-by kafka it ends when Kafka has the messages, too. That takes a bridge (`zaichik
bridge`), and a topic that loses nothing: created with --overflow reject --retention forever.

A topic created by publishing keeps nothing for later readers, unless the broker was started with
another default: subscribe first, or create the topic with --retention before you publish to it.

Examples:
  zaichik create greetings --retention 1h     # a topic that keeps its messages
  zaichik publish greetings hello "good morning"
  zaichik publish greetings --key alice "how are you?"
  zaichik publish greetings -- --looks-like-an-option
  zaichik subscribe greetings                 # all four of them
  tail -f access.log | zaichik publish log    # each line is sent at once
  zaichik publish log --file access.log --key-regex '^(\S+)'
  zaichik publish orders --file orders.jsonl --key-json customer
  zaichik publish rates --key EUR --tombstone   # delete a key from a table
  zaichik publish bills 7.99 --acked-by kafka   # returns when Kafka has it, too
  zaichik publish orders one --cluster 10.0.0.1:8900    # wherever orders is

With --key-regex or --key-json, a message in which no key is found is published without one.
"""

import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from zaichik.base.escapes import shown
from zaichik.cli import acked_by, connecting, names, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument, one_of
from zaichik.cli.failure import Failure
from zaichik.cli.lines import Lines, reading
from zaichik.client.client import Client
from zaichik.client.errors import ZaichikError
from zaichik.client.producer import Producer
from zaichik.net.background import BackgroundTasks

LOST = (
    "nobody is subscribed to {}, and it keeps nothing for later readers (retention 0), so what you "
    "published is lost. "
    "Subscribe first, or create a topic that keeps messages before publishing to it: zaichik "
    "create NAME --retention 1h"
)
NO_TABLE = (
    "{} is not a table: no key was deleted, and what you published is a message without a payload"
)

WAITS = (
    "{} is published, and {} does not have all of it yet. Is its bridge running (zaichik bridge)? "
    "Ctrl-C ends the wait"
)
PATIENCE_SECONDS = 3.0  # a bridge takes much less

# The key of a payload; the number is that of its line, for errors.
KeyOf = Callable[[bytes, int], bytes | None]


def _key(text: str) -> bytes:
    if not text:
        raise WrongUsage('an empty key means "no key"; leave --key out')
    return os.fsencode(text)


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise WrongUsage(f"{text!r} is not a regular expression: {error}") from None


ARGUMENTS = (
    argument("TOPIC", "the topic to publish to", names.name),
    argument(
        "[MESSAGE...]",
        "a message to send; without any, lines are read",
        dest="messages",
        default=(),
    ),
    argument("--file FILE", 'read lines from this file; "-" (the default) is standard input'),
    one_of(
        argument("--key KEY", "the key of all messages", _key),
        argument(
            "--key-regex RE",
            "take each key from its message: the first match of RE, or its first group",
            _regex,
        ),
        argument(
            "--key-json FIELD", "take each key from its message, a JSON object: this field, as text"
        ),
    ),
    argument("--tombstone", "delete KEY from a table, instead of sending messages"),
    acked_by.option("end when WHAT has all messages, too; WHAT is kafka"),
    connecting.PLACE,
    connecting.RECONNECT,
    argument("--json", "print the summary as one JSON object on standard output"),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Send all messages and report what became of them."""
    if arguments.messages and arguments.file is not None:
        raise WrongUsage("give either MESSAGE or --file, not both")
    key_of = _key_of(arguments)
    messages = _messages(arguments, key_of)
    async with connecting.connected(arguments, "publish", arguments.topic) as client:
        tally = _Tally(arguments.topic, arguments.acked_by)
        try:
            async with _producer(client, arguments, tally) as producer:
                for payload, key in messages:
                    await producer.send(payload, key)
                    tally.sent += 1
                if not messages:
                    await _send_lines(client, arguments.file or "-", key_of, tally)
        except BaseException as error:
            # Report how far it got. `main` reports the error itself, but not Ctrl-C.
            if tally.confirmed or (tally.sent and not isinstance(error, Exception)):
                tally.show(as_json=False)
            raise
        tally.show(as_json=arguments.json)
        state = None
        if tally.producer.stored:
            state = await _state(client, arguments.topic)
        if state is not None and arguments.tombstone and not state["settings"].get("table"):
            screen.remark(NO_TABLE.format(shown(arguments.topic)), "yellow")
        elif state is not None and _is_lost(state):
            screen.remark(LOST.format(shown(arguments.topic)), "yellow")
        if client.lost_topics:
            raise Failure(f"{client.lost_topics[-1]}. Publish again what is still needed.")


def _messages(arguments: Namespace, key_of: KeyOf) -> Sequence[tuple[bytes | None, bytes | None]]:
    """Returns the messages of the command line, with their keys; none if lines are to be read.

    All keys are found before the first message is sent: a wrong argument stops all of them. A
    tombstone has no payload.
    """
    if arguments.tombstone:
        if arguments.messages or arguments.file is not None:
            raise WrongUsage("--tombstone deletes a key, and sends no message: leave those out")
        if arguments.key is None:
            raise WrongUsage("--tombstone deletes a key: name it with --key")
        return [(None, arguments.key)]
    payloads = [os.fsencode(text) for text in arguments.messages]
    return [(payload, key_of(payload, number)) for number, payload in enumerate(payloads, 1)]


@asynccontextmanager
async def _producer(
    client: Client, arguments: Namespace, tally: "_Tally"
) -> AsyncIterator[Producer]:
    """Returns the producer; the end of the block waits until all is done."""
    by = acked_by.chosen(arguments)
    async with BackgroundTasks() as tasks, client.producer(arguments.topic, acked_by=by) as made:
        tally.producer = made
        tally.has_begun = True
        yield made
        if by is not None:
            tasks.group.start_soon(_say_that_it_waits, tally)


async def _say_that_it_waits(tally: "_Tally") -> None:
    """Without a bridge, a command would wait for ever, and nobody would know what for."""
    await anyio.sleep(PATIENCE_SECONDS)
    screen.remark(WAITS.format(shown(tally.topic), tally.acked_by), "yellow")


async def _state(client: Client, topic: str) -> dict[str, Any] | None:
    """Returns what the broker reports of the topic; None if it does not."""
    try:
        states = await client.topics(topic)
    except ZaichikError:  # everything is published; a warning less is no failure
        return None
    for state in states:
        if state["name"] == topic:
            return state
    return None


def _is_lost(state: dict[str, Any]) -> bool:
    """Returns whether no one can read what was published.

    Then there is no retention, and no subscription or name that needs it (RET-1).
    """
    return not (
        state["settings"]["retention_ttl_ms"]
        or state["subscriptions"]
        or state["needed"] < state["next_offset"]
    )


class _Tally:
    """Messages sent, the broker's answers to them, and the time it took."""

    producer: Producer
    has_begun = False

    def __init__(self, topic: str, acked_by: str | None) -> None:
        self.topic = topic
        self.acked_by = acked_by
        self.sent = 0
        self._began = time.perf_counter()

    @property
    def confirmed(self) -> int:
        """Messages that the broker has confirmed."""
        if not self.has_begun:
            return 0
        return self.producer.stored + self.producer.compacted

    def show(self, *, as_json: bool) -> None:
        """Print the closing summary."""
        seconds = time.perf_counter() - self._began
        stored, compacted = self.producer.stored, self.producer.compacted
        rate = self.confirmed / seconds
        settled = self.producer.settled
        if as_json:
            told: dict[str, Any] = {
                "topic": self.topic,
                "published": self.confirmed,
                "stored": stored,
                "compacted": compacted,
            }
            if self.acked_by is not None:
                told["acknowledged"] = settled
            screen.print_json(
                told | {"seconds": round(seconds, 6), "messages_per_second": round(rate, 1)}
            )
            return
        unknown = self.sent - self.confirmed
        screen.remark(
            f"{shown(self.topic)}: published {self.confirmed:,} = stored {stored:,} + compacted "
            f"{compacted:,}"
            f" in {seconds:.3g} s ({rate:,.0f} messages/s)"
            + (f"; {unknown:,} more not confirmed" * bool(unknown))
            + (f"; {settled:,} acknowledged by {self.acked_by}" if self.acked_by else "")
        )


async def _send_lines(client: Client, path: str, key_of: KeyOf, tally: _Tally) -> None:
    with reading(path, client.welcome.max_message) as lines:
        if lines.is_terminal:
            screen.remark("reading lines from the terminal; Ctrl-D ends the input")
        with _progress(lines) as advance:
            async for some in lines:
                for payload in some:
                    await tally.producer.send(payload, key_of(payload, tally.sent + 1))
                    tally.sent += 1
                advance(tally.sent)


@contextmanager
def _progress(lines: Lines) -> Iterator[Callable[[int], None]]:
    """Returns a function to call with the number of messages sent so far.

    It shows a bar if stderr is a terminal.
    """
    if lines.is_terminal or not sys.stderr.isatty():
        yield lambda sent: None
        return
    columns = (
        TextColumn("{task.fields[sent]:,} messages"),
        BarColumn(),
        DownloadColumn(binary_units=True),
    )
    with Progress(
        *columns,
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=screen.on_stderr(),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=lines.size, sent=0)
        yield lambda sent: progress.update(task, completed=lines.bytes_read, sent=sent)


def _key_of(arguments: Namespace) -> KeyOf:
    """Returns the function that finds a message's key."""
    if arguments.key_regex:
        pattern: re.Pattern[str] = arguments.key_regex
        return lambda payload, number: _match(pattern, payload)
    if arguments.key_json:
        field: str = arguments.key_json
        return lambda payload, number: _field(field, payload, number)
    key: bytes | None = arguments.key
    return lambda payload, number: key


def _match(pattern: re.Pattern[str], payload: bytes) -> bytes | None:
    match = pattern.search(payload.decode("utf-8", "surrogateescape"))
    if match is None:
        return None
    text = match[1] if pattern.groups else match[0]
    return text.encode("utf-8", "surrogateescape") if text else None


def _field(field: str, payload: bytes, number: int) -> bytes | None:
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise Failure(f"message {number} is not JSON: {error}") from None
    except RecursionError:
        raise Failure(f"message {number} is nested too deeply to find a key in it") from None
    if not isinstance(value, dict):
        raise Failure(f"message {number} is JSON, but not an object")
    found = value.get(field)
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    try:
        return text.encode() or None
    except UnicodeEncodeError:
        raise Failure(
            f"message {number} has a key with a lone surrogate, which UTF-8 cannot carry: {text}"
        ) from None
