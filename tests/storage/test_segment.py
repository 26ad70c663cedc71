"""Segments: their heads, and what is noted of where their records are."""

import json
from itertools import pairwise

import pytest
from made import FOLDER, KIB, changed, message, path_of, topic, written
from sim_disk import SimDisk

from zaichik.storage.segment import (
    HEAD_SIZE,
    INDEX_EVERY,
    NewerFormat,
    Segment,
    seal,
    sorted_names,
    unseal,
)

MARK = b"sixteen letters\n"


def big_segment():
    """A disk with one segment of 300 records of 2 KiB, and the segment as its writer knows it."""
    disk, log = written(
        [
            [message(base, 2000, at_us=base // 10) for base in range(at, at + 3)]
            for at in range(0, 300, 3)
        ],
        topic(segment_bytes=2**31),
    )
    return disk, log.segments[0]


def opened(disk, base=0):
    path = path_of(base)
    return Segment.open(disk, FOLDER, base, len(disk.content[path]))


def test_what_is_sealed_is_whole_or_nothing():
    data = seal(MARK, b"something")
    assert data == b"sixteen letters\n09da31fb\nsomething"
    assert unseal(MARK, data) == b"something"
    assert unseal(MARK[::-1], data) is None
    assert not [size for size in range(len(data)) if unseal(MARK, data[:size]) is not None]
    assert not [at for at in range(len(data)) if unseal(MARK, changed(data, at)) is not None]


def test_a_head_is_four_kib_and_tells_which_topic_it_is_of():
    told, segment = topic("a/b ☃", 12, compaction_window_ms=5), Segment(FOLDER, 70, 99, 1234)
    head = segment.head(told)
    assert len(head) == HEAD_SIZE
    found = opened(SimDisk({path_of(70): head}), 70)
    assert found is not None
    assert found[1] == told
    again = found[0]
    assert (again.path, again.base, again.salt, again.accepted_us, again.size) == (
        path_of(70),
        70,
        99,
        1234,
        HEAD_SIZE,
    )


@pytest.mark.parametrize("size", [0, 10, 200, HEAD_SIZE - 1])
def test_a_head_that_is_cut_off_is_none(size):
    head = Segment(FOLDER, 70, 99, 1234).head(topic())
    assert opened(SimDisk({path_of(70): head[:size]}), 70) is None


def test_a_file_with_the_name_of_another_offset_is_none():
    assert opened(SimDisk({path_of(71): Segment(FOLDER, 70, 99, 1234).head(topic())}), 71) is None


def test_a_head_of_a_newer_format_is_refused():
    told = {**topic().fields(), "format": 3, "base": 70, "salt": 0, "accepted_us": 0}
    data = seal(b"zaichik log 1\n", json.dumps(told).encode()).ljust(HEAD_SIZE, b"\0")
    with pytest.raises(NewerFormat, match=r"'orders' has format 3, and this zaichik knows 2"):
        opened(SimDisk({path_of(70): data}), 70)


def test_the_writer_notes_a_record_every_64_kib():
    _, segment = big_segment()
    at = list(segment.positions)
    assert at[0] == HEAD_SIZE
    assert len(at) == 10
    assert all(
        INDEX_EVERY <= after - before < INDEX_EVERY + 4 * KIB for before, after in pairwise(at)
    )


def test_a_place_that_another_thread_has_noted_meanwhile_is_not_noted_again():
    segment = Segment(FOLDER, 0, 5, 0)

    class Noted:
        """A lock that another thread held until now."""

        def __enter__(self):
            segment.positions.append(HEAD_SIZE + 10)
            segment.offsets.append(1)
            segment.times.append(1)

        def __exit__(self, *_):
            pass

    segment._noting = Noted()
    segment.note(0, 0, HEAD_SIZE)
    assert (list(segment.positions), list(segment.offsets)) == ([HEAD_SIZE + 10], [1])


def test_looking_begins_at_most_64_kib_and_a_record_before():
    _, segment = big_segment()
    for offset in range(300):
        true = HEAD_SIZE + offset * (message(offset, 2000).size)
        assert 0 <= true - segment.position(offset) < INDEX_EVERY + 3 * KIB
    for time in range(1, 30):
        first = HEAD_SIZE + 10 * time * message(0, 2000).size
        assert 0 <= first - segment.place_of_time(time)[1] < INDEX_EVERY + 24 * KIB


def test_a_segment_of_which_nothing_is_noted_is_read_from_its_first_record():
    segment = Segment(FOLDER, 70, 99, 1234)
    assert segment.position(70) == segment.place_of_time(5)[1] == HEAD_SIZE


def test_only_files_named_by_an_offset_are_ours():
    ours = ["00000000000000000000.log", "00000000000000000070.log"]
    others = [
        ".00000000000000000000.log",
        "00000000000000000000.log.bak",
        "0.log",
        "notes.log",
        "x.state",
        "00000000000000000001.index",
        "\u0660" * 20 + ".log",
    ]
    assert sorted_names(others + ours[::-1], "log") == ours
