"""Copies of dead messages."""

import pytest

from zaichik.apps.work.exporting import MOST_AT_ONCE, _chunks


@pytest.mark.parametrize(
    ("offsets", "parts"),
    [
        ([], []),
        ([7], [range(7, 8)]),
        ([0, 1, 2, 5, 7, 8], [range(3), range(5, 6), range(7, 9)]),
        (
            list(range(250)),
            [range(MOST_AT_ONCE), range(MOST_AT_ONCE, 2 * MOST_AT_ONCE), range(200, 250)],
        ),
    ],
)
def test_what_follows_one_another_is_read_together(offsets, parts):
    assert list(_chunks(offsets)) == parts
