"""Tables on a file system that keeps no more than POSIX promises: what was acknowledged is there
after any power cut, also in the middle of rewriting, and what was superseded is not.
"""

from itertools import islice
from random import Random

import pytest
from table_cuts import NEVER, TableWorld, small_steps

pytestmark = pytest.mark.usefixtures("patchable")

LIVES = 6


def cut_at_every_call(seed, first, second, every=1):
    """End a broker before each system call of its script; start, go on, and end it again.

    Returns how many starts were checked, and how many files were rewritten before.
    """
    random = Random(seed)
    starts = 0
    rewritten = 0
    for calls in range(0, NEVER, every):
        world = TableWorld(Random(seed))
        is_whole = world.live(world.script, calls)
        rewritten = max(rewritten, world.rewritten)
        for again in world.ends(first):
            if again.restart(random.choice([random.randrange(20), NEVER])):
                again.go_on()
            # Not the first, whose process was only killed: it can see all that a cut may take.
            for last in islice(again.ends(second), 1, None):
                assert last.restart()
                starts += 1
        if is_whole:
            return starts, rewritten
    raise AssertionError


def test_a_cut_at_every_system_call_and_another_one_after_the_next_start(monkeypatch):
    """DUR-10, DUR-1, DUR-5."""
    small_steps(monkeypatch)
    starts, rewritten = cut_at_every_call(0, first=2, second=1)
    assert starts > 300
    assert rewritten > 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_cut_at_every_system_call_in_many_states(seed, monkeypatch):
    """The same, with more of the states that there are."""
    small_steps(monkeypatch)
    starts, _ = cut_at_every_call(seed, first=20, second=4)
    assert starts > 1000


def random_lives(seed):
    """Live, end at any moment, start, end in that, and so on.

    Returns how many files were rewritten.
    """
    random = Random(seed)
    world = TableWorld(random)
    for _ in range(LIVES):
        steps = random.randrange(150)
        world.run(random.choice([random.randrange(120), NEVER, NEVER]), steps)
        is_open = False
        while not is_open:
            if random.random() < 0.6:
                world.cut()
            is_open = world.restart(random.choice([random.randrange(12), NEVER, NEVER]))
    return world.rewritten


@pytest.mark.unmeasured  # chance brings nothing that other tests do not run on purpose
@pytest.mark.parametrize("seed", range(2))
def test_any_life_ends_at_any_moment(seed, monkeypatch):
    """Tables are made, updated, rewritten, deleted and made again; six lives, one after another."""
    small_steps(monkeypatch)
    assert sum(random_lives(f"{seed} {number}") for number in range(10)) > 10


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_any_of_many_lives_ends_at_any_moment(seed, monkeypatch):
    """The same, a hundred times as long."""
    small_steps(monkeypatch)
    assert sum(random_lives(f"soak {seed} {number}") for number in range(40)) > 0
