"""Work queues: workers share a name, and each message goes to one of them."""

from collections.abc import Callable
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

DONE = 0  # what a worker says of a job; the others mean: it isn't


class Job:
    """A message that was handed out and isn't done: it's open."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.size = 0  # bytes of key and payload
        self.worker: Worker | None = None  # None: it waits for one
        self.ticket = 0  # what its worker calls it
        self.count = 0  # how often it was handed out


class Queue:
    """What the workers of a name share: the jobs that are open, by offset.

    `next` is the first offset that nobody has had yet.
    """

    def __init__(self, topic: Topic, wanted: Container[Any]) -> None:
        self.topic = topic
        self.next = topic.start(wanted.start, wanted.value)
        self.open: dict[int, Job] = {}
        self.workers: list[Worker] = []
        topic.readers.append(self)  # it needs messages, and hears of new ones

    @property
    def cursor(self) -> int:
        """Below this offset, nothing is needed any more."""
        return min([self.next, *self.open])

    def ring(self) -> None:
        """Wake the workers: there may be a job for them."""
        for worker in self.workers:
            worker.ring()

    def held_by(self, worker: "Worker") -> list[Job]:
        """The jobs that a worker has."""
        return [job for job in self.open.values() if job.worker is worker]

    def first(self) -> Job | None:
        """What to hand out next: what comes again, then what is new."""
        for job in self.open.values():
            if job.worker is None:
                return job
        if self.next == self.topic.next_offset:
            return None
        return Job(self.next)

    def hand_out(self, job: Job, worker: "Worker") -> None:
        """From now on, this worker has it."""
        job.worker, job.ticket = worker, job.offset
        job.count += 1
        self.open[job.offset] = job
        self.next = max(self.next, job.offset + 1)

    def skip(self, job: Job) -> int:
        """Its message is gone from the topic. Returns where the gap ends."""
        if self.open.pop(job.offset, None):
            return job.offset + 1
        self.next = self.topic.head
        return self.next

    def settle(self, wanted: Container[Any]) -> list[int]:
        """Settle the jobs of these tickets. Returns those that are late."""
        late = []
        for ticket in wanted.tickets:
            job = self.open.get(ticket)
            if job is None or job.worker is None:
                late.append(ticket)
            elif wanted.outcome == DONE:
                del self.open[job.offset]
            else:
                job.worker = None  # it comes again
        self.ring()
        return late

    def leave(self, worker: "Worker") -> None:
        """A worker goes. What it has is for the others."""
        for job in self.held_by(worker):
            job.worker = None
        self.workers.remove(worker)
        self.ring()


class Worker:
    """A subscription to a name that it shares with others."""

    def __init__(
        self, queue: Queue, wanted: Container[Any], ring: Callable[[], None]
    ) -> None:
        self.queue, self.topic = queue, queue.topic
        self.id, self.ring = wanted.id, ring
        self.credit, self.credit_bytes = wanted.credit, wanted.credit_bytes
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
        job = self.queue.first()
        if job is None or not self._has_room(0):
            return None
        if job.offset < self.topic.head:
            return self._lagged(job)
        place = job.offset - self.topic.head
        accepted_us, key, payload = self.topic.row[place]
        job.size = len(key) + len(payload)
        if not self._has_room(job.size):
            return None
        flags = HAS_TICKET | (REDELIVERED if job.count else 0)
        self.queue.hand_out(job, self)
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
        if len(held) == self.credit or used >= self.credit_bytes:
            return False
        return not held or used + size <= self.credit_bytes
