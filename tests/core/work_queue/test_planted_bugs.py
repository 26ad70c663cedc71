"""Do the histories find anything? Bugs are planted, one at a time, and each must be found."""

import beside_queue
import pytest
import queue_world
from beside_queue import BesideQueue
from planted_queue_bugs import MODEL, WORLD
from queue_world import live_in_world
from sampling import sampled

pytestmark = [pytest.mark.usefixtures("patchable"), pytest.mark.unmeasured]

MOST_HISTORIES = 200  # of each shape; the best hidden needs 52 of them
LENGTH = 150
FOUND = (AssertionError, KeyError, IndexError, ValueError, StopIteration, AttributeError)
SAMPLE = [
    "what times out frees the credit",
    "nobody is told that a hand is empty",
    "the next of the key is not let go",
    "a call that cannot be answered is lost",
]
SAMPLE_OF_WORLDS = ["a message is charged in company"]


def named(bugs):
    return [bug.name for bug in bugs]


@pytest.mark.parametrize("name", sampled(named(MODEL), SAMPLE))
def test_every_planted_bug_is_found_beside_the_model(name, monkeypatch):
    (bug,) = [bug for bug in MODEL if bug.name == name]
    bug.plant(monkeypatch)
    with pytest.raises(FOUND):
        live_beside_model()


def live_beside_model():
    for seed in range(MOST_HISTORIES):
        for shape in beside_queue.SHAPES:
            BesideQueue(shape).live(beside_queue.random_history(seed, LENGTH))


@pytest.mark.parametrize("name", sampled(named(WORLD), SAMPLE_OF_WORLDS))
def test_every_planted_bug_is_found_in_a_world(name, monkeypatch):
    (bug,) = [bug for bug in WORLD if bug.name == name]
    bug.plant(monkeypatch)
    with pytest.raises(FOUND):
        live_in_worlds()


def live_in_worlds():
    for seed in range(MOST_HISTORIES):
        for shape in queue_world.SHAPES:
            live_in_world(shape, seed, LENGTH)
