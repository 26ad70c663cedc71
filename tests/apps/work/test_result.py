"""What the end of a job means for its message."""

import pytest

from zaichik.apps.work.job import Cause, JobEnd
from zaichik.apps.work.result import result_of
from zaichik.client.work.verdict import Verdict
from zaichik_protocol import Outcome


def ended(status, errors=b"", cause=Cause.EXIT, timeout=60.0):
    return result_of(JobEnd(cause, status, errors, timeout))


@pytest.mark.parametrize(
    ("status", "outcome", "reason"),
    [
        (0, Outcome.DONE, ""),
        (1, Outcome.RETRY, "exit code 1"),
        (64, Outcome.RETRY, "exit code 64"),
        (65, Outcome.REJECT, "exit code 65"),
        (66, Outcome.RETRY, "exit code 66"),
        (127, Outcome.RETRY, "exit code 127"),
        (255, Outcome.RETRY, "exit code 255"),
        (-9, Outcome.RETRY, "ended by SIGKILL"),
        (-15, Outcome.RETRY, "ended by SIGTERM"),
        (-60, Outcome.RETRY, "ended by signal 60"),
    ],
)
def test_the_table_of_exit_codes(status, outcome, reason):
    """SHR-12."""
    assert ended(status).verdict == Verdict(outcome, reason=reason)


@pytest.mark.parametrize("status", [0, 65, -15])
def test_a_job_that_took_too_long_is_tried_again(status):
    """Whatever its exit code is: it was made to end."""
    assert ended(status, cause=Cause.TIME_OUT) == (Outcome.RETRY, "took longer than 60 s", "")


@pytest.mark.parametrize("status", [0, 65, 3, -15])
def test_a_job_that_was_stopped_is_given_back(status):
    """A program that ends in order at SIGTERM has exit code 0, and has not done its work."""
    assert ended(status, b"errors", cause=Cause.STOPPED) == (Outcome.GIVE_BACK, "", "")


def test_the_reason_has_what_it_wrote_to_standard_error():
    assert ended(3, b"no such\nimage\n\n").reason == "exit code 3: no such\nimage"


def test_what_it_wrote_does_not_matter_if_all_is_well():
    assert ended(0, b"a warning").reason == ""


@pytest.mark.parametrize("errors", [b"x" * 1024, b"\xff" * 1024, "ж".encode() * 512])
def test_a_reason_is_no_longer_than_the_broker_takes(errors):
    """SHR-11: what is cut off is the beginning, at a character."""
    reason = ended(3, errors).reason
    assert 1020 <= len(reason.encode()) <= 1024
    start, _, rest = reason.partition(": ")
    assert start == "exit code 3"
    assert len(set(rest)) == 1
