"""Bugs that a program survives."""

import logging

import pytest

from zaichik.base.clock import ManualClock
from zaichik.server.bugs import QUIET_US, Bugs

logger = logging.getLogger("zaichik.test")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def bugs(clock):
    return Bugs(logger, clock.now_us)


def divide(bugs, number=1):
    with bugs.contained("dividing"):
        return number / 0


def test_a_bug_is_logged_with_its_traceback_and_counted(bugs, caplog):
    divide(bugs)
    (record,) = caplog.records
    assert record.getMessage() == "a bug in dividing, number 1 since the start"
    assert record.exc_info[0] is ZeroDivisionError
    assert bugs.count == 1


def test_the_same_bug_is_logged_once_a_minute(bugs, clock, caplog):
    for _ in range(59):
        divide(bugs)
        clock.advance(1)
    assert len(caplog.records) == 1
    clock.move_to(QUIET_US)
    divide(bugs)
    assert caplog.records[1].getMessage() == "a bug in dividing, number 60 since the start"


def test_another_bug_is_logged_as_well(bugs, caplog):
    divide(bugs)
    divide(bugs, "one")
    with bugs.contained("dividing elsewhere"):
        1 / 0  # noqa: B018 - to fail is all it is to do
    assert [record.exc_info[0] for record in caplog.records] == [
        ZeroDivisionError,
        TypeError,
        ZeroDivisionError,
    ]


def test_other_exceptions_pass_through(bugs):
    with pytest.raises(KeyboardInterrupt), bugs.contained("waiting"):
        raise KeyboardInterrupt
    assert bugs.count == 0
