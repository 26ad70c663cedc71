"""What `zaichik work` shows: what its jobs write, those that fail, and how far it is.

What jobs write to their standard output and error goes to ours, in whole lines. A failure is a line
on standard error, and so is the summary. On a terminal, the last line shows progress. With --json,
each message that was settled is an object on standard output, and what jobs write all goes to
standard error.
"""

from dataclasses import dataclass

import anyio
from rich.text import Text

from zaichik.apps.work.pool import Phase
from zaichik.apps.work.queue_state import QueueState
from zaichik.apps.work.result import Result
from zaichik.base.counted import counted
from zaichik.base.escapes import json_line, shown
from zaichik.cli import screen
from zaichik.cli.status_line import StatusLine
from zaichik.client.work.message import WorkMessage
from zaichik_protocol import Outcome


@dataclass(slots=True)
class Tally:
    """What has become of the messages so far."""

    done: int = 0
    failed: int = 0
    dead: int = 0
    given_back: int = 0
    released: int = 0
    late: int = 0

    @property
    def over(self) -> int:
        """Messages that are done or dead: nothing is left to do for them."""
        return self.done + self.dead

    def sentence(self) -> str:
        """Returns the counts in words, but those that are 0."""
        counts = {
            "done": self.done,
            "failed": self.failed,
            "dead": self.dead,
            "given back": self.given_back,
            "released": self.released,
            "too late": self.late,
        }
        told = [f"{count:,} {word}" for word, count in counts.items() if count or word == "done"]
        return ", ".join(told)


class WorkScreen:
    """Shows a pool at work.

    Args:
        line: where it is shown.
        topic: the topic's name.
        max_deliveries: after so many, a message that fails is dead; 0: never.
        as_json: whether each message that was settled is an object on standard output.

    Attributes:
        tally: see `Tally`.
        running: jobs that run.
    """

    def __init__(self, line: StatusLine, topic: str, max_deliveries: int, *, as_json: bool) -> None:
        self.tally = Tally()
        self.running = 0
        self._line = line
        self._topic = topic
        self._max_deliveries = max_deliveries
        self._as_json = as_json
        self._queue: QueueState | None = None
        self._over = 0  # messages, when that state was reported
        self._said = ""  # about the queue, lately
        self._phase = Phase.WORKING
        self._began = anyio.current_time()

    async def pass_on(self, data: bytes) -> None:
        """Pass on what a job writes to its standard output."""
        if self._as_json:
            await self._line.write_errors(data)
        else:
            await self._line.write(data)

    async def pass_on_errors(self, data: bytes) -> None:
        """Pass on what a job writes to its standard error."""
        await self._line.write_errors(data)

    def enter(self, phase: Phase) -> None:
        """The pool goes on to that phase."""
        self._phase = phase
        self.update()

    async def drained(self) -> None:
        """Say what is waited for, where there is no line that does."""
        if self.running and not (self._line.is_drawn or self._as_json):
            are = "jobs are" if self.running > 1 else "job is"
            await self._line.say(
                f"{shown(self._topic)}: {self.running:,} {are} still running; a second signal ends "
                "what runs"
            )

    def started(self, message: WorkMessage) -> None:
        """The job of that message begins."""
        self.running += 1
        self.update()

    async def settled(self, message: WorkMessage, result: Result, *, is_late: bool) -> None:
        """Count a message that was settled, and show it if it failed."""
        self.running -= 1
        is_dead = not is_late and self._is_dead(message, result)
        self._count(result, is_late=is_late, is_dead=is_dead)
        if self._as_json:
            settled = {
                "topic": message.topic,
                "offset": message.offset,
                "key": None if message.key is None else screen.json_bytes(message.key),
                "delivery": message.delivery,
                "outcome": result.outcome.name.lower(),
                "reason": result.reason,
                "dead": is_dead,
                "late": is_late,
            }
            await self._line.write(json_line(settled).encode() + b"\n")
        elif is_late or result.outcome in {Outcome.RETRY, Outcome.REJECT}:
            await self._say_failed(message, result, is_late=is_late, is_dead=is_dead)
        self.update()

    def _is_dead(self, message: WorkMessage, result: Result) -> bool:
        if result.outcome == Outcome.REJECT:
            return True
        most = self._max_deliveries
        return result.outcome == Outcome.RETRY and 0 < most <= message.delivery

    def _count(self, result: Result, *, is_late: bool, is_dead: bool) -> None:
        tally = self.tally
        if is_late:
            tally.late += 1
        elif is_dead:
            tally.dead += 1
        elif result.outcome == Outcome.DONE:
            tally.done += 1
        elif result.outcome == Outcome.RETRY:
            tally.failed += 1
        elif result.outcome == Outcome.GIVE_BACK:
            tally.given_back += 1
        else:
            tally.released += 1

    async def _say_failed(
        self, message: WorkMessage, result: Result, *, is_late: bool, is_dead: bool
    ) -> None:
        where = f"{shown(message.topic)}, offset {message.offset}"
        if is_late:
            cause = result.cause or _in_words(result.outcome)
            await self._line.say(
                f"{where}: {cause}, but too late: it has been handed out again", "yellow"
            )
        elif is_dead:
            after = counted(message.delivery, "delivery", "deliveries")
            await self._line.say(f"{where}: {result.cause}; dead after {after}", "red")
        else:
            which = f"delivery {message.delivery}"
            if self._max_deliveries:
                which = f"{which} of {self._max_deliveries}"
            await self._line.say(
                f"{where}: {result.cause}; it will be tried again ({which})", "yellow"
            )

    async def show_queue(self, queue: QueueState, holding: str) -> None:
        """Show the state of the queue; what somebody has to do something about, as a line.

        Args:
            queue: the state.
            holding: which message holds the log, as a sentence; "" if none does.
        """
        self._queue = queue
        self._over = self.tally.over
        problem = holding
        if queue.is_serious:
            problem = f"{shown(self._topic)}: nothing is handed out; it waits for {queue.waits_for}"
        if problem and problem != self._said:
            self._said = problem
            await self._line.say(problem, "yellow")
        self.update()

    def update(self) -> None:
        """Show how far it is."""
        told = [f"{self.running:,} running", self.tally.sentence()]
        queue = self._queue
        if queue is not None:
            left = queue.left - (self.tally.over - self._over)
            told.append(f"{max(left, 0):,} left")
        line = f"{shown(self._topic)}: {', '.join(told)}"
        jobs = counted(self.running, "job")
        match self._phase:
            case Phase.WORKING if queue is not None and not self.running:
                line = f"{line}; waiting for {queue.waits_for}"
            case Phase.DRAINING if self.running:
                line = f"{line}; waiting for {jobs}; Ctrl-C ends them"
            case Phase.STOPPING:
                line = f"{line}; ending {jobs}; Ctrl-C kills them"
            case _:
                pass
        self._line.show(Text(line, "dim"))

    async def summarise(self) -> None:
        """Show what became of all messages."""
        # Jobs that were killed.
        self.tally.given_back += self.running
        self.running = 0
        seconds = anyio.current_time() - self._began
        if not self._as_json:
            await self._line.say(
                f"{shown(self._topic)}: {self.tally.sentence()}, {seconds:.3g} s", "dim"
            )


def _in_words(outcome: Outcome) -> str:
    return outcome.name.lower().replace("_", " ")
