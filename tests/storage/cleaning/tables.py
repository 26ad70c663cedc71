"""Logs of tables, made of records, and what a start finds in them."""

from made import topic
from sim_disk import SimDisk

from zaichik.core.tables.keep_last import KeepLast
from zaichik.storage.cleaning.loading import load
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.recovery import Recovered, new_state, recover
from zaichik.storage.writer import Writer
from zaichik_protocol import Batch

FOLDER = "topics/orders.d5acebe867b47f4d.7"
TABLE = topic(table=1)


def keyed(base, *pairs, at_us=None, **more):
    """Returns a record of these messages."""
    data = Batch.of(pairs).data
    return StoredRecord(base, base if at_us is None else at_us, len(pairs), data, **more)


def positions(base, body=b'{"reader": 1}'):
    return StoredRecord(base, base, 0, body, RecordKind.POSITIONS)


class Logged:
    """A log of a table, and the table beside it."""

    def __init__(self, disk=None):
        self.disk = disk or SimDisk()
        self.kept = KeepLast()
        self.writer = Writer(self.disk, FOLDER, TABLE, Recovered(TABLE, new_state(TABLE)))

    def write(self, *pairs, at_us=None):
        """Writes a batch, synced."""
        record = keyed(self.kept.next_offset, *pairs, at_us=at_us)
        self.writer.write([record])
        batch = Batch(record.body, record.count)
        self.kept.append(self.kept.judge(batch), record.accepted_us)

    def roll(self):
        """Has the next batch begin another file."""
        self.writer._active = None

    def rewrite(self, first=0, count=1, stuck_from=None, step=1000):
        """Rewrites files at once. Returns the new segment."""
        segments = self.writer.segments
        run = segments[first : first + count]
        until = segments[first + count].base
        if stuck_from is None:
            stuck_from = 2**62
        work = self.writer.rewriting(run, until, self.kept.next_offset, stuck_from)
        while not work.step(self.kept.live_offsets(work.offset, step), until):
            pass
        assert self.writer.put_in_place(work)
        return work.new

    def found(self):
        """What a start finds."""
        disk = self.disk.copy()
        recovered = recover(disk, FOLDER)
        load(disk, recovered)
        return recovered

    def names(self):
        return sorted(name for name in self.disk.files(FOLDER) if name.endswith(".log"))


def content(kept):
    """The messages of a table by offset: key, payload, time."""
    found = {}
    offset = kept.readable_from(0)
    while offset < kept.next_offset:
        some = kept.together(offset)
        pairs = zip(some.offsets, some.batch.keys(), some.batch.payloads(), strict=True)
        for at, key, payload in pairs:
            found[at] = bytes(key), bytes(payload), some.accepted_us
        offset = kept.readable_from(some.offsets[-1] + 1)
    return found
