"""Ranges of offsets."""

from zaichik.storage.ranges import joined


def test_ranges_that_meet_or_overlap_are_one_and_empty_ones_are_none():
    assert joined([]) == ()
    assert joined([(8, 9), (1, 3), (3, 5), (4, 4), (4, 6)]) == ((1, 6), (8, 9))
    assert joined([(1, 9), (2, 3)]) == ((1, 9),)


def test_what_lies_below_is_left_out():
    assert joined([(0, 3), (4, 6), (7, 9)], least=5) == ((5, 6), (7, 9))
