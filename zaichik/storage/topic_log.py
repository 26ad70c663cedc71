"""One topic's log, as the broker's core sees it: synchronous, and never waiting.

    write ──▶ a worker is asked ──▶ `gather`: the oldest that wait ──▶ a thread writes, syncs
          ──▶ `on_synced` or `on_refused`

    entry ──▶ of a chunk that was read for this reader; or nothing, then a worker thread reads one
              and wakes the reader

All writes wait in one queue, the owner's. One group of them is written at a time; what is queued
meanwhile becomes the next group.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from zaichik.core.log import LogOwner, Write
from zaichik.core.retained import Wake
from zaichik.core.ring import Entry
from zaichik.core.shared_names.saving import NamesWrite
from zaichik.storage.disk import Disk, DiskFull, FileChanged
from zaichik.storage.reading import DamagedLog, first_since, read_chunk
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.recovery import Recovered
from zaichik.storage.resources import LogResources
from zaichik.storage.segment import HEAD_SIZE, TopicHeader
from zaichik.storage.work import Completion
from zaichik.storage.writer import Writer
from zaichik_protocol import FOREVER, Batch, ErrorCode, Refused

logger = logging.getLogger("zaichik.log.store")

MOST_WRITES = 512  # in a group: what follows its sync is done in one go, while connections wait
GROUP = 4 * 1024 * 1024  # bytes that are written and synced as one, and one record more


class TopicLog:
    """See `zaichik.core.log.Log`.

    Args:
        disk: where it is.
        folder: the topic's.
        topic: its topic.
        recovered: what was found there at the start.
        resources: what it shares with the other logs.

    Attributes:
        is_deleted: whether it is removed, or soon will be.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        topic: TopicHeader,
        recovered: Recovered,
        resources: LogResources,
    ) -> None:
        self._disk = disk
        self._writer = Writer(disk, folder, topic, recovered)
        self._resources = resources
        self._work = resources.work
        self._budget = resources.budget
        self._chunks = resources.chunks
        self.head = self._writer.head
        self.end = recovered.state.end
        self.size = 0
        self.bound = 0
        self.damage = recovered.damage
        self.owner: LogOwner
        self._log_bytes = topic.settings["log_bytes"]
        self._below = 0  # everything below this offset is to be removed
        self._own = 0  # what is below this has to go for `log_bytes` alone
        self.is_deleted = False
        self._wants_save = False
        self._wants_drop = False
        self._gone: list[Completion] = []  # called when it is removed
        self._reading: set[Wake] = set()  # the readers that a chunk is read for
        self._resize(self._writer.bytes)

    # -- writing -----------------------------------------------------------------------------------

    def write(self) -> None:
        """See `Log`."""
        self._work.write(self)

    def drop_below(self, offset: int) -> None:
        """See `Log`."""
        self._below = max(self._below, offset)
        if self._writer.can_drop(self._below):
            self._wants_drop = True
            self._work.write(self)

    def clean(self) -> None:
        """See `Log`: nothing is superseded."""

    def stop_cleaning(self) -> None:
        """Rewrite nothing any more: the broker is stopping."""

    def size_from(self, offset: int) -> int:
        """See `Log`."""
        return self._writer.bytes_from(offset)

    def save(self) -> None:
        """See `Log`."""
        if not self._writer.is_saved:
            self._wants_save = True
            self._work.write(self)

    def delete(self, gone: Completion) -> None:
        """See `Log`."""
        self._reading.clear()
        self._gone.append(gone)
        self.is_deleted = True
        self._work.write(self)

    @property
    def has_work(self) -> bool:
        """Whether a worker thread has something to do."""
        if self.is_deleted:
            return bool(self._gone)
        return self._has_writes() or self._has_more_work()

    def _has_writes(self) -> bool:
        return bool(self.owner.waiting or self._wants_save or self._wants_drop)

    def _has_more_work(self) -> bool:
        """Returns whether there is something to do besides writing."""
        return False

    def gather(self) -> Callable[[], Completion]:
        """Returns the work for a worker thread.

        That in turn returns a function to be called here afterwards.

        Raises:
            StorageFailed: raised by the work, not here.
        """
        wants_save = self._wants_save
        self._wants_save = False
        self._wants_drop = False
        if self.is_deleted:
            return self._remove
        records: list[StoredRecord] = []
        count = 0
        size = 0
        for write in self.owner.waiting:
            if size >= GROUP or count == MOST_WRITES:
                break
            count += 1
            if write.what is not None:
                records.append(_record(write))
                size += records[-1].size
        if records:
            size += HEAD_SIZE  # it may begin a file
        below, full = self._room_for(size)
        # What is about to be written counts already: other logs gather meanwhile.
        written = size
        if full:
            written = 0
        self._resize(self._writer.bytes_from(below) + written)
        if self._writer.can_drop(below):
            bases = [segment.base for segment in self._writer.segments]
            self.head = max(base for base in bases if base <= below)
        return partial(self._write_group, records, count, below, full, save=wants_save)

    def _room_for(self, size: int) -> tuple[int, str]:
        """Returns the offset to remove everything below (DUR-4), and why there is still no room.

        "" if there is room (DUR-9). This is decided on the event loop, so no reader that needs what
        goes can attach meanwhile.
        """
        writer = self._writer
        limit = self._budget.limit
        room = self._log_bytes
        if size:
            room = limit - self._budget.used + self.size
        excess = writer.excess(min(self._log_bytes, room) - size)
        below = max(self._below, min(excess, self.owner.needed))
        # What is below `_own` has to go for `log_bytes` alone; the rest goes for the limit of all
        # logs (see `Durable`).
        if self._log_bytes <= room:
            self._own = FOREVER
        else:
            self._own = writer.excess(self._log_bytes - size)
        if not size or writer.bytes_from(below) + size <= room:
            return below, ""
        full = (
            f"the logs may take {limit} bytes together (max_disk_bytes), and this one has "
            "nothing more to drop"
        )
        return self._below, full

    def _write_group(
        self, records: Sequence[StoredRecord], count: int, below: int, full: str, *, save: bool
    ) -> Completion:
        """Remove old segments, and write the group unless there is no room; then a checkpoint.

        Runs in a worker thread, and sets nothing that the event loop sets, too.

        Args:
            records: the group.
            count: how many writes it is made of.
            below: the offset to remove everything below.
            full: why there is no room; "" if there is.
            save: whether a checkpoint was asked for.
        """
        writer = self._writer
        writer.drop_below(below)
        try:
            if not self.damage:
                writer.create()
            if records and not full:
                times = self._resources.sync_times
                begun = times.clock()
                writer.write(records)
                times.latest.append(times.clock() - begun)
            if save and not self.damage:
                writer.save()
        except DiskFull as error:
            full = str(error)
        except FileChanged as error:
            writer.give_up()
            return partial(self._fail, str(error))
        return partial(self._finish, count, full)

    def _fail(self, damage: str) -> None:
        """Take no more messages: what was stored has been changed (DUR-7)."""
        self._resize(self._writer.bytes)
        if self.is_deleted:
            return
        logger.error("%s; the topic takes no more messages", damage)
        self.damage = damage
        problem = f"the log is damaged: {damage}. Nothing was stored."
        self.owner.on_refused(Refused(ErrorCode.DAMAGED, problem, "topic"))

    def _finish(self, count: int, full: str) -> None:
        """Report the outcome of the group to the owner."""
        self._resize(self._writer.bytes)
        if self.is_deleted:
            return  # all that waits is refused when it is gone
        self.head = self._writer.head
        if full:
            self._resources.shortage.refused(self._writer.folder, full)
            problem = f"{full}. Nothing was stored; try again later."
            self.owner.on_refused(Refused(ErrorCode.STORAGE_FULL, problem, "topic"))
        else:
            self.owner.on_synced(count)
        self.owner.on_head_moved(self.head, self._own)

    def _resize(self, size: int) -> None:
        self._budget.used += size - self.size
        self.size = size

    def _remove(self) -> Completion:
        self._writer.delete()
        return self._is_removed

    def _is_removed(self) -> None:
        self._resize(0)
        while self._gone:
            self._gone.pop()()

    def close(self) -> None:
        """Write a checkpoint, so that the next start has less to read.

        Runs in a worker thread, as its last work.
        """
        if not self.is_deleted:
            self._writer.close()

    # -- reading -----------------------------------------------------------------------------------

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """See `Log`."""
        chunks = self._chunks
        chunk = chunks.get(wake)
        if isinstance(chunk, DamagedLog):
            chunks.drop(wake)
            raise Refused(ErrorCode.DAMAGED, str(chunk))
        if chunk:
            index = bisect_right(chunk, offset, key=attrgetter("base")) - 1
            found = chunk[index]
            if found.base <= offset < found.base + found.batch.count:
                return found
        chunks.drop(wake)
        # It has asked before, and has come back for another reason, such as a commit.
        if wake in self._reading:
            return None
        self._reading.add(wake)
        self._work.read(wake, partial(self._read, offset, wake))
        return None

    def _read(self, offset: int, wake: Wake) -> Completion:
        found: list[Entry] | DamagedLog
        try:
            found = read_chunk(self._disk, self._writer.segments, offset)
        except DamagedLog as damage:
            found = damage
        return partial(self._has_read, wake, found)

    def _has_read(self, wake: Wake, found: list[Entry] | DamagedLog) -> None:
        if wake not in self._reading:
            return  # released meanwhile
        self._reading.remove(wake)
        if found:
            self._chunks.put(wake, found)
        wake()

    def is_reading(self, wake: Wake) -> bool:
        """See `Log`."""
        return wake in self._reading

    def release(self, wake: Wake) -> None:
        """See `Log`."""
        self._chunks.drop(wake)
        self._reading.discard(wake)

    def first_since(self, time_us: int, found: Callable[[int | None], None]) -> None:
        """See `Log`."""

        def read() -> Completion:
            offset = first_since(self._disk, self._writer.segments, time_us)
            return partial(found, offset)

        self._work.read(found, read)

    def expired_until(self, time_us: int) -> int:
        """See `Log`."""
        return self._writer.expired_until(time_us)


def _record(write: Write) -> StoredRecord:
    base = write.base
    accepted_us = write.accepted_us
    producer = write.producer
    sequence = write.sequence
    match write.what:
        case Batch(data, count):
            return StoredRecord(
                base,
                accepted_us,
                count,
                data,
                RecordKind.MESSAGES,
                producer,
                sequence,
                write.dropped,
            )
        case Refused() as refusal:
            body = json.dumps([refusal.code, refusal.message, refusal.field]).encode()
            return StoredRecord(base, accepted_us, 0, body, RecordKind.REFUSED, producer, sequence)
        case NamesWrite() as names:
            body = json.dumps({"ticket": names.ticket, "names": names.changes}).encode()
            return StoredRecord(base, accepted_us, 0, body, RecordKind.NAMES)
        case positions:
            body = json.dumps(positions).encode()
            return StoredRecord(base, accepted_us, 0, body, RecordKind.POSITIONS)
