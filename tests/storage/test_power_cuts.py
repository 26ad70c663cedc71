"""Every state that POSIX allows a power cut to leave, after every system call: what was
acknowledged, or found by a start, is there, and stays what it was.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest
from power_cuts import NEVER, World

LIVES = 6


def cut_at_every_call(seed: int, first: int, second: int) -> int:
    """End a broker before each system call of a short life; start, go on, and end it again.

    The second life ends after it has acknowledged something, and, in a random part of the cases,
    in the middle of its start. Returns how many starts were checked.

    Args:
        seed: chooses the states, where there are more than are tried.
        first: how many of the states of the first end are tried.
        second: and of the second one.
    """
    random = Random(seed)
    starts = 0
    for world in killed_at_every_call(seed):
        for again in world.ends(first):
            if again.restart(random.choice([random.randrange(20), NEVER])):
                again.go_on()
            # Not the first, whose process was only killed: it can see all that a cut may take.
            for last in islice(again.ends(second), 1, None):
                assert last.restart()
                starts += 1
    return starts


def killed_at_every_call(seed: int) -> Iterator[World]:
    """Returns worlds whose broker was killed before each system call of its script."""
    for calls in range(NEVER):
        world = World(Random(seed))
        is_whole = world.live(world.script, calls)
        yield world
        if is_whole:
            break


def test_a_cut_at_every_system_call_and_another_one_after_the_next_start():
    """DUR-1, DUR-2, DUR-5, DUR-6."""
    assert cut_at_every_call(0, first=2, second=1) > 300


def test_a_cut_in_the_start_that_completes_a_deletion():
    """The start sees a folder that was renamed, and the power cut undoes that, but not what the
    start has removed in it.
    """
    starts = 0
    for world in killed_at_every_call(0):
        folder = world.disk.root.now["topics"]
        if not folder.changes:
            continue
        for calls in range(NEVER):
            again = world.forked(world.disk.root)
            is_open = again.restart(calls)
            for last in again.ends(8):
                assert last.restart()
                starts += 1
            if is_open:
                break
    assert starts > 50


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 9))
def test_a_cut_at_every_system_call_in_many_states(seed):
    """The same, with nearly all of the states that there are.

    There are few, because the broker syncs soon: some 800 starts, with any of the seeds.
    """
    assert cut_at_every_call(seed, first=40, second=8) > 700


def random_lives(seed: str) -> int:
    """Live, end at any moment, start, end in that, and so on. Returns the number of topics."""
    random = Random(seed)
    world = World(random)
    for _ in range(LIVES):
        steps = random.randrange(80)
        world.run(random.choice([random.randrange(20), random.randrange(120), NEVER]), steps)
        is_open = False
        while not is_open:
            if random.random() < 0.6:
                world.cut()
            is_open = world.restart(random.choice([random.randrange(12), NEVER, NEVER]))
    return len(world.known)


@pytest.mark.unmeasured  # chance brings nothing that other tests do not run on purpose
@pytest.mark.parametrize("seed", range(2))
def test_any_life_ends_at_any_moment(seed):
    """Topics are made, filled, emptied, deleted and made again; six lives, one after the other."""
    assert sum(random_lives(f"{seed} {number}") for number in range(10)) > 10


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_any_of_many_lives_ends_at_any_moment(seed):
    """The same, a hundred times as long."""
    assert sum(random_lives(f"soak {seed} {number}") for number in range(40)) > 40
