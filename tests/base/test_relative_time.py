"""Distances in words."""

import pytest

from zaichik.base.relative_time import from_now

HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (0, "0 µs from now"),
        (1, "1 µs from now"),
        (-1_999_999, "1,999,999 µs ago"),
        (2_000_000, "2.0 seconds from now"),
        (-119_000_000, "119.0 seconds ago"),
        (HOUR_US + HOUR_US // 2, "90.0 minutes from now"),
        (-2 * HOUR_US, "2.0 hours ago"),
        (48 * HOUR_US, "2.0 days from now"),
        (24 * 1_234_567 * HOUR_US, "1,234,567.0 days from now"),
    ],
)
def test_a_distance_is_in_the_largest_unit_of_which_there_are_two(us, words):
    assert from_now(10**18 + us, 10**18) == words
