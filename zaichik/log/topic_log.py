"""One topic's log, as the broker's core sees it: synchronous, and never waiting.

    publish ──▶ gathered ──▶ a group ──▶ a worker thread writes and syncs it ──▶ `synced`, or `refused`

    entry ──▶ of a chunk that was read for this reader; or nothing, then a worker thread reads one and wakes the reader

Only one group is written at a time. What comes meanwhile gathers, and is the next group.
"""

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Protocol

from zaichik.broker.durable import Done, LogOwner, Wake
from zaichik.broker.ring import Entry
from zaichik.log.disk import Disk, DiskFull
from zaichik.log.reading import Chunks, Damaged, first_since, read_chunk
from zaichik.log.record import Kind, Record
from zaichik.log.recovery import Recovered
from zaichik.log.segment import Topic
from zaichik.log.writer import Writer
from zaichik_protocol import Batch, ErrorCode, Refused

MOST_RECORDS = 512  # in a group: what follows its sync is done in one go, while connections wait
GROUP = 4 * 1024 * 1024  # bytes that are written and synced as one, and one record more

Then = Callable[[], None]


class Workers(Protocol):
    """Whoever has the threads.

    Attributes:
        chunks: what was read for readers.
    """

    chunks: Chunks

    def write(self, log: "TopicLog") -> None:
        """Have a thread do `log.gather()`, soon; when it is done, call what it returned."""

    def read(self, waiter: object, read: Callable[[], Then]) -> None:
        """Have a thread do that, and then call what it returned; unless that waiter waits for something already."""


@dataclass(frozen=True)
class Job:
    """What a worker thread does for a log at one time.

    Attributes:
        group: the records to write.
        below: files that hold nothing from that offset on are removed.
        keep: from that offset on nothing is removed for want of room.
        save: whether to write a checkpoint.
        delete: whether to remove the log.
        after: called when all of it is done.
    """

    group: Sequence[Record]
    below: int
    keep: int
    save: bool
    delete: bool
    after: Sequence[Done]


class TopicLog:
    """See `zaichik.broker.durable.Log`.

    Args:
        disk: where it is.
        folder: the topic's.
        topic: which it is.
        recovered: what a start has found there.
        workers: see `Workers`.
    """

    def __init__(self, disk: Disk, folder: str, topic: Topic, recovered: Recovered, workers: Workers) -> None:
        self._disk = disk
        self._writer = Writer(disk, folder, topic, recovered)
        self._workers = workers
        self.head = self._writer.head
        self.end = recovered.state.end
        self.size = self._writer.bytes
        self.damage = recovered.damage
        self._owner: LogOwner
        self._gathered: deque[Record] = deque()
        self._appended = self._taken = 0  # records: all so far, and those that do not wait any more
        self._after: deque[tuple[int, Done]] = deque()  # who waits until so many are taken
        self._below = 0
        self._is_written = not recovered.unsaved  # all is on the disk, a checkpoint of it included
        self._wants_save = self._wants_delete = self._wants_drop = False
        self._reading: set[Wake] = set()  # the readers that a chunk is read for

    def attach(self, owner: LogOwner) -> None:
        """See `Log`."""
        self._owner = owner

    # -- writing -----------------------------------------------------------------------------------------------

    def publish(
        self, base: int, accepted_us: int, batch: Batch | None, dropped: bytes, producer: int, sequence: int
    ) -> None:
        """See `Log`."""
        count, data = (0, b"") if batch is None else (batch.count, batch.data)
        self._append(Record(base, accepted_us, count, data, Kind.MESSAGES, producer, sequence, dropped))

    def refuse(self, base: int, accepted_us: int, refusal: Refused, producer: int, sequence: int) -> None:
        """See `Log`."""
        body = json.dumps([refusal.code, refusal.message, refusal.field]).encode()
        self._append(Record(base, accepted_us, 0, body, Kind.REFUSED, producer, sequence))

    def move(self, base: int, accepted_us: int, positions: dict[str, int | None]) -> None:
        """See `Log`."""
        self._append(Record(base, accepted_us, 0, json.dumps(positions).encode(), Kind.POSITIONS))

    def _append(self, record: Record) -> None:
        if self.damage:  # nothing is published, and that positions have moved is not written
            return
        self._gathered.append(record)
        self._appended += 1
        self._is_written = False
        self._workers.write(self)

    def drop_below(self, offset: int) -> None:
        """See `Log`."""
        self._below = max(self._below, offset)
        if self._writer.can_drop(self._below):
            self._wants_drop = True
            self._workers.write(self)

    def size_from(self, offset: int) -> int:
        """See `Log`."""
        return self._writer.bytes_from(offset)

    def save(self) -> None:
        """See `Log`."""
        if not self._is_written:
            self._wants_save = True
            self._workers.write(self)

    def after_all(self, done: Done) -> None:
        """See `Log`."""
        self._after.append((self._appended, done))
        self._workers.write(self)

    def delete(self, done: Done) -> None:
        """See `Log`."""
        self._forget_gathered()
        self._reading.clear()
        self._wants_delete = True
        self.after_all(done)

    @property
    def is_deleted(self) -> bool:
        """Whether the log is removed, or soon will be."""
        return self._wants_delete

    @property
    def has_work(self) -> bool:
        """Whether a worker thread has something to do."""
        return bool(self._gathered or self._after or self._wants_save or self._wants_drop)

    def gather(self) -> Callable[[], Then]:
        """Returns what is to be done now, in a worker thread; that returns what to do with its result, back here.

        Raises:
            StorageFailed: by what it returns.
        """
        group, size = list[Record](), 0
        while self._gathered and size < GROUP and len(group) < MOST_RECORDS:
            group.append(self._gathered.popleft())
            size += group[-1].size
        self._taken += len(group)
        after = self._take_after()
        job = Job(group, self._below, self._owner.needed, self._wants_save, self._wants_delete, after)
        self._wants_save = self._wants_drop = False
        return partial(self._work, job)

    def _take_after(self) -> list[Done]:
        """Returns those who wait for no more than what is taken."""
        after = list[Done]()
        while self._after and self._after[0][0] <= self._taken:
            after.append(self._after.popleft()[1])
        return after

    def _forget_gathered(self) -> None:
        self._gathered.clear()
        self._taken = self._appended

    def _work(self, job: Job) -> Then:
        writer, full = self._writer, ""
        try:
            if job.delete:
                writer.delete()
                return partial(self._finish, job, "")
            if not self.damage:
                writer.create()
            if job.group:
                writer.write(job.group)
            if job.save and not self.damage:
                writer.save()
        except DiskFull as error:
            full = str(error)
        writer.drop_below(max(job.below, min(writer.excess(), job.keep)))
        return partial(self._finish, job, full)

    def _finish(self, job: Job, full: str) -> None:
        """Tell the owner what has become of the group, and those who wait for all of it."""
        refusal = None
        if full:
            refusal = Refused(ErrorCode.STORAGE_FULL, f"{full}. Nothing was stored; try again later.", "topic")
        self.size, self.head = self._writer.bytes, self._writer.head
        after = job.after
        if self._wants_delete:  # then the owner waits for nothing else
            pass
        elif refusal is not None:
            self._forget_gathered()
            after = [*after, *self._take_after()]  # they waited for those, too
            self._owner.refused(refusal)
            self._owner.head_moved(self.head)
        else:
            if job.group:
                self.end = job.group[-1].base + job.group[-1].count
                self._owner.synced(sum(record.kind != Kind.POSITIONS for record in job.group))
            self._is_written = self._is_written or (job.save and not self._gathered and self._writer.is_saved)
            self._owner.head_moved(self.head)
        for done in after:
            done(refusal)

    def close(self) -> None:
        """Write what saves the next start from reading. In a worker thread, when nothing else is done any more."""
        if not self._wants_delete:
            self._writer.close()

    # -- reading -----------------------------------------------------------------------------------------------

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """See `Log`."""
        chunks = self._workers.chunks
        chunk = chunks.get(wake)
        if isinstance(chunk, Damaged):
            chunks.drop(wake)
            raise Refused(ErrorCode.DAMAGED, str(chunk))
        if chunk:
            found = chunk[bisect_right(chunk, offset, key=attrgetter("base")) - 1]
            if found.base <= offset < found.base + found.batch.count:
                return found
        chunks.drop(wake)
        self._reading.add(wake)
        self._workers.read(wake, partial(self._read, offset, wake))
        return None

    def _read(self, offset: int, wake: Wake) -> Then:
        found: list[Entry] | Damaged
        try:
            found = read_chunk(self._disk, self._writer.segments, offset)
        except Damaged as damage:
            found = damage
        return partial(self._has_read, wake, found)

    def _has_read(self, wake: Wake, found: list[Entry] | Damaged) -> None:
        if wake not in self._reading:
            return  # released meanwhile
        self._reading.remove(wake)
        if found:
            self._workers.chunks.put(wake, found)
        wake()

    def is_reading(self, wake: Wake) -> bool:
        """See `Log`."""
        return wake in self._reading

    def release(self, wake: Wake) -> None:
        """See `Log`."""
        self._workers.chunks.drop(wake)
        self._reading.discard(wake)

    def first_since(self, time_us: int, found: Callable[[int | None], None]) -> None:
        """See `Log`."""
        self._workers.read(found, lambda: partial(found, first_since(self._disk, self._writer.segments, time_us)))

    def expired_until(self, time_us: int) -> int:
        """See `Log`."""
        return self._writer.expired_until(time_us)
