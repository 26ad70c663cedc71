"""Workers that wait are called in the order in which they came, as many as there are messages."""

from types import SimpleNamespace

import pytest

from zaichik.core.work_queue.line import Line

# Compiled, a line takes no stand-ins for workers.
pytestmark = pytest.mark.usefixtures("patchable")


class Waiter(SimpleNamespace):
    def __init__(self, name, called):
        super().__init__(name=name, on_call=lambda: called.append(name))

    __hash__ = object.__hash__


@pytest.fixture
def called():
    return []


@pytest.fixture
def waiters(called):
    return [Waiter(name, called) for name in "abcde"]


@pytest.fixture
def line(waiters):
    line = Line()
    for waiter in waiters:
        line.join(waiter)
    return line


def test_as_many_are_called_as_there_are_messages(line, called):
    line.call(2)
    line.call(2)
    assert called == ["a", "b"]
    line.call(3)
    assert called == ["a", "b", "c"]


def test_who_joins_twice_keeps_the_place(line, waiters, called):
    line.join(waiters[0])
    line.call(1)
    line.join(waiters[0])
    assert called == ["a"]
    assert len(line) == 5


def test_who_found_nothing_is_called_first_the_next_time(line, waiters, called):
    line.call(3)
    # Whatever the order in which they ask.
    for index in (0, 1, 2):
        line.put_back(waiters[index])
    assert [waiter.name for waiter in line] == list("abcde")
    line.call(2)
    assert called == list("abcab")


def test_who_leaves_is_not_called(line, waiters, called):
    line.leave(waiters[0])
    line.leave(waiters[0])
    line.call(1)
    assert called == ["b"]
    line.leave(waiters[1])
    assert line.called == 0


def test_a_call_that_is_not_answered_goes_to_the_next(line, waiters, called):
    """SHR-2."""
    line.call(1)
    line.sweep()
    line.call(1)
    assert called == ["a"]
    line.sweep()
    line.call(1)
    assert called == ["a", "b"]
    assert [waiter.name for waiter in line] == list("bcdea")


def test_one_may_be_called_out_of_turn(line, waiters, called):
    line.call_one(waiters[3])
    line.call_one(waiters[3])
    assert called == ["d"]
    assert line.is_called(waiters[3])
    assert not line.is_called(waiters[0])
    line.put_back(waiters[3])
    assert {waiter.name for waiter in line} == set("abcde")
    line.call(2)
    assert called == list("dab")
