"""The bounds of what a worker may say of a message that it has (SHR-3): see `Outcome`."""

from zaichik.base.clock import DAY_US, MILLISECOND_US, SECOND_US
from zaichik.core.settings import out_of_range
from zaichik_protocol import ErrorCode, Outcome, Refused, Settle

MOST_EXTENDED_US = DAY_US  # a job that takes longer can extend again
MOST_DELAYED_US = 30 * DAY_US
MOST_REASON_BYTES = 1024
LONGEST_BACKOFF_US = 60 * SECOND_US
_DOUBLINGS = 6  # 64 s: more than the longest, however often it is doubled


def outcome_of(request: Settle) -> Outcome:
    """Returns what a request says of its messages.

    Raises:
        Refused: `INVALID_FIELD`.
    """
    try:
        return Outcome(request.outcome)
    except ValueError:
        raise out_of_range("outcome", request.outcome, "0 to 6") from None


def delay_of(request: Settle) -> int | None:
    """Returns the delay that a request asks for, in microseconds; None if it leaves that open."""
    may_delay = request.outcome in (Outcome.RETRY, Outcome.EXTEND)
    if request.delayed and may_delay:
        return request.delay_ms * MILLISECOND_US
    return None


def check_outcome(outcome: Outcome, delay_us: int | None, reason: str) -> None:
    """Refuse what is out of bounds (SHR-4, SHR-11).

    Args:
        outcome: how the messages are settled.
        delay_us: after which a RETRY comes again, None to leave it to the broker; of an EXTEND,
            from now on.
        reason: why, for people.

    Raises:
        Refused: `INVALID_FIELD`.
    """
    least_us = 0
    most_us = MOST_DELAYED_US
    if outcome == Outcome.EXTEND:
        least_us = 1
        most_us = MOST_EXTENDED_US
        if delay_us is None:
            raise Refused(ErrorCode.INVALID_FIELD, "extend by how long?", "delay_ms")
    if delay_us is not None and not least_us <= delay_us <= most_us:
        problem = (
            f"{delay_us / SECOND_US:g} s is out of range; it can be at most "
            f"{most_us // SECOND_US} s"
        )
        raise Refused(ErrorCode.INVALID_FIELD, problem, "delay_ms")
    size = len(reason.encode())
    if size > MOST_REASON_BYTES:
        problem = f"the reason has {size} bytes; it can have at most {MOST_REASON_BYTES}"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "reason")


def backoff_us(failures: int) -> int:
    """Returns how long a message waits after so many failures: 1 s, doubled each time (SHR-4b)."""
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    return min(SECOND_US << doublings, LONGEST_BACKOFF_US)
