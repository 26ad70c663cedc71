"""`zaichik publish`: messages from arguments, or a line each from a file or standard input."""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from zaichik.client.client import Client
from zaichik.client.producer import Producer
from zaichik.console import address, screen
from zaichik.console.failure import Failure
from zaichik.console.lines import Lines, reading

DESCRIPTION = """\
Send messages to a topic, which is made if it is not there. Without MESSAGE every line of the file or of standard
input is a message, empty ones too, without its line end. A message may have a key: the same one for all, or one
taken from each message. A topic with a compaction window keeps only the first message of a key in each window.
If the connection is lost, it is made again, and what the broker has not confirmed is sent again; it stores nothing
twice. A broker that was started anew has lost its topics: publishing goes on, and the exit code is 1. A topic that
was created with --overflow reject makes the publisher wait for its readers.
"""

EPILOG = """\
examples:
  zaichik publish greetings hello "good morning"
  zaichik publish prices --key EURUSD 1.0874
  tail -f access.log | zaichik publish log           # each line leaves at once
  zaichik publish log --file access.log --key-regex '^(\\S+)'
  zaichik publish orders --file orders.jsonl --key-json customer
  zaichik publish greetings -- --looks-like-an-option

With --key-regex or --key-json a message in which no key is found is published without one.
"""

KeyOf = Callable[[bytes, int], bytes | None]  # the key of a payload; the number is that of its line, for errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `zaichik publish`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("topic", metavar="TOPIC", help="where to")
    parser.add_argument("messages", metavar="MESSAGE", nargs="*", help="what to send; left out: lines are read")
    parser.add_argument("--file", metavar="FILE", help='read lines from here; "-" (the default) is standard input')
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--key", metavar="KEY", type=_key, help="the key of all messages")
    keys.add_argument(
        "--key-regex", metavar="RE", type=_regex, help="take each key from its message: the first (group) of RE"
    )
    keys.add_argument(
        "--key-json",
        metavar="FIELD",
        help="take each key from its message, which is a JSON object: this field, as text",
    )
    address.add_option(parser)
    address.add_reconnect(parser)
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object on standard output")


def _key(text: str) -> bytes:
    if not text:
        raise argparse.ArgumentTypeError('an empty key means "no key"; leave --key out')
    return os.fsencode(text)


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Send them all, then tell what became of them."""
    if arguments.messages and arguments.file is not None:
        raise argparse.ArgumentTypeError("MESSAGE and --file exclude each other")
    key_of = _key_of(arguments)
    payloads = [os.fsencode(text) for text in arguments.messages]
    # All keys before the first message is sent: arguments that cannot all be sent are not sent in part.
    messages = [(payload, key_of(payload, number)) for number, payload in enumerate(payloads, 1)]
    async with address.connected(arguments, "publish") as client:
        tally = _Tally(arguments.topic)
        try:
            async with client.producer(arguments.topic) as producer:
                tally.producer = producer
                for payload, key in messages:
                    await producer.send(payload, key)
                    tally.sent += 1
                if not messages:
                    await _send_lines(client, arguments.file or "-", key_of, tally)
        except BaseException as error:
            # How far it came; the error itself is told by `main`. Of Ctrl-C nothing else tells.
            if tally.confirmed or (tally.sent and not isinstance(error, Exception)):
                tally.show(as_json=False)
            raise
        tally.show(as_json=arguments.json)
        if client.lost_topics:
            raise Failure(f"{client.lost_topics[-1]}. Publish again what is still wanted.")
    return 0


class _Tally:
    """What was sent, what the broker said of it, and how long it took."""

    producer: Producer

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self._began = time.perf_counter()

    @property
    def confirmed(self) -> int:
        """Messages the broker has answered for."""
        return self.producer.stored + self.producer.compacted

    def show(self, *, as_json: bool) -> None:
        """The closing summary."""
        seconds = time.perf_counter() - self._began
        stored, compacted = self.producer.stored, self.producer.compacted
        rate = self.confirmed / seconds
        if as_json:
            screen.print_json(
                {
                    "topic": self.topic,
                    "published": self.confirmed,
                    "stored": stored,
                    "compacted": compacted,
                    "seconds": round(seconds, 6),
                    "messages_per_second": round(rate, 1),
                }
            )
            return
        unknown = self.sent - self.confirmed
        screen.remark(
            f"{self.topic}: published {self.confirmed:,} = stored {stored:,} + compacted {compacted:,}"
            f" in {seconds:.3g} s ({rate:,.0f} messages/s)" + (f"; {unknown:,} more not confirmed" * bool(unknown))
        )


async def _send_lines(client: Client, path: str, key_of: KeyOf, tally: _Tally) -> None:
    with reading(path, client.welcome.max_message) as lines:
        if lines.is_terminal:
            screen.remark("reading lines from the terminal, Ctrl-D ends")
        with _progress(lines) as advance:
            async for some in lines:
                for payload in some:
                    await tally.producer.send(payload, key_of(payload, tally.sent + 1))
                    tally.sent += 1
                advance(tally.sent)


@contextmanager
def _progress(lines: Lines) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if somebody is there to look at it; call it with the messages sent so far."""
    if lines.is_terminal or not sys.stderr.isatty():
        yield lambda sent: None
        return
    columns = TextColumn("{task.fields[sent]:,} messages"), BarColumn(), DownloadColumn(binary_units=True)
    with Progress(
        *columns, TransferSpeedColumn(), TimeRemainingColumn(), console=screen.on_stderr(), transient=True
    ) as progress:
        task = progress.add_task("", total=lines.size, sent=0)
        yield lambda sent: progress.update(task, completed=lines.bytes_read, sent=sent)


def _key_of(arguments: argparse.Namespace) -> KeyOf:
    """How the key of a message is found."""
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
    if not isinstance(value, dict):
        raise Failure(f"message {number} is JSON, but no object")
    found = value.get(field)
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return text.encode() or None
