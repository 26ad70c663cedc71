"""One topic's log, as the broker's core sees it: synchronous, and never waiting.

    write ──▶ a worker is asked ──▶ `gather`: the oldest that wait ──▶ a thread writes, syncs ──▶ `synced` or `refused`

    entry ──▶ of a chunk that was read for this reader; or nothing, then a worker thread reads one and wakes the reader

All writes wait in one queue, the owner's. One group of them is written at a time; what is queued meanwhile becomes the
next group.
"""

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Protocol

from zaichik.broker.durable import Durable, Wake, Write
from zaichik.broker.ring import Entry
from zaichik.log.disk import Disk, DiskFull
from zaichik.log.reading import Chunks, Damaged, first_since, read_chunk
from zaichik.log.record import Kind, Record
from zaichik.log.recovery import Recovered
from zaichik.log.segment import HEAD_SIZE, Topic
from zaichik.log.writer import Writer
from zaichik_protocol import FOREVER, Batch, ErrorCode, Refused

MOST_WRITES = 512  # in a group: what follows its sync is done in one go, while connections wait
GROUP = 4 * 1024 * 1024  # bytes that are written and synced as one, and one record more

Then = Callable[[], None]


class Workers(Protocol):
    """The worker threads, as a log sees them.

    Attributes:
        chunks: what was read for readers.
        used: bytes of all logs, including those that are being written.
        limit: the most that this may be (DUR-9).
        clock: returns seconds, for measuring; threads call it.
        syncs: seconds that the last groups took to be written and synced.
    """

    chunks: Chunks
    used: int
    limit: int
    clock: Callable[[], float]
    syncs: deque[float]

    def write(self, log: "TopicLog") -> None:
        """Soon call `log.gather()`, have a thread do what it returns, and then call what that returns."""

    def read(self, waiter: object, read: Callable[[], Then]) -> None:
        """Have a thread call that, then call what it returned; does nothing if the waiter waits already."""


class TopicLog:
    """See `zaichik.broker.durable.Log`.

    Args:
        disk: where it is.
        folder: the topic's.
        topic: its topic.
        recovered: what was found there at the start.
        workers: see `Workers`.

    Attributes:
        is_deleted: whether it is removed, or soon will be.
    """

    def __init__(self, disk: Disk, folder: str, topic: Topic, recovered: Recovered, workers: Workers) -> None:
        self._disk = disk
        self._writer = Writer(disk, folder, topic, recovered)
        self._workers = workers
        self.head = self._writer.head
        self.end = recovered.state.end
        self.size = 0
        self.damage = recovered.damage
        self.owner: Durable
        self._log_bytes = topic.settings["log_bytes"]
        self._below = self._own = 0
        self.is_deleted = self._wants_save = self._wants_drop = False
        self._gone: list[Then] = []  # called when it is removed
        self._reading: set[Wake] = set()  # the readers that a chunk is read for
        self._resize(self._writer.bytes)

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self) -> None:
        """See `Log`."""
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
        if not self._writer.is_saved:
            self._wants_save = True
            self._workers.write(self)

    def delete(self, gone: Then) -> None:
        """See `Log`."""
        self._reading.clear()
        self._gone.append(gone)
        self.is_deleted = True
        self._workers.write(self)

    @property
    def has_work(self) -> bool:
        """Whether a worker thread has something to do."""
        if self.is_deleted:
            return bool(self._gone)
        return bool(self.owner.waiting or self._wants_save or self._wants_drop)

    def gather(self) -> Callable[[], Then]:
        """Returns the work for a worker thread. That in turn returns a function to be called here afterwards.

        Raises:
            StorageFailed: raised by the work, not here.
        """
        self._wants_drop = False
        if self.is_deleted:
            return self._remove
        records, count, size = list[Record](), 0, 0
        for write in self.owner.waiting:
            if size >= GROUP or count == MOST_WRITES:
                break
            count += 1
            if write.what is not None:
                records.append(_record(write))
                size += records[-1].size
        size += HEAD_SIZE if records else 0  # it may begin a file
        below, full = self._room_for(size)
        self._resize(self._writer.bytes_from(below) + (0 if full else size))
        if self._writer.can_drop(below):
            self.head = max(segment.base for segment in self._writer.segments if segment.base <= below)
        return partial(self._work, records, count, below, full)

    def _room_for(self, size: int) -> tuple[int, str]:
        """Returns the offset to remove everything below (DUR-4), and why there is still no room (DUR-9), or "".

        This is decided on the event loop, so no reader that needs what goes can attach meanwhile.
        """
        writer, limit = self._writer, self._workers.limit
        room = limit - self._workers.used + self.size if size else self._log_bytes
        below = max(self._below, min(writer.excess(min(self._log_bytes, room) - size), self.owner.needed))
        # What is below this has to go for `log_bytes` alone; the rest goes for the limit of all logs (see `Durable`).
        self._own = FOREVER if self._log_bytes <= room else writer.excess(self._log_bytes - size)
        if not size or writer.bytes_from(below) + size <= room:
            return below, ""
        full = f"the logs may take {limit} bytes together (max_disk_bytes), and this one has nothing more to drop"
        return self._below, full

    def _work(self, records: Sequence[Record], count: int, below: int, full: str) -> Then:
        """Remove old segments, and write the group unless there is no room. Runs in a worker thread."""
        writer, save, self._wants_save = self._writer, self._wants_save, False
        writer.drop_below(below)
        try:
            if not self.damage:
                writer.create()
            if records and not full:
                begun = self._workers.clock()
                writer.write(records)
                self._workers.syncs.append(self._workers.clock() - begun)
            if save and not self.damage:
                writer.save()
        except DiskFull as error:
            full = str(error)
        return partial(self._finish, count, full)

    def _finish(self, count: int, full: str) -> None:
        """Report the outcome of the group to the owner."""
        self._resize(self._writer.bytes)
        if self.is_deleted:
            return  # all that waits is refused when it is gone
        self.head = self._writer.head
        if full:
            problem = f"{full}. Nothing was stored; try again later."
            self.owner.refused(Refused(ErrorCode.STORAGE_FULL, problem, "topic"))
        else:
            self.owner.synced(count)
        self.owner.head_moved(self.head, self._own)

    def _resize(self, size: int) -> None:
        self._workers.used += size - self.size
        self.size = size

    def _remove(self) -> Then:
        self._writer.delete()
        return self._is_removed

    def _is_removed(self) -> None:
        self._resize(0)
        while self._gone:
            self._gone.pop()()

    def close(self) -> None:
        """Write a checkpoint, so that the next start has less to read. Runs in a worker thread, as its last work."""
        if not self.is_deleted:
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


def _record(write: Write) -> Record:
    base, accepted_us, producer, sequence = write.base, write.accepted_us, write.producer, write.sequence
    match write.what:
        case Batch(data, count):
            return Record(base, accepted_us, count, data, Kind.MESSAGES, producer, sequence, write.dropped)
        case Refused() as refusal:
            body = json.dumps([refusal.code, refusal.message, refusal.field]).encode()
            return Record(base, accepted_us, 0, body, Kind.REFUSED, producer, sequence)
        case positions:
            return Record(base, accepted_us, 0, json.dumps(positions).encode(), Kind.POSITIONS)
