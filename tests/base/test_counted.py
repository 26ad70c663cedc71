"""Numbers of things in English."""

import pytest

from zaichik.base.counted import counted


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (1204, "1,204 messages")],
)
def test_one_thing_is_no_plural(count, expected):
    assert counted(count, "message") == expected


def test_a_plural_may_be_another_word():
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(2, "batch", "batches") == "2 batches"
