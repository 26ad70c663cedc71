"""Reads the part of a log that is no longer in the ring: in worker threads, a piece at a time."""

import errno
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from zaichik.core.ring import Entry
from zaichik.storage.disk import Disk
from zaichik.storage.record import RecordKind
from zaichik.storage.segment import Segment
from zaichik.storage.walk import Step, walk
from zaichik_protocol import Batch

CHUNK = 256 * 1024  # bytes of batches that are read at once; one batch at least
MOST_HELD = 128 * CHUNK


class DamagedLog(Exception):
    """The log cannot be read at an offset. The message says where the damage is."""


class Chunks:
    """A cache of chunks read from disk, one for each reader that has not finished its chunk.

    It is shared by all topics.
    If they exceed the limit, the oldest is dropped. Its reader, which most likely does not read its
    socket, has it read again when it goes on.

    Args:
        most: bytes of batches that are held.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._size = 0
        self._held: OrderedDict[object, tuple[list[Entry] | DamagedLog, int]] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of readers that have a chunk."""
        return len(self._held)

    def get(self, reader: object) -> list[Entry] | DamagedLog | None:
        """Returns a reader's chunk, if there is one."""
        found, _ = self._held.get(reader, (None, 0))
        return found

    def put(self, reader: object, found: list[Entry] | DamagedLog) -> None:
        """Keep a chunk for a reader, instead of its last one."""
        self.drop(reader)
        size = 0
        if not isinstance(found, DamagedLog):
            size = sum(len(entry.batch.data) for entry in found)
        while self._held and self._size + size > self._most:
            self.drop(next(iter(self._held)))
        self._held[reader] = found, size
        self._size += size

    def drop(self, reader: object) -> None:
        """Drop a reader's chunk."""
        _, size = self._held.pop(reader, (None, 0))
        self._size -= size


def read_chunk(disk: Disk, segments: Sequence[Segment], offset: int) -> list[Entry]:
    """Returns some of the batches from the one with that offset on.

    Nothing, if its segment was removed meanwhile.

    Raises:
        DamagedLog: that batch is not whole.
    """
    segment = _segment(segments, offset)
    if segment is None:
        return []
    entries: list[Entry] = []
    size = 0
    wanted = offset
    for step in _noted(disk, segment, segment.position(offset), offset):
        record = step.record
        if record is None or record.kind != RecordKind.MESSAGES:
            continue
        if record.base + record.count <= wanted:
            continue
        if record.base > wanted:
            break
        wanted = record.base + record.count
        batch = Batch(record.body, record.count)
        entries.append(Entry(record.base, record.accepted_us, batch))
        size += len(record.body)
        if size >= CHUNK:
            break
    if not entries and segment in segments:
        raise DamagedLog(
            f"the log is damaged at offset {offset}, in {segment.path}; `zaichik check` tells more"
        )
    return entries


def first_since(disk: Disk, segments: Sequence[Segment], time_us: int) -> int | None:
    """Returns the first offset on the disk accepted at that time or later; None if it is not there.

    If what comes before it cannot be read, and may be of that time, the reader begins there and
    meets the damage (DUR-7).
    """
    snapshot = list(segments)
    times = [segment.accepted_us for segment in snapshot]
    # The last segment that begins before that time may have the first such message.
    index = max(bisect_right(times, time_us - 1) - 1, 0)
    for segment, after in zip_longest(snapshot[index:], snapshot[index + 1 :]):
        wanted, position = segment.place_of_time(time_us)
        is_damaged = False
        for step in _noted(disk, segment, position):
            header = step.header
            is_damaged = header is None
            if header is None:
                continue
            takes_offsets = header.kind in (RecordKind.MESSAGES, RecordKind.LOST)
            if takes_offsets and header.accepted_us >= time_us:
                return wanted  # less than its base, if something before it is damaged
            wanted = header.end
        if after is not None:
            is_damaged = after.base > wanted and after.accepted_us >= time_us
        # A segment that is not there any more was removed meanwhile.
        if is_damaged and segment in segments:
            return wanted
    return None


def _noted(disk: Disk, segment: Segment, position: int, wanted: int = 0) -> Iterator[Step]:
    """Walk a segment, and note positions in its index for later readers.

    What the disk cannot read is damage.
    """
    try:
        for step in walk(disk, segment, position, wanted):
            if step.header is not None:
                segment.note(step.header.base, step.header.accepted_us, step.position)
            yield step
    except OSError as error:
        if not isinstance(error, FileNotFoundError) and error.errno != errno.EIO:
            raise
        yield Step(position, segment.size, None, None)


def _segment(segments: Sequence[Segment], offset: int) -> Segment | None:
    snapshot = list(segments)  # the writer may add or remove one meanwhile
    bases = [segment.base for segment in snapshot]
    index = bisect_right(bases, offset) - 1
    if index < 0:
        return None
    return snapshot[index]
