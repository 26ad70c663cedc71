"""`zaichik replay`: a broker does again what another was recorded doing, without sockets.

Have a broker do again what another one was recorded doing (`zaichik serve --record FILE`): the same
connections, the same requests, at the same readings of the clock, in the same order. It needs no
network, and waits for nothing. It verifies that the broker sends the same bytes on every
connection; the exit code is 1 if it does not, or if the recording is damaged.

With --explain, it answers about a message like `zaichik explain`: as that broker would have at the
moment given with --until, or else at the end of the recording.

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

from zaichik.apps.flight.format import HOLD, FlightKind, FlightRecord, Recording, Unreadable
from zaichik.apps.flight.player import Player, ReplayStep
from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik.base.escapes import harmless, shown
from zaichik.cli import explain_message, names, quantities, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.commands.dissect import in_lines
from zaichik.cli.failure import Failure
from zaichik.cli.streams import STDIN
from zaichik.client.questions import explain_request
from zaichik.core.report.answer import explain
from zaichik.core.rights import ANYBODY

WORDS = {
    FlightKind.CONNECT: "connects from '{}'; it is charged to '{}'",
    FlightKind.LOG_IN: "logs in as '{}'",
    FlightKind.REFUSE: "is sent error {}: '{}'",
    FlightKind.CALL: "{}",
    FlightKind.RECHECK: "is rechecked: rights may have changed {}, the login has ended {}",
    FlightKind.DISCONNECT: "is closed: '{}'",
    FlightKind.SWEEP: "a sweep",
    FlightKind.END: "the recording ends",
    FlightKind.RIGHT: "right to {} '{}': {}",
    FlightKind.SHOWN: "what Describe showed",
    FlightKind.WAIVE: "nothing is kept for names of users who may not read a topic: {}",
    FlightKind.TAKE: "takes output; the disk is asked for it",
    FlightKind.RECOVERED: "is that of topic '{}': its head is {}, its end {}",
    FlightKind.RESTORE: "the broker has the topics that are on the disk",
    FlightKind.ENTRY: "an entry",
    FlightKind.DAMAGED: "an entry that cannot be read: error {}: '{}'",
    FlightKind.VALUE: "{}: {}",
}
# Their number is that of a topic's log.
LOGS = {
    FlightKind.RECOVERED,
    FlightKind.LOG,
    FlightKind.ENTRY,
    FlightKind.DAMAGED,
    FlightKind.VALUE,
}
STEPS = 500  # between checks for Ctrl-C: a replay awaits nothing else, and may take a minute


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
        raise Failure(
            f"{arguments.file}: it is a pipe; write the recording to a file, and replay that"
        )
    with arguments.file.open("rb") as file:
        size = os.fstat(file.fileno()).st_size  # an empty file cannot be mapped
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    try:
        replay = _Replay(Recording(data))
        await replay.run(
            arguments, is_typed=arguments.step and console.is_terminal and sys.stdin.isatty()
        )
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
    """A replay, and what is to be reported about it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._player = Player(recording)
        self._first: list[str] | None = None  # lines of the first step that differs
        self._different = 0  # steps
        self._passed_us = 0
        self._stopped_us = (
            0  # by the clock, if a time was asked for and the recording goes on after it
        )
        self._steps = 0
        self._counts: Counter[FlightKind] = Counter()

    async def run(self, arguments: Namespace, *, is_typed: bool) -> None:
        """Go on up to the end, or to what was asked for."""
        seconds, most = arguments.until
        until_us = self._player.begun_us + seconds * SECOND_US
        for step in self._player.steps(until_us):
            self._steps = step.number
            if step.record.now_us:
                self._passed_us = step.record.now_us - self._player.begun_us
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
        if not (self._counts[FlightKind.END] or self._recording.problem):
            self._stopped_us = int(until_us)

    def explained(self, arguments: Namespace) -> dict[str, Any]:
        """Returns what `zaichik explain` would have printed as JSON where the replay has stopped.

        Raises:
            Refused: see `explain`.
        """
        broker, wanted = self._player.broker, arguments
        request = explain_request(
            0, wanted.explain, wanted.offset, wanted.key, wanted.at, wanted.subscription
        )
        # A clock that clients move may be ahead of the last step: it was moved in it.
        now_us = max(
            self._player.begun_us + self._passed_us, self._stopped_us, broker.clock.now_us()
        )
        explained: dict[str, Any] = json.loads(explain(broker, request, ANYBODY, now_us))
        return explained

    def doubts(self) -> Iterator[str]:
        """Yields why the broker may not be in the state that the recorded one was in."""
        if self._recording.problem:
            yield f"the recording is not whole: {self._recording.problem}"
        if self._first is not None:
            steps = counted(self._different, "step")
            yield f"DIFFERENT in {steps}: see zaichik replay without --explain"

    @property
    def exit_code(self) -> int:
        """1 if anything is wrong."""
        return int(self._first is not None or self._recording.is_damaged)

    def summary(self) -> Iterator[str]:
        """Yields the lines about the whole."""
        about, counts, broker, recording = (
            self._player.about,
            self._counts,
            self._player.broker,
            self._recording,
        )
        begun = datetime.fromtimestamp(self._player.begun_us / SECOND_US, UTC)
        masked = ", payloads masked" if about["checked"] else ""
        yield harmless(
            f"{about['broker']}, {about['build']}, from {begun:%Y-%m-%d %H:%M:%S} UTC{masked}"
        )
        yield (
            f"{counted(self._steps, 'step')} in {self._passed_us / SECOND_US:.6f} s: "
            f"{counted(counts[FlightKind.CONNECT], 'connection')}, "
            f"{counted(counts[FlightKind.FRAME], 'request')}, "
            f"{counted(counts[FlightKind.OUTPUT], 'output')}"
        )
        here, topics = len(broker.managers), len(broker.registry)
        stored = sum(topic.end - topic.head for topic in broker.registry)
        yield (
            f"the broker then has {counted(here, 'connection')}, {counted(topics, 'topic')} and "
            f"{counted(stored, 'message')}"
        )
        if recording.problem:
            yield f"the recording is not whole: {recording.problem}"
        if self._first is None:
            yield "the same bytes were sent on every connection"
        else:
            steps = counted(self._different, "step")
            yield f"DIFFERENT in {steps}; the first difference:"
            yield from self._first

    def _lines(self, step: ReplayStep) -> Iterator[str]:
        """Yields what happened in a step."""
        record = step.record
        whose = ""
        if record.number:
            what = "log" if record.kind in LOGS else "connection"
            whose = f"  {what} {record.number}"
        start = f"{step.number:>6}  +{self._passed_us / SECOND_US:.6f} s{whose}"
        if record.kind is FlightKind.FRAME:
            yield f"{start}  > {' '.join(in_lines(record.payload))}"
        elif record.kind is FlightKind.OUTPUT:
            lines = list(in_lines(b"".join(step.output))) or ["nothing"]
            yield f"{start}  < {lines[0]}"
            yield from (f"{' ' * len(start)}  < {line}" for line in lines[1:])
        elif step.error is not None:
            yield f"{start}  {record.kind.name}"
        elif record.kind is FlightKind.HOLD:
            client = record.payload[HOLD.size :]
            (amount,) = HOLD.unpack_from(record.payload)
            yield f"{start}  client '{shown(client)}' holds {amount:+,} bytes"
        elif record.kind is FlightKind.LOG:
            yield f"{start}  {' '.join(_known_values(record))}"
        else:
            yield f"{start}  {WORDS[record.kind].format(*_values(record))}"
        if step.difference:
            yield f"{' ' * len(start)}  !! {harmless(step.difference)}"
        if step.error is not None:
            yield f"{' ' * len(start)}  !! {harmless(repr(step.error))}"


def _values(record: FlightRecord) -> list[str]:
    """Returns at least as many values as `WORDS` has places, whatever the record holds."""
    return [*_known_values(record), *"???"]


def _known_values(record: FlightRecord) -> list[str]:
    """Returns the values of a record as text; none if it has something else."""
    try:
        values = record.values
    except ValueError:
        values = []
    return [shown(str(value)) for value in values]
