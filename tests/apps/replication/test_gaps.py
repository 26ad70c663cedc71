"""A summary of gaps, which stays small and never hides one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zaichik.apps.replication.gaps import MOST, Gaps


def test_gaps_that_touch_are_one():
    assert Gaps().with_gap(1, 3).with_gap(3, 4).with_gap(6, 7).ranges == ((1, 4), (6, 7))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=3 * MOST))
def test_the_newest_are_kept_and_all_from_there_on(steps):
    found, lost, at = Gaps(), set(), 0
    for distance, length in steps:
        start = at + distance
        at = start + length
        found = found.with_gap(start, at)
        lost.update(range(start, at))
    told = {offset for start, end in found.ranges for offset in range(start, end)}
    assert len(found.ranges) <= MOST
    assert told == {offset for offset in lost if offset >= found.complete_from}
    assert Gaps.decoded(found.encoded()) == found


def test_nothing_to_know():
    assert not Gaps()
    assert Gaps().with_gap(1, 2)
    assert Gaps((), 3)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"7", b"{}", b'{"gaps":[[1]]}', b'{"gaps":[[1,"x"]]}']
)
def test_something_else_is_refused(text):
    with pytest.raises(ValueError, match="is not a list of gaps"):
        Gaps.decoded(text)
