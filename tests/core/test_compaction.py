"""The compaction window."""

import pytest

from zaichik.core.compaction import CompactionWindow, bitmap
from zaichik_protocol import FOREVER


def arrivals(window, times, key=b"k"):
    """The times, of these, at which a message of the key is kept."""
    return [time for time in times if window.admit([key], time)]


def test_the_first_message_of_a_window_is_kept_and_repeats_do_not_extend_it():
    """COM-1: with a window of 10, arrivals at 0 4 8 12 30 keep 0 12 30."""
    assert arrivals(CompactionWindow(10, 100), [0, 4, 8, 12, 30]) == [0, 12, 30]


def test_a_window_is_closed_at_its_end():
    """COM-1: it covers [t0, t0 + window)."""
    assert arrivals(CompactionWindow(10, 100), [5, 14, 15, 24, 25]) == [5, 15, 25]


def test_a_key_without_a_pause_gets_through_once_per_window():
    """COM-1."""
    assert arrivals(CompactionWindow(10, 100), range(35)) == [0, 10, 20, 30]


def test_an_endless_window_never_closes():
    """COM-1."""
    window = CompactionWindow(FOREVER, 100)
    assert arrivals(window, [0, 2**62]) == [0]
    window.close(2**63)
    window.close(FOREVER)
    assert len(window) == 1


def test_messages_of_one_batch_are_judged_in_order():
    """COM-2."""
    window = CompactionWindow(10, 100)
    assert window.admit([b"a", b"b", b"a", b"c", b"b"], 0) == [0, 1, 3]
    assert window.admit([b"c", b"a", b"d"], 9) == [2]
    assert window.admit([b"a", b"d"], 10) == [0]


def test_without_a_key_there_is_no_compaction():
    """COM-5."""
    window = CompactionWindow(10, 100)
    assert window.admit([b"", b"", b"a", b""], 0) == [0, 1, 2, 3]
    assert window.admit([b"", b"a"], 1) == [0]
    assert len(window) == 1


def test_keys_are_compared_as_bytes():
    """COM-5."""
    window = CompactionWindow(10, 100)
    assert window.admit([b"a", b"A", b"a\x00", b"\xff", "ä".encode()], 0) == [0, 1, 2, 3, 4]


def test_windows_that_have_ended_are_forgotten_along_the_way():
    """COM-6."""
    window = CompactionWindow(10, 100)
    window.admit([b"a", b"b"], 0)
    window.admit([b"c"], 5)
    assert len(window) == 3
    window.close(9)
    assert len(window) == 3
    window.close(10)
    assert len(window) == 1
    window.admit([b""], 15)
    assert len(window) == 0
    assert window.forgotten == 0


def test_the_oldest_window_is_forgotten_to_make_room():
    """COM-6: tested at one key less than the limit, at the limit, and beyond."""
    window = CompactionWindow(10, 3)
    window.admit([b"a", b"b"], 0)
    window.admit([b"c"], 1)
    assert (len(window), window.forgotten) == (3, 0)
    window.admit([b"d"], 2)
    assert (len(window), window.forgotten) == (3, 1)
    assert window.admit([b"b", b"c", b"d"], 3) == []
    assert window.admit([b"a"], 3) == [0]


def test_within_a_batch_no_window_is_forgotten():
    """COM-2 before COM-6: the first of a batch wins also where there is room for fewer keys."""
    window = CompactionWindow(10, 1)
    assert window.admit([b"a", b"b", b"a"], 0) == [0, 1]
    assert (len(window), window.forgotten) == (1, 1)


def test_a_window_that_opens_again_is_the_youngest():
    window = CompactionWindow(10, 2)
    window.admit([b"a"], 0)
    window.admit([b"b"], 8)
    window.admit([b"a"], 10)
    window.admit([b"c"], 11)  # b is the oldest now
    assert window.admit([b"a", b"c"], 12) == []
    assert window.admit([b"b"], 12) == [0]


def test_the_newest_windows_come_first_and_none_that_has_ended():
    window = CompactionWindow(10, 100)
    for time, key in enumerate([b"a", b"b", b"c", b"d"]):
        window.admit([key], time)
    assert list(window.newest(100, 11)) == [(b"d", 3), (b"c", 2)]
    assert list(window.newest(100, 3)) == [(b"d", 3), (b"c", 2), (b"b", 1), (b"a", 0)]
    assert len(window) == 4
    window.close(13)
    assert list(window.newest(100, 13)) == []


def test_of_the_newest_windows_no_more_are_told_once_their_keys_are_many_bytes():
    window = CompactionWindow(FOREVER, 100)
    window.admit([b"1" * 4, b"2" * 4, b"3" * 4, b"4" * 40], 0)
    assert [key[:1] for key, _ in window.newest(1, 0)] == [b"4"]
    assert [key[:1] for key, _ in window.newest(40, 0)] == [b"4"]
    assert [key[:1] for key, _ in window.newest(41, 0)] == [b"4", b"3"]
    assert [key[:1] for key, _ in window.newest(1000, 0)] == [b"4", b"3", b"2", b"1"]


def test_windows_that_are_taken_back_are_no_longer_counted():
    """DUR-3: their messages were not stored after all."""
    window = CompactionWindow(10, 100)
    window.admit([b"a", b"bcd"], 0)
    window.take_back([b"bcd", b"never"])
    assert (len(window), window.key_bytes) == (1, 1)
    assert window.admit([b"a", b"bcd"], 1) == [1]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 16, 17])
def test_a_bitmap_has_a_bit_for_each_message_that_is_dropped(count):
    for kept in ([], [0], [count - 1], [*range(count)]):
        dropped = sum(1 << index for index in range(count) if index not in kept)
        assert bitmap(count, kept) == dropped.to_bytes((count + 7) // 8, "little")
