"""Work queues, wrong: no key is a key like any other.

Fails at: messages without a key wait for nobody
"""

import json
from collections.abc import Callable
from enum import IntEnum
from itertools import count
from typing import Any

from batches import encode_batch
from construct import Container
from errors import INVALID_FIELD, Refused
from layouts import (
    HANDED_OUT,
    HAS_TICKET,
    LAGGED,
    LAGGED_TYPE,
    MESSAGES_TYPE,
    REDELIVERED,
    encode,
)
from topics import Topic

NUMBERS = count(1)  # of tickets: none is given twice
SECOND_US, LONGEST_S = 1_000_000, 60  # the longest wait
LIST, REVIVE, FORGET = range(3)  # what to do with the dead


class Outcome(IntEnum):
    """What a worker says has become of a job."""

    DONE, RETRY, REJECT, RELEASE, GIVE_BACK, LOSE, EXTEND = range(7)


class Job:
    """A message that was handed out and isn't done: it's open."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.key = b""
        self.size = 0  # bytes of key and payload
        self.worker: Worker | None = None  # None: it waits for one
        self.ticket = 0  # of the last time it was handed out
        self.count = 0  # how often it was handed out
        self.due_us = 0  # when its worker's time is over
        self.ready_us = 0  # until when it waits, at least
        self.reason, self.died_us = b"", 0  # if it's dead

    def report(self, head: int) -> dict[str, Any]:
        """What is said of it when it's dead."""
        about = {"offset": self.offset, "deliveries": self.count}
        about |= {"died_us": self.died_us, "reason": self.reason.decode()}
        return about | {"is_readable": self.offset >= head}


class Queue:
    """What the workers of a name share: the jobs that are open, by offset.

    `next` is the first offset that nobody has had yet. What is dead is
    kept, and handed out to nobody.
    """

    def __init__(self, topic: Topic, wanted: Container[Any]) -> None:
        self.topic = topic
        self.next = topic.start(wanted.start, wanted.value)
        self.max_deliveries = wanted.max_deliveries  # 0: nothing dies
        self.is_by_key = "by_key" in wanted
        self.open: dict[int, Job] = {}
        self.dead: dict[int, Job] = {}
        self.workers: list[Worker] = []
        topic.readers.append(self)  # it needs messages, and hears of new ones

    @property
    def cursor(self) -> int:
        """Below this offset, nothing is needed any more."""
        return min([self.next, *self.open, *self.dead])

    def ring(self) -> None:
        """Wake the workers: there may be a job for them."""
        for worker in self.workers:
            worker.ring()

    def held_by(self, worker: "Worker") -> list[Job]:
        """The jobs that a worker has."""
        return [job for job in self.open.values() if job.worker is worker]

    def first(self, now: int) -> Job | None:
        """What to hand out next: what comes again, then what is new."""
        for job in self.open.values():
            is_ready = job.worker is None and job.ready_us <= now
            if is_ready and not self._must_wait(job):
                return job
        while self.next < self.topic.next_offset:
            job = self._new()
            if not self._must_wait(job):
                return job
            self.open[job.offset] = job
            self.next += 1
        return None

    def _new(self) -> Job:
        """The next message that nobody has had yet."""
        job = Job(self.next)
        place = self.next - self.topic.head
        if place >= 0:
            _, job.key, _ = self.topic.row[place]
        return job

    def _must_wait(self, job: Job) -> bool:
        """Whether an earlier one of its key is open."""
        if not self.is_by_key:
            return False
        return any(other.key == job.key and other.offset < job.offset for other in self.open.values())

    def hand_out(self, job: Job, worker: "Worker", now: int) -> None:
        """From now on, this worker has it."""
        job.worker, job.ticket = worker, next(NUMBERS)
        job.count += 1
        job.due_us = now + worker.timeout_us
        self.open[job.offset] = job
        self.next = max(self.next, job.offset + 1)

    def skip(self, job: Job) -> int:
        """Its message is gone from the topic. Returns where the gap ends."""
        if self.open.pop(job.offset, None):
            return job.offset + 1
        self.next = self.topic.head
        return self.next

    def settle(self, worker: "Worker", wanted: Container[Any], now: int) -> list[int]:
        """Settle the jobs of these tickets. Returns those that are late."""
        held = {job.ticket: job for job in self.held_by(worker)}
        late = []
        for ticket in wanted.tickets:
            worker.overdue.discard(ticket)
            job = held.pop(ticket, None)
            if job is None:
                late.append(ticket)
            else:
                self._settle(job, wanted, now)
        self.ring()
        return late

    def _settle(self, job: Job, wanted: Container[Any], now: int) -> None:
        """Do what a worker says."""
        match wanted.outcome:
            case Outcome.DONE:
                del self.open[job.offset]
            case Outcome.REJECT:
                self._bury(job, wanted.reason, now)
            case Outcome.RELEASE:
                self._put_back(job, now)
            case Outcome.GIVE_BACK:
                self._put_back(job, now + SECOND_US)
            case Outcome.EXTEND:
                job.due_us = now + wanted.delay_ms * 1000
            case _:  # it has failed
                wait_us = SECOND_US * min(2 ** (job.count - 1), LONGEST_S)
                if "delay_ms" in wanted:
                    wait_us = wanted.delay_ms * 1000
                self._fail(job, wanted.reason, now, wait_us)

    def _put_back(self, job: Job, ready_us: int) -> None:
        """This time doesn't count."""
        job.worker, job.ready_us = None, ready_us
        job.count -= 1

    def _fail(self, job: Job, reason: bytes, now: int, wait_us: int) -> None:
        """It comes again after a while, unless that was once too often."""
        if 0 < self.max_deliveries <= job.count:
            self._bury(job, reason, now)
        else:
            job.worker, job.ready_us = None, now + wait_us

    def _bury(self, job: Job, reason: bytes, now: int) -> None:
        """It's dead."""
        job.worker, job.reason, job.died_us = None, reason, now
        self.dead[job.offset] = self.open.pop(job.offset)

    def page(self, wanted: Container[Any]) -> dict[str, Any]:
        """Some of the dead: list them, revive them, or forget them."""
        dead = sorted(each for each in self.dead if each >= wanted.from_offset)
        page, rest = dead[: wanted.count], dead[wanted.count :]
        reply = {"more": bool(rest), "next": rest[0] if rest else 0}
        if wanted.action == LIST:
            head = self.topic.head
            listed = [self.dead[offset].report(head) for offset in page]
            told = json.dumps({"dead": listed}).encode()
            return {**reply, "done": 0, "json": told}
        for offset in page:
            job = self.dead.pop(offset)
            if wanted.action == REVIVE:
                job.count = job.ready_us = 0
                self.open[offset] = job
        self.ring()
        return {**reply, "done": len(page), "json": b""}

    def sweep(self, now: int) -> None:
        """Take jobs away from workers whose time is over."""
        for job in list(self.open.values()):
            worker = job.worker
            if worker and worker.timeout_us and job.due_us <= now:
                worker.overdue.add(job.ticket)
                self._fail(job, b"its worker took too long", now, 0)
        self.ring()

    def leave(self, worker: "Worker") -> None:
        """A worker goes. What it has is for the others."""
        for job in self.held_by(worker):
            self._put_back(job, 0)
        self.workers.remove(worker)
        self.ring()


class Worker:
    """A subscription to a name that it shares with others."""

    def __init__(self, queue: Queue, wanted: Container[Any], ring: Callable[[], None]) -> None:
        self.queue, self.topic = queue, queue.topic
        self.id, self.ring = wanted.id, ring
        self.credit, self.credit_bytes = wanted.credit, wanted.credit_bytes
        self.timeout_us = wanted.timeout_ms * 1000  # 0: there is none
        self.overdue: set[int] = set()  # tickets: it had them for too long
        queue.workers.append(self)

    @property
    def cursor(self) -> int:
        """The first offset that nobody has had yet."""
        return self.queue.next

    @property
    def committed(self) -> int:
        """Below this offset, all is settled."""
        return self.queue.cursor

    def next_event(self, now: int) -> bytes | None:
        """A job, as a frame; None if there's none for this worker now."""
        self.topic.expire(now)
        job = self.queue.first(now)
        if job is None or not self._has_room(0):
            return None
        if job.offset < self.topic.head:
            return self._lagged(job)
        place = job.offset - self.topic.head
        accepted_us, key, payload = self.topic.row[place]
        job.size = len(key) + len(payload)
        if not self._has_room(job.size):
            return None
        flags = HAS_TICKET | (REDELIVERED if job.ticket else 0)
        self.queue.hand_out(job, self, now)
        event = {"base": job.offset, "accepted_us": accepted_us}
        number = min(job.count, 65_535)  # the greatest that fits
        event |= {"ticket": job.ticket, "number": number}
        batch = encode_batch([(key, payload)])
        body = HANDED_OUT.build({**event, "batch": batch})
        return encode(MESSAGES_TYPE, self.id, body, flags)

    def commit(self, _following: int) -> int:
        """One offset can't say what is done here."""
        raise Refused(INVALID_FIELD, "subscription", "settle it instead")

    def leave(self) -> None:
        """Work no more."""
        self.queue.leave(self)

    def _lagged(self, job: Job) -> bytes:
        """What was gone when its turn came."""
        gap = {"from_offset": job.offset, "to_offset": self.queue.skip(job)}
        return encode(LAGGED_TYPE, self.id, LAGGED.build(gap))

    def _has_room(self, size: int) -> bool:
        """Whether its credit allows one more job, of that many bytes."""
        held = self.queue.held_by(self)
        used = sum(job.size for job in held)
        count = len(held) + len(self.overdue)
        if count >= self.credit or used >= self.credit_bytes:
            return False
        return not held or used + size <= self.credit_bytes
