"""Work queues live random histories beside their naive model, and in worlds of programs that fail.

The model shows that the state is the one that the rules describe (SHR-1 to SHR-9); the worlds, that
the rules keep what they are for: everything comes to an end, and no innocent dies.
"""

import beside_queue
import pytest
import queue_world
from beside_queue import WORDS, BesideQueue
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_world import live_in_world

HISTORIES = 25  # of each shape
WORLDS = 25
MANY = 40  # times as many
LENGTH = 150

numbers = st.integers(0, 47)
histories = st.lists(st.tuples(st.sampled_from(WORDS), numbers, numbers), max_size=60)


@settings(max_examples=60)
@given(st.sampled_from(beside_queue.SHAPES), histories)
def test_queues_do_what_their_model_does(shape, history):
    """If they do not, hypothesis shortens the history."""
    BesideQueue(shape).live(history)


@pytest.mark.unmeasured
@pytest.mark.parametrize("number", range(len(beside_queue.SHAPES)))
def test_queues_do_what_their_model_does_for_longer(number):
    live_beside_model(number, range(HISTORIES))


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(beside_queue.SHAPES)))
def test_queues_do_what_their_model_does_in_many_histories(number):
    live_beside_model(number, range(HISTORIES, MANY * HISTORIES))


def live_beside_model(number, seeds):
    for seed in seeds:
        history = beside_queue.random_history(seed, LENGTH)
        BesideQueue(beside_queue.SHAPES[number]).live(history)


@pytest.mark.unmeasured
@pytest.mark.parametrize("number", range(len(queue_world.SHAPES)))
def test_no_innocent_dies_and_everything_comes_to_an_end(number):
    live_in_worlds(number, range(WORLDS))


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(queue_world.SHAPES)))
def test_no_innocent_dies_in_many_worlds(number):
    live_in_worlds(number, range(WORLDS, MANY * WORLDS))


def live_in_worlds(number, seeds):
    for seed in seeds:
        live_in_world(queue_world.SHAPES[number], seed, LENGTH)
