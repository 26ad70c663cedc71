"""Threads that run only while the event loop waits for them."""

import threading

import pytest
from sim_disk import Crash, SimDisk, full

from simulation.worker import Worker, under_way
from zaichik.storage.disk import DiskFull

pytestmark = pytest.mark.unmeasured  # nothing of the broker


@pytest.fixture
def disk():
    disk = SimDisk()
    disk.under_way = under_way
    return disk


def working(work):
    """A worker that has come to its first call."""
    worker = Worker(work, lambda: 7.0)
    worker.go_on()
    return worker


def test_a_worker_stops_in_the_middle_of_each_call(disk):
    def work():
        disk.write("a", 0, [b"one"])
        disk.replace("b", b"two")
        return threading.current_thread().now

    worker = working(work)
    assert (worker.call, disk.content) == (("write", "a"), {})
    worker.go_on()
    assert (worker.call, disk.content) == (("replace", "b"), {"a": b"one"})
    worker.go_on()
    assert worker.call is None
    assert worker.result() == 7.0
    assert disk.content == {"a": b"one", "b": b"two"}


def test_a_call_ends_as_it_is_told_to(disk):
    worker = working(lambda: disk.write("a", 0, [b"one"]))
    worker.go_on(full())
    with pytest.raises(DiskFull):
        worker.result()
    assert disk.content == {}


def test_what_is_cut_needs_no_room(disk):
    disk.content["a"] = b"one"
    worker = working(lambda: disk.write("a", 1, []))
    worker.go_on(full())
    worker.result()
    assert disk.content == {"a": b"o"}


def test_a_worker_that_is_killed_ends_in_the_middle_of_its_call(disk):
    def work():
        disk.write("a", 0, [bytes(5000)])
        disk.replace("b", b"two")

    worker = working(work)
    worker.kill()
    assert worker.is_done
    assert worker.is_killed
    with pytest.raises(Crash):
        worker.result()
    assert "b" not in disk.content


def test_a_worker_that_has_ended_cannot_be_killed(disk):
    worker = working(lambda: None)
    worker.kill()
    assert not worker.is_killed


def test_nobody_waits_for_a_worker_that_has_ended(disk):
    """It would be for ever: only the worker itself says that it is in the middle of a call."""
    worker = working(lambda: None)
    with pytest.raises(AssertionError):
        worker.go_on()


def test_the_event_loop_does_not_stop(disk):
    disk.write("a", 0, [b"one"])
    assert disk.read("a", 0, 3) == b"one"
