"""Durable topics in random histories: syncs, full disks, time, removed files, disk readers."""

from random import Random

import pytest
from durable_history import History

pytestmark = pytest.mark.unmeasured  # chance brings nothing that other tests do not run on purpose

STEPS = 120


@pytest.mark.parametrize("ttl", [0, 4], ids=["for ever", "expiring"])
@pytest.mark.parametrize("window", [0, 2], ids=["plain", "compacted"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_told_that_is_not_on_the_disk_and_nothing_is_lost(window, ttl, seed):
    """DUR-1, DUR-3, DUR-4, COM-1, PUB-4, LAG-1, RET-1; conservation after each step."""
    for number in range(5):
        history = History(Random(f"{window} {ttl} {seed} {number}"), window=window, ttl=ttl)
        for _ in range(STEPS):
            history.step()
        history.end()
