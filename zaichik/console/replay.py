"""`zaichik replay`: what a broker was recorded doing, done again by another one, without sockets or waiting.

Have a broker do again what another one was recorded doing (`zaichik serve --record FILE`): the same connections, the
same requests, at the same readings of the clock, in the same order. It needs no network, and waits for nothing. It
verifies that the broker sends the same bytes on every connection; the exit code is 1 if it does not, or if the
recording is damaged.

With --explain, it answers about a message like `zaichik explain`: as that broker would have at the moment given with
--until, or else at the end of the recording.

Examples:
  zaichik replay flight                    # does it answer as that broker did?
  zaichik replay flight --step             # what came and was sent at each step
  zaichik replay flight --until 2000 --step | tail
  zaichik replay flight --until 12.5s      # the broker as it was at that moment
  zaichik replay flight --until 12.5s --explain orders --offset 4
"""

import json
import mmap
import os
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from rich.console import Console

from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.rights import ANYBODY
from zaichik.client.questions import explain_request
from zaichik.console import explain_message, names, quantities, screen
from zaichik.console.arguments import Namespace, WrongUsage, argument
from zaichik.console.dissect import in_lines
from zaichik.console.failure import Failure
from zaichik.console.streams import STDIN
from zaichik.escapes import harmless, shown
from zaichik.explain.answer import explain
from zaichik.flight.format import HOLD, Kind, Record, Recording, Unreadable
from zaichik.flight.player import Player, Step

WORDS = {
    Kind.CONNECT: "connects from '{}'; it is charged to '{}'",
    Kind.LOG_IN: "logs in as '{}'",
    Kind.REFUSE: "is sent error {}: '{}'",
    Kind.CALL: "{}",
    Kind.RECHECK: "is rechecked: rights may have changed {}, the login has ended {}",
    Kind.DISCONNECT: "is closed: '{}'",
    Kind.SWEEP: "a sweep",
    Kind.END: "the recording ends",
    Kind.RIGHT: "right to {} '{}': {}",
    Kind.SHOWN: "what Describe showed",
    Kind.WAIVE: "nothing is kept for names of users who may not read a topic: {}",
    Kind.TAKE: "takes output; the disk is asked for it",
    Kind.RECOVERED: "is that of topic '{}': its head is {}, its end {}",
    Kind.RESTORE: "the broker has the topics that are on the disk",
    Kind.ENTRY: "an entry",
    Kind.DAMAGED: "an entry that cannot be read: error {}: '{}'",
    Kind.VALUE: "{}: {}",
}
LOGS = {Kind.RECOVERED, Kind.LOG, Kind.ENTRY, Kind.DAMAGED, Kind.VALUE}  # their number is that of a topic's log
STEPS = 500  # between looks at Ctrl-C: a replay awaits nothing else, and may take a minute


def _until(text: str) -> tuple[float, float]:
    """Returns seconds and a number of steps, one of which is the end."""
    if text.isdecimal():
        return inf, quantities.positive(text)
    return float(str(quantities.duration(text)).replace("forever", "inf")), inf


ARGUMENTS = (
    argument("FILE", "a recording", Path),
    argument("--step", "print every step; on a terminal, wait for Enter after each"),
    argument(
        "--until TIME|N",
        "stop after so much time of the recording, such as 12.5s, or after step N",
        _until,
        default=(inf, inf),
    ),
    argument("--explain TOPIC", "print what became of a message of it", names.name),
    explain_message.options("with --explain TOPIC"),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Replay, and say whether the broker has answered as before, or what became of a message."""
    _check_options(arguments)
    if arguments.file.is_fifo():
        raise Failure(f"{arguments.file}: it is a pipe; write the recording to a file, and replay that")
    with arguments.file.open("rb") as file:
        size = os.fstat(file.fileno()).st_size  # an empty file cannot be mapped
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    try:
        replay = _Replay(Recording(data))
        await replay.run(arguments, is_typed=arguments.step and console.is_terminal and sys.stdin.isatty())
    except Unreadable as error:
        raise Failure(f"{arguments.file}: {error}") from error
    if arguments.explain is None:
        sys.stdout.write("\n".join((*replay.summary(), "")))
        return replay.exit_code
    for doubt in replay.doubts():
        screen.complain(f"{arguments.file}: {doubt}")
    explain_message.show(console, replay.explained(arguments), as_json=arguments.json)
    return replay.exit_code


def _check_options(arguments: Namespace) -> None:
    if arguments.explain is not None:
        if arguments.step:
            raise WrongUsage("give either --step or --explain")
        explain_message.check_options(arguments)
    elif explain_message.is_about_a_message(arguments):
        raise WrongUsage("options that choose a message, and --json, go with --explain TOPIC")


class _Replay:
    """A replay, and what is to be told of it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._player = Player(recording)
        self._first: list[str] | None = None  # lines of the first step that differs
        self._different = 0  # steps
        self._passed_us = 0
        self._stopped_us = 0  # by the clock, if a time was asked for and the recording goes on after it
        self._steps = 0
        self._counts: Counter[Kind] = Counter()

    async def run(self, arguments: Namespace, *, is_typed: bool) -> None:
        """Go on up to the end, or to what was asked for."""
        seconds, most = arguments.until
        until_us = self._player.begun_us + seconds * MICROSECONDS
        for step in self._player.steps(until_us):
            self._steps = step.number
            self._passed_us = step.record.now_us - self._player.begun_us if step.record.now_us else self._passed_us
            self._counts[step.record.kind] += 1
            if step.difference:
                self._different += 1
                self._first = self._first or list(self._lines(step))
            if arguments.step:
                sys.stdout.write("\n".join((*self._lines(step), "")))
            if is_typed:
                sys.stdout.flush()
                await anyio.wait_readable(STDIN)
                is_typed = bool(os.read(STDIN, 4096))  # Ctrl-D: the rest at once
            if step.number >= most:
                return
            if step.number % STEPS == 0:
                await checkpoint()
        if not (self._counts[Kind.END] or self._recording.problem):
            self._stopped_us = int(until_us)

    def explained(self, arguments: Namespace) -> dict[str, Any]:
        """Returns what `zaichik explain` would have printed as JSON where the replay has stopped.

        Raises:
            Refused: see `explain`.
        """
        broker, wanted = self._player.broker, arguments
        request = explain_request(0, wanted.explain, wanted.offset, wanted.key, wanted.at, wanted.subscription)
        # A clock that clients move may be ahead of the last step: it was moved in it.
        now_us = max(self._player.begun_us + self._passed_us, self._stopped_us, broker.clock.now_us())
        explained: dict[str, Any] = json.loads(explain(broker, request, ANYBODY, now_us))
        return explained

    def doubts(self) -> Iterator[str]:
        """Yields why the broker may not be in the state that the recorded one was in."""
        if self._recording.problem:
            yield f"the recording is not whole: {self._recording.problem}"
        if self._first is not None:
            yield f"DIFFERENT in {self._different:,} steps: see zaichik replay without --explain"

    @property
    def exit_code(self) -> int:
        """1 if anything is wrong."""
        return int(self._first is not None or self._recording.is_damaged)

    def summary(self) -> Iterator[str]:
        """Yields the lines about the whole."""
        about, counts, broker, recording = self._player.about, self._counts, self._player.broker, self._recording
        begun = datetime.fromtimestamp(self._player.begun_us / MICROSECONDS, UTC)
        masked = ", payloads masked" if about["checked"] else ""
        yield harmless(f"{about['broker']}, {about['build']}, from {begun:%Y-%m-%d %H:%M:%S} UTC{masked}")
        yield (
            f"{self._steps:,} steps in {self._passed_us / MICROSECONDS:.6f} s: {counts[Kind.CONNECT]:,} connections, "
            f"{counts[Kind.FRAME]:,} requests, {counts[Kind.OUTPUT]:,} outputs"
        )
        here, topics = len(broker.managers), len(broker.registry)
        stored = sum(topic.end - topic.head for topic in broker.registry)
        yield f"the broker then has {here:,} connections, {topics:,} topics and {stored:,} messages"
        if recording.problem:
            yield f"the recording is not whole: {recording.problem}"
        if self._first is None:
            yield "the same bytes were sent on every connection"
        else:
            yield f"DIFFERENT in {self._different:,} steps; the first of them:"
            yield from self._first

    def _lines(self, step: Step) -> Iterator[str]:
        """Yields what happened in a step."""
        record = step.record
        whose = f"  {'log' if record.kind in LOGS else 'connection'} {record.number}" if record.number else ""
        start = f"{step.number:>6}  +{self._passed_us / MICROSECONDS:.6f} s{whose}"
        if record.kind is Kind.FRAME:
            yield f"{start}  > {' '.join(in_lines(record.payload))}"
        elif record.kind is Kind.OUTPUT:
            lines = list(in_lines(b"".join(step.output)))
            yield f"{start}  < {lines[0] if lines else 'nothing'}"
            yield from (f"{' ' * len(start)}  < {line}" for line in lines[1:])
        elif step.error is not None:
            yield f"{start}  {record.kind.name}"
        elif record.kind is Kind.HOLD:
            client, (amount,) = record.payload[HOLD.size :], HOLD.unpack_from(record.payload)
            yield f"{start}  client '{shown(client)}' holds {amount:+,} bytes"
        elif record.kind is Kind.LOG:
            yield f"{start}  {' '.join(map(shown, map(str, record.values)))}"
        else:
            yield f"{start}  {WORDS[record.kind].format(*_values(record))}"
        if step.difference:
            yield f"{' ' * len(start)}  !! {harmless(step.difference)}"
        if step.error is not None:
            yield f"{' ' * len(start)}  !! {harmless(repr(step.error))}"


def _values(record: Record) -> list[str]:
    """Returns at least as many values as there are places for in `WORDS`, whoever has written the record."""
    try:
        values = record.values
    except (ValueError, TypeError, RecursionError):  # there are none
        values = []
    return [*(shown(str(value)) for value in values), *"???"]
