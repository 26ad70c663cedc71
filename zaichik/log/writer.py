"""Writes a topic's log: in worker threads, a group of records at a time, each group written and synced as one.

While one group is synced, the next one gathers. So there is no timer: where syncs are slow, groups are large.
"""

import logging
import secrets
from bisect import bisect_right
from collections.abc import Sequence

from zaichik.log.disk import Disk, DiskFull
from zaichik.log.record import Record
from zaichik.log.recovery import KEPT_CHECKPOINTS, TOPIC_FILE, Recovered, topic_file
from zaichik.log.segment import Segment, Topic

logger = logging.getLogger(__name__)

CHECKPOINT_EVERY = 4 * 1024 * 1024  # bytes of log; or four times the size of a checkpoint, if that is more


class Writer:
    """The writing end of one topic's log. One thread at a time calls it.

    Args:
        disk: where it is written.
        folder: the topic's.
        recovered: what a start has found there; its segments are shared with readers, who only look.

    Attributes:
        segments: the oldest first.
        bytes: of all of them.
        damaged: see `Recovered`; then nothing is written.
    """

    def __init__(self, disk: Disk, folder: str, topic: Topic, recovered: Recovered) -> None:
        self.folder = folder
        self.segments = recovered.segments
        self._disk = disk
        self._topic = topic
        self._state = recovered.state
        self._active: Segment | None = None
        self._is_created = TOPIC_FILE in disk.files(folder)
        self._unsaved = 0  # bytes since the last checkpoint
        self._saved = 0  # size of the last checkpoint
        settings = topic.settings
        self._log_bytes = settings["log_bytes"]
        self._segment_bytes = min(settings["segment_bytes"], self._log_bytes // 8)

    @property
    def bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def head(self) -> int:
        """The first offset that is on the disk."""
        return self.segments[0].base if self.segments else self._state.end

    def create(self) -> None:
        """Make the topic's folder, if it is not there."""
        if not self._is_created:
            self._disk.replace(f"{self.folder}/{TOPIC_FILE}", topic_file(self._topic))
            self._is_created = True

    def write(self, group: Sequence[Record]) -> None:
        """Write a group of records; when this returns, they are on the disk.

        Raises:
            DiskFull: none of them was written.
            StorageFailed: nobody knows.
        """
        self.create()
        segment = self._active
        if self.segments and self.segments[-1].base == group[0].base:  # it has no messages yet, and goes on
            segment = self._active = self.segments[-1]
        elif segment is None or segment.size >= self._segment_bytes:
            segment = self._roll(group[0])
        at = segment.size
        self._disk.write(segment.path, at, [record.pack(segment.salt, at) for record in group])
        for record in group:
            segment.note(record.base, record.accepted_us, segment.size)
            segment.size += record.size
            self._state.add(record)
        self._unsaved += segment.size - at
        if self._unsaved >= max(CHECKPOINT_EVERY, 4 * self._saved):
            self.save()

    def _roll(self, first: Record) -> Segment:
        """Begin a new segment, for a group that begins with that record."""
        if self._active is not None:
            self._save_index(self._active)
        salt = secrets.randbits(32)
        segment = Segment(self.folder, first.base, salt, first.accepted_us)
        self._disk.write(segment.path, 0, [segment.head(self._topic)])
        self._active = segment
        self.segments.append(segment)
        return segment

    def _save_index(self, segment: Segment) -> None:
        try:
            self._disk.replace(segment.index_path, segment.index())
        except DiskFull:
            logger.info("no room for %s: it will be made again when it is needed", segment.index_path)

    def save(self) -> None:
        """Write a checkpoint; without room, the last one has to do."""
        if self._active is None or not self._unsaved:
            return
        active, state = self._active, self._state
        data = state.checkpoint(active.base, active.size, active.salt)
        name = f"{state.end:020}.state"
        try:
            self._disk.replace(f"{self.folder}/{name}", data)
        except DiskFull:
            logger.info("no room for %s/%s: the next start will take longer", self.folder, name)
            return
        self._unsaved, self._saved = 0, len(data)
        kept = sorted(name for name in self._disk.files(self.folder) if name.endswith(".state"))
        self._disk.remove([f"{self.folder}/{name}" for name in kept[:-KEPT_CHECKPOINTS]])

    def close(self) -> None:
        """Write what saves the next start from reading."""
        self.save()
        if self._active is not None:
            self._save_index(self._active)

    def drop_below(self, offset: int) -> None:
        """Remove the segments that hold nothing from that offset on; the last one stays."""
        segments, count = self.segments, 0
        while count + 1 < len(segments) and segments[count + 1].base <= offset:
            count += 1
        if count:
            gone = [path for old in segments[:count] for path in (old.path, old.index_path)]
            self._disk.remove(gone)
            del segments[:count]

    def can_drop(self, offset: int) -> bool:
        """Returns whether there is a segment that holds nothing from that offset on."""
        return len(self.segments) > 1 and self.segments[1].base <= offset

    def expired_until(self, time_us: int) -> int:
        """Returns an offset below which all was accepted at that time or before: the greatest that memory knows."""
        known = [segment for segment in list(self.segments) if segment.accepted_us <= time_us]
        if not known:
            return self.head
        last = known[-1]
        index = bisect_right(last.times, time_us) - 1
        return last.offsets[index] if 0 <= index < len(last.offsets) else last.base

    def excess(self) -> int:
        """Returns the first offset that `log_bytes` leaves."""
        too_much, index = self.bytes - self._log_bytes, 0
        while too_much > 0 and index + 1 < len(self.segments):
            too_much -= self.segments[index].size
            index += 1
        return self.segments[index].base if self.segments else 0

    def delete(self) -> None:
        """Remove the topic: at once by name, then file by file, which a start goes on with if this is interrupted."""
        files = self._disk.files(self.folder)
        if not files:
            return
        doomed = f"{self.folder}.deleted"
        self._disk.rename(self.folder, doomed)
        remove_folder(self._disk, doomed, files)


def remove_folder(disk: Disk, folder: str, files: dict[str, int]) -> None:
    """Remove a folder and the files in it."""
    if files:
        disk.remove([f"{folder}/{name}" for name in files])
    disk.remove([folder])
