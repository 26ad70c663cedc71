"""What the end of a job means for its message."""

import pytest

from zaichik.apps.work.job import Cause, JobEnd
from zaichik.apps.work.verdict import Settling, verdict


def ended(status, errors=b"", cause=Cause.EXIT, timeout=60.0):
    return verdict(JobEnd(cause, status, errors, timeout))


@pytest.mark.parametrize(
    ("status", "settling", "reason"),
    [
        (0, Settling.DONE, ""),
        (1, Settling.RETRY, "exit code 1"),
        (64, Settling.RETRY, "exit code 64"),
        (65, Settling.REJECT, "exit code 65"),
        (66, Settling.RETRY, "exit code 66"),
        (127, Settling.RETRY, "exit code 127"),
        (255, Settling.RETRY, "exit code 255"),
        (-9, Settling.RETRY, "ended by SIGKILL"),
        (-15, Settling.RETRY, "ended by SIGTERM"),
        (-60, Settling.RETRY, "ended by signal 60"),
    ],
)
def test_the_table_of_exit_codes(status, settling, reason):
    """SHR-12."""
    assert (ended(status).settling, ended(status).reason) == (settling, reason)


@pytest.mark.parametrize("status", [0, 65, -15])
def test_a_job_that_took_too_long_is_tried_again(status):
    """Whatever its exit code is: it was made to end."""
    assert ended(status, cause=Cause.TIME_OUT) == (Settling.RETRY, "took longer than 60 s", "")


@pytest.mark.parametrize("status", [0, 65, 3, -15])
def test_a_job_that_was_stopped_is_given_back(status):
    """A program that ends in order at SIGTERM has exit code 0, and has not done its work."""
    assert ended(status, b"errors", cause=Cause.STOPPED) == (Settling.RELEASE, "", "")


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
