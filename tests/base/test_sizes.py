"""Sizes for people."""

import pytest

from zaichik.base.sizes import show_size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (1179648, "1.125 MiB"),
        (64 * 1024**2, "64 MiB"),
        (2**41, "2 TiB"),
        (1500, "1.465 KiB"),
    ],
)
def test_a_size_is_shown_in_the_largest_unit_there_is_one_of(count, text):
    assert show_size(count) == text
