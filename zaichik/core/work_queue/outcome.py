"""What a worker says of a message that it has (SHR-3), and the bounds of what it may say."""

from enum import IntEnum

from zaichik.base.clock import DAY_US, SECOND_US
from zaichik_protocol import ErrorCode, Refused

MOST_EXTENDED_US = DAY_US  # a job that takes longer can extend again
MOST_DELAYED_US = 30 * DAY_US
MOST_REASON_BYTES = 1024
LONGEST_BACKOFF_US = 60 * SECOND_US
_DOUBLINGS = 6  # 64 s: more than the longest, however often it is doubled


class Outcome(IntEnum):
    """How a message is settled; `EXTEND` does not settle it.

    Attributes:
        DONE: it is done.
        RETRY: it failed: it comes again, after a time.
        REJECT: it can never succeed: it is dead at once.
        RELEASE: the program has not opened it: as if it had not been handed out.
        GIVE_BACK: the program has opened it, and was stopped by something else (SHR-4b).
        LOSE: the program failed with several messages open, and cannot tell which (SHR-6).
        EXTEND: it takes longer.
    """

    DONE = 0
    RETRY = 1
    REJECT = 2
    RELEASE = 3
    GIVE_BACK = 4
    LOSE = 5
    EXTEND = 6


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
            raise Refused(ErrorCode.INVALID_FIELD, "extend by how long?", "delay")
    if delay_us is not None and not least_us <= delay_us <= most_us:
        problem = (
            f"{delay_us / SECOND_US:g} s is out of range; it can be at most "
            f"{most_us // SECOND_US} s"
        )
        raise Refused(ErrorCode.INVALID_FIELD, problem, "delay")
    size = len(reason.encode())
    if size > MOST_REASON_BYTES:
        problem = f"the reason has {size} bytes; it can have at most {MOST_REASON_BYTES}"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "reason")


def backoff_us(failures: int) -> int:
    """Returns how long a message waits after so many failures: 1 s, doubled each time (SHR-4b)."""
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    return min(SECOND_US << doublings, LONGEST_BACKOFF_US)
