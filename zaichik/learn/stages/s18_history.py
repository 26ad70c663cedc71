"""S18, continued: a random history, after which every message has had one fate."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import anyio

from zaichik.learn.failure import Failure
from zaichik.learn.notation import numbers
from zaichik.learn.stages.s16_names import REDELIVERED
from zaichik.learn.stages.s18_dead import listed
from zaichik.learn.stages.s18_order import STAGE as STAGE
from zaichik.learn.stages.s18_shared import (
    DONE,
    REJECT,
    RELEASE,
    RETRY,
    SOME_SECONDS,
    Delivery,
    Work,
    Worker,
)
from zaichik.learn.trial import Trial

BATCHES, A_BATCH, MOST_DELIVERIES = 20, 6, 3
CREDITS = (1, 3, 10, 100)
OUTCOMES = (DONE, DONE, DONE, DONE, RETRY, RETRY, RELEASE, REJECT)
LEAVING = 0.1  # of the deliveries, after how many a worker leaves instead
A_LOOK_S = 0.05


@dataclass(slots=True)
class Tally:
    """What became of each message.

    Attributes:
        work: the messages.
        open: which worker has a message, by its offset.
        counted: deliveries that have counted, by offset.
        seen: offsets that were handed out.
        done, dead: offsets.
        moved: when a message came last.
    """

    work: Work
    open: dict[int, int] = field(default_factory=dict)
    counted: Counter[int] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    moved: float = 0.0

    @property
    def left(self) -> set[int]:
        """Offsets that are neither done nor dead."""
        return set(range(BATCHES * A_BATCH)) - self.done - self.dead

    async def receive(self, worker: Worker, number: int) -> list[Delivery]:
        """The next deliveries of a worker, which must be right."""
        frame = await worker.client.event(worker.id, awaited="a message")
        offset = frame["base"]
        worker.client.events.insert(0, frame)
        again = offset in self.seen or bool(frame.flags & REDELIVERED)
        came = await worker.receive(number=self.counted[offset] + 1, again=again)
        for each in came:
            self._note(each, number)
        return came

    def _note(self, each: Delivery, number: int) -> None:
        problem = ""
        if each.offset in self.open:
            problem = "it is open at another worker"
        elif each.offset in self.done | self.dead:
            problem = "it was settled for good"
        if problem:
            raise Failure(f"the message with offset {each.offset} was handed out, but {problem}")
        self.open[each.offset] = number
        self.seen.add(each.offset)
        self.moved = self.work.trial.elapsed

    def settled(self, each: Delivery, outcome: int) -> None:
        """Note what a worker is about to say."""
        del self.open[each.offset]
        if outcome != RELEASE:
            self.counted[each.offset] += 1
        failed = outcome == RETRY and self.counted[each.offset] == MOST_DELIVERIES
        if outcome == DONE:
            self.done.add(each.offset)
        elif outcome == REJECT or failed:
            self.dead.add(each.offset)

    def released(self, number: int) -> None:
        """Note that a worker is about to leave."""
        self.open = {offset: other for offset, other in self.open.items() if other != number}

    def must_move(self) -> None:
        """Raise Failure if no message has come for too long."""
        trial = self.work.trial
        if trial.elapsed - self.moved > SOME_SECONDS + trial.patience:
            problem = "messages are left that are with nobody, and workers with credit get none"
            raise Failure(problem, expected=f"the offsets {numbers(sorted(self.left)[:9])}")


async def _work(trial: Trial, tally: Tally, number: int, credit: int) -> None:
    """Work until nothing is left: settle by lot, leave now and then, and come back."""
    how: dict[str, Any] = {"credit": credit, "max_deliveries": MOST_DELIVERIES}
    worker = await tally.work.worker(**how)
    while tally.left:
        if not await worker.client.has_event(worker.id, A_LOOK_S):
            tally.must_move()
            continue
        came = await tally.receive(worker, number)
        if trial.rng.random() < LEAVING:
            tally.released(number)
            await worker.leave()
            worker = await tally.work.worker(worker.client, **how)
            continue
        for each in came:
            outcome = trial.rng.choice(OUTCOMES)
            tally.settled(each, outcome)
            delay_ms = 0 if outcome == RETRY else None
            await worker.settle(outcome, each, delay_ms=delay_ms)


@STAGE.check(
    "whatever workers do, each message is done or dead in the end, and never at two of them",
    hint="A message is in one place at a time: with a worker, waiting, done, or dead.",
    how="Write the plainest queue that you can think of, a list and a loop, and give both the same "
    "random requests. Compare what they hand out after each.",
    where="tests/core/work_queue: the project's own queue, in random histories beside a model.",
    sentences="fair.1 messages.6 settle.1 shared.6 shared.7 shared.9 shared.10",
)
async def history(trial: Trial) -> None:
    """A hundred messages and twenty, and four workers that settle by lot, leave and come back."""
    work = await Work.begin(trial)
    tally = Tally(work, moved=trial.elapsed)
    async with anyio.create_task_group() as tasks:
        for number, credit in enumerate(CREDITS):
            tasks.start_soon(_work, trial, tally, number, credit)
        for _ in range(BATCHES):
            await work.publish(*[b""] * A_BATCH)
    dead = {each["offset"] for each in await listed(work)}
    if dead != tally.dead:
        problem = "the dead that are listed are not those that were rejected or failed too often"
        expected, came = numbers(sorted(tally.dead)), numbers(sorted(dead))
        raise Failure(problem, expected=expected, came=came)
    end = {"start": len(work.published)}
    last = await work.worker(max_deliveries=MOST_DELIVERIES, expect=end)
    await last.expect_nothing("everything was done or dead")
