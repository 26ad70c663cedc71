"""The ledger of workers finds what nobody can explain."""

import pytest
from work_ledger import ACTS_SECONDS, FORGOTTEN_SECONDS, Disturbance, Process, WorkLedger

ONE, OTHER = Process(0, 0), Process(1, 0)


def ledger_of(*lines, disturbances=()):
    """A ledger of what two workers have written: `>` begins a line of the second one."""
    ledger = WorkLedger()
    ledger.disturbances += disturbances
    for line in lines:
        ledger.note(OTHER if line.startswith(">") else ONE, line.lstrip("> "))
    return ledger


DONE = ("began 10 1 0 0 plain 1", "said 11 1 done", "answered 12 1 True")
AGAIN = ("> began 14 2 0 0 plain 1", "> said 15 2 done", "> answered 16 2 True")
LATE = ("began 10 1 0 0 plain 1", "said 11 1 done", "answered 17 1 False")
CRASH = Disturbance("crashed", 13, 13.5)


def failures(count):
    """What a worker has written of a job that has failed so often."""
    for number in range(1, count + 1):
        yield f"began {number}0 {number} 0 0 fails {number}"
        yield f"said {number}1 {number} retry"
        yield f"answered {number}2 {number} True"


def test_a_message_that_was_done_once_is_in_order():
    ledger_of(*DONE).check(1, {}, 2)


@pytest.mark.parametrize(
    "why",
    [
        CRASH,
        Disturbance("crashed", 12 + FORGOTTEN_SECONDS - 1, 20, slot=-1),
        Disturbance("stopped", 9, 10, slot=0),
        Disturbance("cut", 11.5, 11.5, slot=0),
    ],
)
def test_a_message_that_was_done_twice_needs_a_reason(why):
    again = [line.replace("14", "24") for line in AGAIN]
    ledger_of(*DONE, *again, disturbances=[why]).check(1, {}, 2)


@pytest.mark.parametrize(
    "why",
    [
        None,
        # Another worker's; an earlier one; a later one.
        Disturbance("stopped", 9, 13, slot=1),
        Disturbance("cut", 11 - ACTS_SECONDS - 1, 11 - ACTS_SECONDS - 1, slot=0),
        Disturbance("cut", 12.5, 12.5, slot=0),
        # Another life's.
        Disturbance("killed", 11, 11, slot=0, life=1),
        # After it was done again.
        Disturbance("crashed", 14.5, 15),
    ],
)
def test_it_is_no_reason_that_something_else_was_disturbed(why):
    ledger = ledger_of(*DONE, *AGAIN, disturbances=[why] if why else [])
    with pytest.raises(AssertionError, match="nobody knows why"):
        ledger.check(1, {}, 2)


def test_a_worker_that_was_killed_has_no_answer():
    killed = Disturbance("killed", 11.5, 11.5, slot=0, life=0)
    ledger_of(*DONE[:2], *AGAIN, disturbances=[killed]).check(1, {}, 2)


def test_a_worker_that_was_late_was_disturbed():
    with pytest.raises(AssertionError, match="nobody knows why"):
        ledger_of(*LATE, *AGAIN).check(1, {}, 2)
    ledger_of(*LATE, *AGAIN, disturbances=[CRASH]).check(1, {}, 2)


@pytest.mark.parametrize(
    ("lines", "published"),
    [
        (DONE, 2),
        (LATE, 1),
        (("began 10 1 0 0 plain 1", "said 11 1 retry", "answered 12 1 True"), 1),
    ],
)
def test_a_message_that_was_lost_is_found(lines, published):
    with pytest.raises(AssertionError, match=r"lost|nobody has begun"):
        ledger_of(*lines).check(published, {}, 2)


def test_the_dead_have_failed_as_often_as_they_may():
    ledger_of(*failures(2)).check(1, {0: 2}, 2)
    with pytest.raises(AssertionError, match="dead after 2"):
        ledger_of(*failures(2)).check(1, {0: 2}, 3)
    with pytest.raises(AssertionError, match="dead after 1"):
        ledger_of(*failures(1)).check(1, {0: 1}, 2)


def test_a_crash_may_forget_failures_but_only_so_many():
    ledger_of(*failures(4), disturbances=[CRASH]).check(1, {0: 2}, 2)
    with pytest.raises(AssertionError, match="dead after 2"):
        ledger_of(*failures(5), disturbances=[CRASH]).check(1, {0: 2}, 2)
    with pytest.raises(AssertionError, match="dead after 2"):
        ledger_of(*failures(3)).check(1, {0: 2}, 2)


def test_what_must_die_may_not_be_done_and_nothing_else_may_die():
    with pytest.raises(AssertionError, match="should be dead"):
        ledger_of(*failures(2)).check(1, {}, 2)
    with pytest.raises(AssertionError, match="dead after 2"):
        ledger_of(*DONE).check(1, {0: 2}, 2)


def test_a_ticket_is_given_once():
    with pytest.raises(AssertionError, match="given twice"):
        ledger_of(DONE[0], "> began 14 1 0 0 plain 1")


def test_a_message_has_one_offset():
    with pytest.raises(AssertionError, match="two offsets"):
        ledger_of(DONE[0], "began 14 2 1 0 plain 1")
