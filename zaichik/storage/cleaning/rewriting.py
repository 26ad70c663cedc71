"""Rewriting: neighbouring files of a table's log made one, without what is superseded.

    00…00000.log  a1 b1 a2 c1 b2 │ 00…00005.log  a3 c2 d1 a4      half of it is dead
    .00…00000.log          b2           c2 d1 a4                  beside the log, a piece at a time
    00…00000.log           b2           c2 d1 a4                  in its place, in one step

The new file has the first offset of the old ones, a salt of its own, and says in its head up to
which offset it replaces what was there: whatever else begins below that is left over, because a
crash came before its removal. Nobody is sent anything from these files, so nothing waits for it.

A tombstone that is gone from the table stays in the file until no older message of its key can be
in an older one: a start would find that message, and nothing that deletes it.

Named positions that have moved in the old files are kept, and what has changed of shared names.
Producers' numbers are not: a start reads no further back than the last two checkpoints, which have
them, unless both are damaged.
"""

import secrets
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from zaichik.core.tables.keep_last import ROW, Rows
from zaichik.storage.cleaning.changes import Changes
from zaichik.storage.cleaning.kept import COLUMNS, MOST_COVERED, holes, kept_record, rows_of
from zaichik.storage.disk import Disk
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.segment import HEAD_SIZE, Segment, TopicHeader
from zaichik.storage.walk import Step, walk
from zaichik_protocol import Batch

STEP = 1024 * 1024  # bytes that are read in one step, while writes wait
RECORD = 128 * 1024  # bytes of keys and payloads in a record, and one message more at most
RECORD_MESSAGES = 4096  # in a record, at most


class CannotRewrite(Exception):
    """The files are damaged, or cannot be read, so they stay as they are."""


class Rewriting:
    """See above.

    Args:
        disk: where the files are.
        topic: the topic.
        run: the segments, the oldest first.
        until: the offset after their last message.
        clean_below: messages that are superseded below this offset are left out.
        stuck_from: tombstones from this offset on stay.
        deleted_below: see `Segment`.
        is_first: whether the log has nothing before them.

    Attributes:
        run: see above.
        new: the segment that will replace them.
        offset: the first offset of the next record to be read.
        wanted: the offset after that record, if it was read already.
    """

    def __init__(
        self,
        disk: Disk,
        topic: TopicHeader,
        run: Sequence[Segment],
        until: int,
        clean_below: int,
        stuck_from: int,
        deleted_below: int,
        *,
        is_first: bool,
    ) -> None:
        folder, _, _ = run[0].path.rpartition("/")
        self.run = run
        self.new = Segment(folder, run[0].base, secrets.randbits(32), run[0].accepted_us)
        self.new.until = until
        self.new.clean_below = clean_below
        self.new.deleted_below = deleted_below
        self.offset = run[0].base
        self.wanted = 0
        self._disk = disk
        self._stuck_from = stuck_from
        self._hidden = f"{folder}/.{self.new.base:020}.log"
        self._written = 0
        self._pieces = [self.new.head(topic)]
        self._records = self._read()
        self._next: StoredRecord | None = None
        self._read_bytes = 0
        self._changes = Changes(is_first=is_first)
        # What will be in the next record, and the offset that it begins with.
        self._end = self.new.base
        self._accepted_us = self.new.accepted_us
        self._keys: list[bytes] = []
        self._payloads: list[bytes] = []
        self._offsets = array("q")
        self._times = array("q")
        self._size = 0
        self._of_messages = 0  # bytes of the new file that messages take

    @property
    def size(self) -> int:
        """Bytes of the new file so far."""
        return self._written

    def step(self, live: "array[int]", known: int) -> bool:
        """Read some of the files, and write what is left of it. Returns whether that was all.

        Runs in a worker thread.

        Args:
            live: the offsets of live messages from `offset` on, in order.
            known: below this offset, these are all.

        Raises:
            CannotRewrite: something is damaged, or cannot be read.
            DiskFull, StorageFailed: as `Disk.write`.
        """
        if not self._written:
            self._disk.remove([self._hidden])
        self._read_bytes = 0
        while self._read_bytes < STEP:
            record = self._next or next(self._records, None)
            self._next = record
            if record is None:
                self._finish()
                self._write()
                self.new.besides = self.new.size - self._of_messages
                return True
            if record.base + record.count > known:
                # Which of its messages are live is asked before the next step.
                self.wanted = record.base + record.count
                break
            self._add(record, live)
            self._next = None
        self._write()
        return False

    def put_in_place(self) -> Segment:
        """Let the new file take the place of the first old one. Returns its segment."""
        self._disk.rename(self._hidden, self.new.path)
        return self.new

    def give_up(self) -> None:
        """Remove what was written."""
        self._disk.remove([self._hidden])

    # -- reading ---------------------------------------------------------------------------------

    def _read(self) -> Iterator[StoredRecord]:
        """Returns the records of the old files."""
        end = self.new.base
        for segment in self.run:
            for step in self._walk(segment):
                record = step.record
                if record is None or record.base != end:
                    raise CannotRewrite(f"{segment.path} is damaged at position {step.position}")
                end = record.base + record.count
                self._read_bytes += step.end - step.position
                yield record

    def _walk(self, segment: Segment) -> Iterator[Step]:
        try:
            yield from walk(self._disk, segment)
        except OSError as error:
            raise CannotRewrite(f"{segment.path} cannot be read: {error}") from error

    def _add(self, record: StoredRecord, live: "array[int]") -> None:
        self.offset = record.base + record.count
        self._accepted_us = max(self._accepted_us, record.accepted_us)
        self._changes.add(record)
        if record.kind == RecordKind.LOST and record.count:
            # What a repair has given up is known by its record.
            self._cover(record.base)
            self._put(StoredRecord(record.base, self._accepted_us, record.count, b"", record.kind))
            self._end = self.offset
        rows = rows_of(record)
        if rows is not None:
            self._add_rows(rows, live)

    def _add_rows(self, rows: Rows, live: "array[int]") -> None:
        """Keep those of the messages that are live, and tombstones that have to stay."""
        offsets = rows.offsets
        first = bisect_left(live, offsets[0])
        stop = bisect_left(live, offsets[-1] + 1, lo=first)
        kept: Sequence[int] = range(len(offsets))
        if stop - first < len(offsets):
            alive = set(live[first:stop])
            kept = [row for row, offset in enumerate(offsets) if offset in alive]
            if offsets[-1] >= self._stuck_from:
                kept = self._with_tombstones(rows, kept)
        if not kept:
            return
        keys = rows.batch.keys()
        payloads = rows.batch.payloads()
        for row in kept:
            if self._size >= RECORD or len(self._keys) == RECORD_MESSAGES:
                self._flush()
            if offsets[row] - self._end >= MOST_COVERED:
                self._cover(offsets[row])
            self._keys.append(keys[row])
            self._payloads.append(payloads[row])
            self._offsets.append(offsets[row])
            self._times.append(rows.times[row])
            size = len(keys[row]) + len(payloads[row])
            self._size += size
            self._of_messages += size + ROW + COLUMNS

    def _with_tombstones(self, rows: Rows, kept: Sequence[int]) -> list[int]:
        """Returns those rows, and those of tombstones that are dead and may not go yet."""
        lengths = rows.batch.payload_offsets
        keys = rows.batch.keys()
        stays = set(kept)
        for row, offset in enumerate(rows.offsets):
            is_tombstone = lengths[row] == lengths[row + 1] and keys[row] != b""
            if is_tombstone and row not in stays and offset >= self._stuck_from:
                stays.add(row)
                self.new.stuck_below = offset + 1
                self.new.stuck_bytes += len(keys[row]) + ROW + COLUMNS
        return sorted(stays)

    # -- writing ---------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Make a record of what is gathered."""
        if not self._keys:
            return
        batch = Batch.of_columns(self._keys, self._payloads)
        end = self._offsets[-1] + 1
        self._put(kept_record(self._end, end, Rows(self._offsets, self._times, batch)))
        self._end = end
        self._keys = []
        self._payloads = []
        self._offsets = array("q")
        self._times = array("q")
        self._size = 0

    def _cover(self, end: int) -> None:
        """Make records of what is gathered, and of the holes up to that offset."""
        self._flush()
        while self._end < end:
            covered = min(end, self._end + MOST_COVERED)
            self._put(holes(self._end, covered, self._accepted_us))
            self._end = covered

    def _finish(self) -> None:
        self._cover(self.new.until)
        for record in self._changes.records(self._end, self._accepted_us):
            self._put(record)

    def _put(self, record: StoredRecord) -> None:
        # The file is synced as a whole before it counts: all of it is one group.
        self._pieces.append(record.pack(self.new.salt, HEAD_SIZE))

    def _write(self) -> None:
        """Write the records that are there, and sync them."""
        if not self._pieces:
            return
        self._disk.write(self._hidden, self._written, self._pieces)
        self._written += sum(map(len, self._pieces))
        self.new.size = self._written
        self._pieces = []
