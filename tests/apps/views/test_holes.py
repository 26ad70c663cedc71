"""How much of a range can be read: what a broker tells of it, and nothing made up."""

import pytest
from history import History
from hypothesis import given
from hypothesis import strategies as st

from zaichik.apps.views.holes import Holes

keys = st.lists(st.sampled_from([b"a", b"b", b"c", b""]), min_size=1, max_size=60)


@given(published=keys, at=st.integers(0, 59), size=st.integers(1, 60))
def test_of_a_small_table_every_hole_is_known(published, at, size):
    history = History(table=1)
    for key in published:
        history.publish(key=key)
    last = {key: offset for offset, key in enumerate(published)}
    live = {offset for offset, key in enumerate(published) if not key or last[key] == offset}
    state = history.reading()
    holes = Holes(state.marks, state.readable, state.next_offset)
    first = min(at, len(published) - 1)
    end = min(first + size, len(published))
    assert holes.share(first, end) == len(live & {*range(first, end)}) / (end - first)


def test_between_two_marks_what_can_be_read_is_spread_evenly():
    holes = Holes(((100, 0), (121, 0)), (11, 1), 122)
    assert holes.share(100, 101) == 1
    assert holes.share(101, 121) == holes.share(101, 103) == 0.5
    assert holes.share(100, 122) == pytest.approx(12 / 22)
    assert holes.share(0, 100) == 0


def test_what_came_after_the_marks_can_be_read():
    """They are asked for once a second, and the rest of a picture ten times."""
    holes = Holes(((1, 0), (3, 0)), (1, 1), 8)
    assert holes.share(4, 8) == 1
    assert Holes((), (), 8).share(0, 8) == 0


def test_a_range_is_whole_or_sparse_or_all_holes():
    holes = Holes((), (), 0)
    assert [holes.kind("resident", share) for share in (0, 0.01, 1)] == [
        "holes",
        "sparse",
        "resident",
    ]
    assert [holes.kind("expiring", share) for share in (0, 0.5)] == ["holes", "expiring"]
