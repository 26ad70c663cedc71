"""A walk gives every good record and every stretch of damage, once and in order."""

import pytest
from made import changed, message, path_of, positions, written

from zaichik.storage.record import HEADER
from zaichik.storage.segment import HEAD_SIZE
from zaichik.storage.walk import READ_SIZE, walk

LOG = path_of(0)


def five(size=20):
    """A disk with five records, its segment, and where the records begin and the last ends."""
    group = [message(base, size) for base in range(5)]
    disk, log = written([group])
    ends = [HEAD_SIZE + group[0].size * index for index in range(6)]
    assert log.segments[0].size == ends[-1]
    return disk, log.segments[0], ends


def told(steps):
    """Steps as their places, and the offsets of records."""
    return [(it.position, it.end, it.record and it.record.base) for it in steps]


@pytest.mark.parametrize("size", [20, READ_SIZE // 2 - 70, READ_SIZE, 3 * READ_SIZE])
def test_of_a_good_segment_it_gives_the_records(size):
    disk, segment, ends = five(size)
    assert told(walk(disk, segment)) == [(ends[i], ends[i + 1], i) for i in range(5)]
    assert told(walk(disk, segment, ends[3])) == [(ends[i], ends[i + 1], i) for i in (3, 4)]
    assert all(it.header.group_at == HEAD_SIZE for it in walk(disk, segment))


@pytest.mark.parametrize("size", [20, READ_SIZE])
@pytest.mark.parametrize("at", [0, 5, 60, HEADER.size, HEADER.size + 10])
@pytest.mark.parametrize("bad", range(5))
def test_a_damaged_record_is_a_step_without_one(bad, at, size):
    disk, segment, ends = five(size)
    disk.content[LOG] = changed(disk.content[LOG], ends[bad] + at)
    steps = list(walk(disk, segment))
    assert told(steps) == [(ends[i], ends[i + 1], None if i == bad else i) for i in range(5)]
    assert [step.header is None for step in steps] == [
        i == bad and at < HEADER.size for i in range(5)
    ]


@pytest.mark.parametrize("size", [20, READ_SIZE])
def test_damage_goes_on_to_the_next_header(size):
    disk, segment, ends = five(size)
    data = disk.content[LOG]
    disk.content[LOG] = data[: ends[1] + 3] + bytes(ends[3] - ends[1] - 3) + data[ends[3] :]
    assert told(walk(disk, segment)) == [(ends[0], ends[1], 0), (ends[1], ends[3], None)] + [
        (ends[i], ends[i + 1], i) for i in (3, 4)
    ]
    disk.content[LOG] = data[: ends[3] + 3] + bytes(ends[5] - ends[3] - 3)
    assert told(walk(disk, segment, ends[3])) == [(ends[3], ends[5], None)]


def test_a_file_that_has_become_short_is_damage():
    disk, segment, ends = five()
    disk.content[LOG] = disk.content[LOG][: ends[4] + 70]
    assert told(walk(disk, segment))[4:] == [(ends[4], ends[5], None)]
    disk.content[LOG] = disk.content[LOG][: ends[4]]
    assert told(walk(disk, segment))[4:] == [(ends[4], ends[5], None)]


def test_what_ends_below_the_wanted_offset_is_passed_over():
    disk, segment, ends = five()
    steps = list(walk(disk, segment, HEAD_SIZE, 3))
    assert told(steps) == [(ends[0], ends[2], None)] + [
        (ends[i], ends[i + 1], i) for i in (2, 3, 4)
    ]
    assert steps[0].header.base == 0


def test_records_without_messages_are_never_passed_over_by_chance():
    disk, log = written([[positions(0)]])
    assert told(walk(disk, log.segments[0]))[0][2] == 0


def test_what_is_being_written_is_not_looked_at():
    """It may be there in part; when the segment says that it is there, all of it is."""
    disk, segment, ends = five()
    data, segment.size = disk.content[LOG], ends[2]
    disk.content[LOG] = data[: ends[2] + 30] + bytes(ends[5] - ends[2] - 30)
    steps = walk(disk, segment)
    assert told([next(steps), next(steps)]) == [(ends[i], ends[i + 1], i) for i in range(2)]
    disk.content[LOG], segment.size = data, ends[5]
    assert told(steps) == [(ends[i], ends[i + 1], i) for i in (2, 3, 4)]
