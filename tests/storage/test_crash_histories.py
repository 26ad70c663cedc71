"""Power cuts in random histories of the whole broker: what was answered is there, and stays what it
was.
"""

from random import Random

import pytest
from crash_history import World

STEPS = 150


@pytest.mark.unmeasured  # chance brings nothing that other tests do not run on purpose
@pytest.mark.parametrize("window", [0, 2], ids=["plain", "compacted"])
@pytest.mark.parametrize("seed", range(4))
def test_what_was_answered_outlives_any_cut(window, seed):
    """DUR-1, DUR-3, DUR-5, DUR-7, DUR-8, PUB-4, COM-1; conservation after each step."""
    crashes = 0
    for number in range(4):
        world = World(Random(f"{window} {seed} {number}"), window)
        for _ in range(STEPS):
            world.step()
        world.end()
        crashes += world.crashes
    assert crashes > 10
