"""Reading behind the ring: chunks in order without a hole, exact times, and damage where it is and
nowhere else.
"""

import errno

import pytest
from made import FOLDER, KIB, changed, message, path_of, positions, start, topic, written
from sim_disk import SimDisk

from zaichik.core.ring import Entry
from zaichik.storage.reading import CHUNK, Chunks, DamagedLog, first_since, read_chunk
from zaichik.storage.record import HEADER, StoredRecord
from zaichik.storage.recovery import recover
from zaichik.storage.segment import HEAD_SIZE
from zaichik.storage.walk import READ_SIZE
from zaichik_protocol import Batch


def big(size=1000, count=400, per_record=2, **settings):
    """A log of several segments, and its disk."""
    parts = [
        [message(base, size, per_record, at_us=base // 10)] for base in range(0, count, per_record)
    ]
    disk, log = written(parts, topic(**settings))
    return disk, log.segments


def without_index(segment):
    """Makes a segment one that nobody has looked into since the start."""
    for name in ("offsets", "times", "positions"):
        del getattr(segment, name)[:]


def read_all(disk, segments, offset, end):
    """All entries from an offset on, and how many chunks they took."""
    entries, chunks = [], 0
    while offset < end:
        found = read_chunk(disk, segments, offset)
        assert found
        assert found[0].base <= offset
        entries += found
        chunks += 1
        offset = found[-1].base + found[-1].batch.count
    return entries, chunks


def test_chunks_of_slow_readers_go_where_there_is_too_much():
    chunks, entry = Chunks(most=1000), Entry(0, 0, Batch.of([(b"", bytes(380))]))
    for reader in "abc":
        chunks.put(reader, [entry])
    assert [chunks.get(reader) for reader in "abc"] == [None, [entry], [entry]]
    chunks.put("c", [entry])
    assert len(chunks) == 2
    chunks.drop("b")
    chunks.put("d", [entry])
    assert [chunks.get(reader) for reader in "bcd"] == [None, [entry], [entry]]
    chunks.put("e", [entry] * 9)  # one is held, however large it is
    assert [chunks.get(reader) for reader in "cde"] == [None, None, [entry] * 9]


def test_chunks_are_everything_in_order():
    disk, segments = big()
    entries, chunks = read_all(disk, segments, 0, 400)
    assert [entry.base for entry in entries] == list(range(0, 400, 2))
    assert [payload.rstrip(b".") for entry in entries for payload in entry.batch.payloads()] == [
        b"%d" % offset for offset in range(400)
    ]
    assert [entry.accepted_us for entry in entries] == [entry.base // 10 for entry in entries]
    assert chunks == len(segments) > 5


def test_every_offset_is_found_also_in_the_middle_of_a_batch():
    disk, segments = big()
    for offset in range(400):
        found = read_chunk(disk, segments, offset)
        assert found[0].base == offset // 2 * 2


def test_a_chunk_is_256_kib_and_a_batch_at_most():
    disk, segments = big(segment_bytes=2**31)
    sizes = [len(entry.batch.data) for entry in read_chunk(disk, segments, 10)]
    assert sum(sizes[:-1]) < CHUNK <= sum(sizes)


def test_a_batch_larger_than_a_chunk_is_a_chunk():
    disk, segments = big(3 * CHUNK, 4, 1, segment_bytes=2**31)
    for offset in range(4):
        found = read_chunk(disk, segments, offset)
        assert [entry.base for entry in found] == [offset]
        assert len(found[0].batch.payloads()[0]) == 3 * CHUNK


def test_records_without_messages_are_passed_over():
    disk, log = written(
        [[positions(0), message(0), positions(1), StoredRecord(1, 1, producer=5), message(1)]]
    )
    assert [entry.base for entry in read_chunk(disk, log.segments, 0)] == [0, 1]


def test_a_start_reads_the_same_and_notes_the_same():
    disk, segments = big()
    expected = read_all(disk, segments, 0, 400)
    again = recover(disk, FOLDER).segments
    assert [list(it.positions) for it in again] == [[]] * len(again)
    assert read_all(disk, again, 0, 400) == expected
    assert [list(it.positions) for it in again] == [list(it.positions) for it in segments]


def test_what_is_before_the_wanted_offset_is_passed_over_and_noted():
    """Without its bodies: one that is damaged is of no concern to who does not want it."""
    disk, segments = big(2000, 1000, segment_bytes=2**31)
    without_index(segments[0])
    disk.content[path_of(0)] = changed(disk.content[path_of(0)], HEAD_SIZE + 100)
    assert read_chunk(disk, segments, 900)[0].base == 900
    assert 5 < len(segments[0].positions) < 40
    assert HEAD_SIZE < segments[0].position(800) <= HEAD_SIZE + 400 * message(0, 2000, 2).size


@pytest.mark.parametrize("first", [5, 995])
def test_what_two_readers_note_is_in_order(first):
    disk, segments = big(2000, 1000, segment_bytes=2**31)
    without_index(segments[0])
    for offset in (first, 500, 995, 5, 700):
        assert read_chunk(disk, segments, offset)[0].base == offset // 2 * 2
    noted = segments[0]
    columns = [noted.positions, noted.offsets, noted.times]
    assert [list(column) for column in columns] == [sorted(column) for column in columns]
    assert len({len(column) for column in columns}) == 1


# -- damage ----------------------------------------------------------------------------------------


def readable(disk, segments, end):
    """The offsets that can be read, one by one."""
    found = set()
    for offset in range(end):
        try:
            chunk = read_chunk(disk, segments, offset)
        except DamagedLog:
            continue
        assert chunk[0].base <= offset < chunk[0].base + chunk[0].batch.count
        assert [b"%d" % (chunk[0].base + i) for i in range(chunk[0].batch.count)] == [
            payload.rstrip(b".") for payload in chunk[0].batch.payloads()
        ]
        found.add(offset)
    return found


@pytest.mark.parametrize(
    "at", [0, 5, 20, HEADER.size - 1, HEADER.size, HEADER.size + 600], ids=lambda at: f"byte {at}"
)
@pytest.mark.parametrize("record", [0, 1, 30, 59], ids=lambda record: f"record {record}")
@pytest.mark.parametrize("keep_index", [True, False])
def test_a_damaged_record_cannot_be_read_and_all_others_can(record, at, keep_index):
    disk, segments = big(300, 120, segment_bytes=2**31)
    size = message(0, 300, 2).size
    disk.content[path_of(0)] = changed(disk.content[path_of(0)], HEAD_SIZE + record * size + at)
    if not keep_index:
        without_index(segments[0])
    assert readable(disk, segments, 120) == set(range(120)) - {2 * record, 2 * record + 1}


def test_many_bytes_lost_are_the_offsets_they_held():
    """More than is read at once."""
    disk, segments = big(2000, 1000, segment_bytes=2**31)
    size, data = message(0, 2000, 2).size, disk.content[path_of(0)]
    begin, end = HEAD_SIZE + 100 * size + 1, HEAD_SIZE + 300 * size - 1
    assert end - begin > 2 * CHUNK
    disk.content[path_of(0)] = data[:begin] + bytes(end - begin) + data[end:]
    assert readable(disk, segments, 1000) == set(range(1000)) - set(range(200, 600))


@pytest.mark.parametrize("before", [0, 1, 32, 63, 64, 65])
def test_a_header_that_lies_across_what_is_read_at_once_is_found(before):
    disk, log = written(
        [[message(0), message(1, READ_SIZE - before - message(1, 0).size), message(2)]]
    )
    at = HEAD_SIZE + message(0).size
    disk.content[path_of(0)] = changed(disk.content[path_of(0)], at)
    without_index(log.segments[0])
    assert readable(disk, log.segments, 3) == {0, 2}


def test_a_chunk_ends_before_damage_and_the_reader_is_told_where_it_is():
    disk, segments = big(300, 120, segment_bytes=2**31)
    disk.content[path_of(0)] = changed(
        disk.content[path_of(0)], HEAD_SIZE + 30 * message(0, 300, 2).size + 100
    )
    assert read_chunk(disk, segments, 0)[-1].base == 58
    with pytest.raises(
        DamagedLog, match=rf"damaged at offset 60, in {path_of(0)}; `zaichik check` tells more"
    ):
        read_chunk(disk, segments, 60)


def test_a_file_that_has_become_short_is_damage():
    disk, segments = big(segment_bytes=2**31)
    for size in (0, 10, HEAD_SIZE + 10):
        disk.content[path_of(0)] = disk.content[path_of(0)][:size]
        with pytest.raises(DamagedLog):
            read_chunk(disk, segments, 5)


class BadSector(SimDisk):
    """Cannot read what lies at one place."""

    bad, error = 0, errno.EIO

    def read(self, path, at, size):
        if path.endswith(".log") and at <= self.bad < at + size:
            raise OSError(self.error, "bad")
        return super().read(path, at, size)


def test_a_bad_sector_is_damage_and_any_other_error_is_not():
    disk, segments = big(segment_bytes=2**31)
    bad = BadSector(disk.content)
    bad.bad = segments[0].positions[1] + 10
    with pytest.raises(DamagedLog):
        read_chunk(bad, segments, segments[0].offsets[1])
    bad.error = errno.EMFILE
    with pytest.raises(OSError, match="bad"):
        read_chunk(bad, segments, segments[0].offsets[1])


# -- segments that go ------------------------------------------------------------------------------


def test_a_segment_that_was_removed_has_nothing_to_read():
    disk, segments = big()
    first = segments.pop(0)
    assert read_chunk(disk, segments, first.base) == []
    assert read_chunk(disk, [], 0) == []


def test_a_segment_that_is_removed_while_it_is_read_has_nothing_to_read(monkeypatch):
    disk, segments = big()
    first = segments[0]
    without_index(first)

    def remove(*arguments):
        if first in segments:
            segments.remove(first)
            del disk.content[first.path]
        return SimDisk.read(disk, *arguments)

    monkeypatch.setattr(disk, "read", remove)
    assert read_chunk(disk, segments, 0) == []


def test_a_segment_that_somebody_else_has_removed_is_damage():
    """Nobody would tell the reader to go on elsewhere."""
    disk, segments = big()
    del disk.content[segments[0].path]
    with pytest.raises(DamagedLog):
        read_chunk(disk, segments, 0)


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"segment_bytes": 2**31}], ids=["several", "one"])
def test_the_first_offset_since_a_time_is_exact(settings):
    disk, segments = big(**settings)
    for time in range(-1, 42):
        first = next((base for base in range(0, 400, 2) if base // 10 >= time), None)
        assert first_since(disk, segments, time) == first


def test_the_first_offset_since_a_time_may_lie_behind_a_segment_without_messages():
    # Three segments: the messages of the first are older, the second has only positions.
    disk, log = written([[message(0, at_us=1)]])
    _, parts = start(disk)
    assert len(parts) == 1
    log.write([positions(1, 5, b'{"a": "%s"}' % (b"x" * 70 * KIB))])
    log.write([message(1, at_us=9)])
    assert first_since(disk, log.segments, 2) == 1
    assert first_since(disk, log.segments, 10) is None


def test_a_file_that_is_missing_is_where_a_reader_of_its_time_begins():
    """DUR-7: it is not skipped in silence."""
    disk, segments = big()
    del disk.content[segments[1].path]
    assert first_since(disk, segments, segments[1].base // 10) == segments[1].base
    assert first_since(disk, segments, segments[2].base // 10 + 1) >= segments[2].base


def test_a_batch_that_was_compacted_completely_tells_where_the_next_one_is():
    disk, log = written(
        [[message(0, at_us=1), StoredRecord(1, 5, producer=9, dropped=b"\1"), message(1, at_us=7)]]
    )
    assert first_since(disk, log.segments, 5) == 1


def test_an_empty_log_and_an_empty_segment_have_no_time():
    assert first_since(SimDisk(), [], 0) is None
    disk, _ = written([[message(0)]])
    disk.content[path_of(0)] = disk.content[path_of(0)][:HEAD_SIZE]
    assert first_since(disk, recover(disk, FOLDER).segments, 0) is None


def test_damage_is_where_a_reader_of_its_time_begins():
    """DUR-7: it is not skipped in silence."""
    disk, segments = big(300, 120, segment_bytes=2**31)
    disk.content[path_of(0)] = changed(
        disk.content[path_of(0)], HEAD_SIZE + 30 * message(0, 300, 2).size + 100
    )
    assert first_since(disk, segments, 5) == 50
    assert first_since(disk, segments, 6) == 60
    assert first_since(disk, segments, 7) == 70


def test_damage_at_the_end_is_where_a_reader_of_a_later_time_begins():
    """DUR-7: of what time it was, nobody knows."""
    disk, segments = big(300, 120, segment_bytes=2**31)
    disk.content[path_of(0)] = changed(disk.content[path_of(0)], segments[0].size - 10)
    assert [first_since(disk, segments, time) for time in (11, 12)] == [110, None], (
        "the header tells its time"
    )
    disk.content[path_of(0)] = changed(
        disk.content[path_of(0)], segments[0].size - message(0, 300, 2).size
    )
    assert [first_since(disk, segments, time) for time in (11, 12)] == [110, 118]


def test_a_bad_sector_is_where_a_reader_of_its_time_begins():
    disk, segments = big()
    bad = BadSector(disk.content)
    bad.bad = HEAD_SIZE + 10
    without_index(segments[-1])
    assert first_since(bad, segments[-1:], 40) == segments[-1].base
    bad.error = errno.EMFILE
    with pytest.raises(OSError, match="bad"):
        first_since(bad, segments[-1:], 40)


def test_a_segment_that_is_removed_while_a_time_is_looked_for_is_passed_over(monkeypatch):
    disk, segments = big()
    first, second = segments[:2]
    without_index(first)

    def remove(*arguments):
        if first in segments:
            segments.remove(first)
            del disk.content[first.path]
        return SimDisk.read(disk, *arguments)

    monkeypatch.setattr(disk, "read", remove)
    assert first_since(disk, segments, 2) == second.base
