"""Writes a topic's log, in worker threads: a group of records is written and synced as one.

While one group is synced, the next one gathers. So there is no timer: where syncs are slow, groups
are large.
"""

import logging
import secrets
from bisect import bisect_right
from collections.abc import Sequence

from zaichik.base.clock import MILLISECOND_US, MINUTE_US
from zaichik.storage.cleaning.rewriting import Rewriting
from zaichik.storage.disk import FOLDER, Disk, DiskFull, FileTooLong
from zaichik.storage.record import StoredRecord
from zaichik.storage.recovery import KEPT_CHECKPOINTS, TOPIC_FILE, Recovered, topic_file
from zaichik.storage.segment import HEAD_SIZE, Segment, TopicHeader, sorted_names
from zaichik_protocol import FOREVER

logger = logging.getLogger("zaichik.log.writer")

DELETED = ".deleted"  # the end of the name of a folder that is being removed
# Of a segment whose messages expire: below that, the files would be many and small.
SHORTEST_US = MINUTE_US
# Bytes of log; or four times the size of a checkpoint, if that is more.
CHECKPOINT_EVERY = 4 * 1024 * 1024
# Where rewriting waits for one: four times that size, or as many bytes.
SOONEST_CHECKPOINT = 512 * 1024


class Writer:
    """The writing end of one topic's log. One thread at a time calls it.

    Args:
        disk: where it is written.
        folder: the topic's.
        recovered: what was found there at the start; its segments are shared with readers, which do
            not change them.

    Attributes:
        segments: the oldest first.
        bytes: of all of them.
        segment_bytes: bytes of a segment after which a new one begins.
        written: bytes that groups have taken since the start.
        is_damaged: see `Recovered`; then nothing is written or removed.
    """

    def __init__(self, disk: Disk, folder: str, topic: TopicHeader, recovered: Recovered) -> None:
        self.folder = folder
        self.segments = recovered.segments
        self._disk = disk
        self._topic = topic
        self._state = recovered.state
        self._active: Segment | None = None
        self.written = 0
        self.is_damaged = bool(recovered.damage)
        self._is_created = recovered.is_kept
        self._unsaved = recovered.unsaved  # bytes since the last checkpoint
        self._saved = 0  # size of the last checkpoint
        self._saved_in = recovered.saved  # the base of the segment that it is of; -1: there is none
        self._saved_before = recovered.saved_before  # the same of the one before
        self._saved_end = recovered.saved_end  # what the name of the last one says
        settings = topic.settings
        self._log_bytes = settings["log_bytes"]
        self.segment_bytes = min(settings["segment_bytes"], self._log_bytes // 8)
        self._segment_us = max(settings["retention_ttl_ms"] * MILLISECOND_US, SHORTEST_US)

    @property
    def bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def head(self) -> int:
        """The first offset that is on the disk."""
        if not self.segments:
            return self._state.end
        return self.segments[0].base

    def create(self) -> None:
        """Make the topic's folder, if it is not there."""
        if not self._is_created:
            self._disk.replace(f"{self.folder}/{TOPIC_FILE}", topic_file(self._topic))
            self._is_created = True

    def write(self, group: Sequence[StoredRecord]) -> None:
        """Write a group of records; when this returns, they are on the disk.

        Raises:
            DiskFull: none of them was written.
            StorageFailed: whether they were is unknown.
        """
        self.create()
        segment = self._active
        if self.segments and self.segments[-1].base == group[0].base:
            # The last segment has no messages yet, and is continued.
            segment = self._begun_again(self.segments[-1])
            self._active = segment
        elif (
            segment is None
            or segment.size >= self.segment_bytes
            or self._is_old(segment, group[0].accepted_us)
        ):
            segment = self._roll(group[0])
        try:
            self._append(segment, group)
        except FileTooLong:
            # The limit is of each file, so a new one has room, unless the group alone has none.
            if segment.size <= HEAD_SIZE:
                raise
            if group[0].base == segment.base:
                segment = self._replaced(segment)
                self._active = segment
            else:
                segment = self._roll(group[0])
            self._append(segment, group)
        if self._unsaved >= max(CHECKPOINT_EVERY, 4 * self._saved):
            self.save()

    def _append(self, segment: Segment, group: Sequence[StoredRecord]) -> None:
        """Write a group of records at the end of a segment."""
        at = segment.size
        self._disk.write(segment.path, at, [record.pack(segment.salt, at) for record in group])
        for record in group:
            segment.note(record.base, record.accepted_us, segment.size)
            segment.size += record.size
            self._state.add(record)
        self._unsaved += segment.size - at
        self.written += segment.size - at

    def _is_old(self, segment: Segment, now_us: int) -> bool:
        """Whether its first record has expired.

        Files are removed as a whole, so none may grow forever.
        """
        return self._segment_us < FOREVER and now_us - segment.accepted_us >= self._segment_us

    def _roll(self, first: StoredRecord) -> Segment:
        """Begin a new segment, for a group that begins with that record."""
        salt = secrets.randbits(32)
        segment = Segment(self.folder, first.base, salt, first.accepted_us)
        self._disk.write(segment.path, 0, [segment.head(self._topic)])
        self._active = segment
        self.segments.append(segment)
        return segment

    def _begun_again(self, segment: Segment) -> Segment:
        """Returns a segment without messages as it is; if it is full, an empty one in its place."""
        if segment.size < max(self.segment_bytes, 4 * self._saved):
            return segment
        return self._replaced(segment)

    def _replaced(self, segment: Segment) -> Segment:
        """Returns an empty segment in the place of one without messages; the same without room.

        First comes a checkpoint of the old one, then one of the new one, which counts as soon as
        its file is there.
        """
        new = Segment(self.folder, segment.base, secrets.randbits(32), segment.accepted_us)
        self.save()
        try:
            self._checkpoint(new, segment.base + 1)
            self._disk.replace(new.path, new.head(self._topic))
        except DiskFull:
            return segment
        self.segments[-1] = new
        return new

    @property
    def is_saved(self) -> bool:
        """Whether a checkpoint has everything."""
        return not self._unsaved

    def save(self) -> None:
        """Write a checkpoint; if there is no room, the last one has to do."""
        if not self._unsaved:
            return
        last = self.segments[-1]
        try:
            self._saved = self._checkpoint(last, self._state.end)
        except DiskFull:
            logger.info(
                "no room for a checkpoint in %s: the next start will take longer", self.folder
            )
            return
        self._unsaved = 0
        # Where no message has come since, it has replaced the last one.
        if self._state.end != self._saved_end:
            self._saved_before = self._saved_in
        self._saved_in = last.base
        self._saved_end = self._state.end
        names = sorted_names(self._disk.files(self.folder), "state")
        old = names[:-KEPT_CHECKPOINTS]
        self._disk.remove([f"{self.folder}/{name}" for name in old])

    def _checkpoint(self, segment: Segment, number: int) -> int:
        """Write a checkpoint of the state up to the end of that segment. Returns its size."""
        data = self._state.checkpoint(
            self._topic.epoch, segment.base, segment.size, segment.salt, self.head
        )
        self._disk.replace(f"{self.folder}/{number:020}.state", data)
        return len(data)

    def rewritable_below(self, *, is_full: bool) -> int:
        """Returns an offset below which no segment has a place that a checkpoint names.

        That is one of the last two, so that a damaged one costs time only. If the log is full,
        nothing may come that a second one could be made of: then it is the last one.
        """
        if self.is_damaged:
            return -1
        if is_full:
            return self._saved_in
        return min(self._saved_before, self._saved_in)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the last checkpoint of this run; 0 if there was none."""
        return self._saved

    @property
    def may_save(self) -> bool:
        """Whether enough was written since the last checkpoint for one that is not necessary."""
        return self._unsaved >= max(SOONEST_CHECKPOINT, 4 * self._saved)

    def know_deleted(self, below: int) -> None:
        """Take over an offset above every tombstone that is gone: see `LogState`."""
        self._state.deleted_below = max(self._state.deleted_below, below)

    def rewriting(
        self, run: Sequence[Segment], until: int, clean_below: int, stuck_from: int
    ) -> Rewriting:
        """Returns the rewriting of neighbouring segments: see there."""
        deleted_below = self._state.deleted_below
        return Rewriting(
            self._disk,
            self._topic,
            run,
            until,
            clean_below,
            stuck_from,
            deleted_below,
            is_first=run[0] is self.segments[0],
        )

    def put_in_place(self, done: Rewriting) -> bool:
        """Replace segments by what they were rewritten as.

        What has superseded the messages that are left out must never be taken for torn. So a
        checkpoint comes first, and if there is no room for one, nothing is replaced.

        Returns whether they were.
        """
        self.save()
        if not self.is_saved:
            done.give_up()
            return False
        new = done.put_in_place()
        first = self.segments.index(done.run[0])
        self.segments[first : first + len(done.run)] = [new]
        for old in done.run[1:]:
            self._disk.remove([old.path])
        return True

    def close(self) -> None:
        """Write a checkpoint, so that the next start has less to read."""
        if not self.is_damaged:
            self.save()

    def give_up(self) -> None:
        """Write and remove nothing more: somebody else has changed what was written.

        A checkpoint is made of what was synced: it tells the next start where the log ended.
        """
        if self._disk.files(self.folder):
            self.save()
        self.is_damaged = True

    def drop_below(self, offset: int) -> None:
        """Remove the segments that hold nothing from that offset on; the last one stays.

        A checkpoint has to cover them first: if there is no room for one, they stay.
        """
        segments = self.segments
        count = 0
        if not self.can_drop(offset):
            return
        while count + 1 < len(segments) and segments[count + 1].base <= offset:
            count += 1
        if self._saved_in < segments[count].base:
            self.save()
        while segments[count].base > self._saved_in and count:
            count -= 1
        gone = [old.path for old in segments[:count]]
        del segments[:count]  # first: a reader that finds no file then knows why
        # Each is gone from the disk before the next is removed: a power cut may undo removals in
        # any order, and a log has no gaps.
        for path in gone:
            self._disk.remove([path])

    def can_drop(self, offset: int) -> bool:
        """Returns whether there is a segment that holds nothing from that offset on."""
        second = self.segments[1:2]  # a copy: the writing thread may remove them
        return not self.is_damaged and bool(second) and second[0].base <= offset

    def expired_until(self, time_us: int) -> int:
        """Returns the greatest known offset below which all was accepted at that time or before.

        Known is what memory has: the disk is not asked.
        """
        end = self._state.end  # before its time: see `LogState.add`
        if self._state.accepted_us <= time_us:
            return end
        for segment in reversed(list(self.segments)):
            if segment.accepted_us > time_us:
                continue
            index = bisect_right(segment.times, time_us) - 1
            # A thread that notes a record adds its time after its offset.
            if 0 <= index < len(segment.offsets):
                return segment.offsets[index]
            return segment.base
        return self.head

    def bytes_from(self, offset: int) -> int:
        """Bytes of the segments that hold anything from that offset on.

        The last one always counts.
        """
        segments = list(self.segments)
        bases = [segment.base for segment in segments]
        first = max(bisect_right(bases, offset) - 1, 0)
        return sum(segment.size for segment in segments[first:])

    def excess(self, room: int = FOREVER) -> int:
        """Returns the first offset that stays within `log_bytes`, or `room` if that is less."""
        too_much = self.bytes - min(self._log_bytes, room)
        index = 0
        while too_much > 0 and index + 1 < len(self.segments):
            too_much -= self.segments[index].size
            index += 1
        if not self.segments:
            return 0
        return self.segments[index].base

    def delete(self) -> None:
        """Remove the topic: first its folder is renamed, then emptied.

        If interrupted, the next start continues.
        """
        if self._disk.files(self.folder):
            self._disk.rename(self.folder, self.folder + DELETED)
            remove_folder(self._disk, self.folder + DELETED)


def remove_folder(disk: Disk, folder: str) -> None:
    """Remove a folder and the files in it. Folders in it are not ours, and stay."""
    files = disk.files(folder)
    disk.remove([f"{folder}/{name}" for name, size in files.items() if size != FOLDER])
    if FOLDER in files.values():
        logger.warning("%s stays: there are folders in it that are not zaichik's", folder)
    else:
        disk.remove([folder])
