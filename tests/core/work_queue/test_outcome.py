"""What a worker may say of a message, and how long one waits that failed (SHR-4, SHR-11)."""

import pytest

from zaichik.core.work_queue.outcome import backoff_us, check_outcome
from zaichik_protocol import ErrorCode, Outcome, Refused

SECOND = 1_000_000
DAY = 86_400 * SECOND


@pytest.mark.parametrize(
    ("outcome", "delay_us", "reason"),
    [
        (Outcome.RETRY, None, ""),
        (Outcome.RETRY, 0, "x" * 1024),
        (Outcome.RETRY, 30 * DAY, ""),
        (Outcome.EXTEND, 1, ""),
        (Outcome.EXTEND, DAY, ""),
        (Outcome.DONE, None, ""),
    ],
)
def test_what_is_within_bounds_is_accepted(outcome, delay_us, reason):
    check_outcome(outcome, delay_us, reason)


@pytest.mark.parametrize(
    ("outcome", "delay_us", "reason", "field"),
    [
        (Outcome.RETRY, -1, "", "delay_ms"),
        (Outcome.RETRY, 30 * DAY + 1, "", "delay_ms"),
        (Outcome.EXTEND, 0, "", "delay_ms"),
        (Outcome.EXTEND, DAY + 1, "", "delay_ms"),
        (Outcome.EXTEND, None, "", "delay_ms"),
        (Outcome.REJECT, None, "x" * 1025, "reason"),
        (Outcome.REJECT, None, "ö" * 513, "reason"),
    ],
)
def test_what_is_out_of_bounds_is_refused(outcome, delay_us, reason, field):
    with pytest.raises(Refused) as refused:
        check_outcome(outcome, delay_us, reason)
    assert (refused.value.code, refused.value.field) == (ErrorCode.INVALID_FIELD, field)


def test_a_wait_doubles_up_to_a_minute():
    """SHR-4b."""
    waits = [backoff_us(failures) // SECOND for failures in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff_us(10**9) == 60 * SECOND
