"""What is said of a message that a program has, and what the end of a block says of it (SHR-3).

| the block ends | the message |
| --- | --- |
| at its end, or by `break` or `return` | is done |
| by an exception | failed: it is retried, with the exception as the reason |
| by a cancellation, Ctrl-C, or a program that ends with exit code 0 | is given back |

Who is cancelled has not failed, and nobody knows whether it would have.
"""

from typing import NamedTuple

from zaichik.base.clock import DAY_US, MILLISECOND_US
from zaichik.client.messages import Duration, milliseconds
from zaichik_protocol import Outcome

MOST_REASON_BYTES = 1024
LONGEST_DELAY_MS = 30 * DAY_US // MILLISECOND_US
LONGEST_TIMEOUT_MS = DAY_US // MILLISECOND_US

# The kinds of exception that are a cancellation: none without an event loop.
Cancellations = tuple[type[BaseException], ...]


class Verdict(NamedTuple):
    """What is said of messages. Those with equal verdicts are settled together.

    Attributes:
        outcome: what became of them.
        delay_ms: after which a retry comes again, or how much longer the program may take; None:
            the broker decides.
        reason: why, for people.
    """

    outcome: Outcome
    delay_ms: int | None = None
    reason: str = ""


DONE = Verdict(Outcome.DONE)
RELEASED = Verdict(Outcome.RELEASE)
GIVEN_BACK = Verdict(Outcome.GIVE_BACK)
LOST = Verdict(Outcome.LOSE)


def retried(after: Duration | None = None, reason: str = "") -> Verdict:
    """Returns the verdict on a message that failed, and comes again after that time.

    Raises:
        ValueError: that is more than 30 days, or not a duration.
    """
    delay_ms = None
    if after is not None:
        delay_ms = milliseconds(after)
        if delay_ms > LONGEST_DELAY_MS:
            raise ValueError(f"a retry can be delayed by at most 30 days, not by {after!r}")
    return Verdict(Outcome.RETRY, delay_ms, cut(reason))


def rejected(reason: str = "") -> Verdict:
    """Returns the verdict on a message that can never succeed."""
    return Verdict(Outcome.REJECT, reason=cut(reason))


def extended(by: Duration) -> Verdict:
    """Returns the verdict on a message that takes so much longer, from now on.

    Raises:
        ValueError: that is nothing, or more than a day, or not a duration.
    """
    delay_ms = milliseconds(by)
    if not 0 < delay_ms <= LONGEST_TIMEOUT_MS:
        raise ValueError(f"extend by more than 0 seconds and at most 24 hours, not by {by!r}")
    return Verdict(Outcome.EXTEND, delay_ms)


def timeout_ms(timeout: Duration) -> int:
    """Returns a time-out as the wire carries it: 0 for none.

    Raises:
        ValueError: it is more than a day, or not a duration.
    """
    if timeout == "forever":
        return 0
    length_ms = milliseconds(timeout)
    if length_ms > LONGEST_TIMEOUT_MS:
        problem = 'a time-out is at most 24 hours, or "forever" for none'
        raise ValueError(f"{problem}, not {timeout!r}: `extend` gives one message more time")
    return length_ms


def failures(error: BaseException, cancellations: Cancellations) -> list[BaseException]:
    """Returns what of an exception says that something has failed: it, or parts of a group.

    Args:
        error: the exception.
        cancellations: the kinds of exception that are a cancellation.
    """
    match error:
        case BaseExceptionGroup():
            found: list[BaseException] = []
            for part in error.exceptions:
                found += failures(part, cancellations)
            return found
        case SystemExit() if not error.code:
            return []
        case KeyboardInterrupt() | GeneratorExit():
            return []
        case _ if isinstance(error, cancellations):
            return []
        case _:
            return [error]


def verdict_of(error: BaseException | None, cancellations: Cancellations) -> Verdict:
    """Returns what the end of its block says of a message.

    Args:
        error: the exception that has ended the block, None for none.
        cancellations: the kinds of exception that are a cancellation.
    """
    if error is None:
        return DONE
    failed = failures(error, cancellations)
    if not failed:
        return GIVEN_BACK
    return retried(reason="; ".join(map(reason_of, failed)))


def reason_of(error: BaseException) -> str:
    """Returns an exception as a reason for people: its type and its text."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:
        # It is the program's own code, and the exception is what must be told.
        text = "(its text cannot be made)"
    if not text:
        return name
    return f"{name}: {text}"


def cut(reason: str) -> str:
    """Returns a reason as far as the wire carries it, cut between two characters (SHR-11)."""
    # Lone surrogates, as in file names that are no UTF-8, cannot be sent.
    data = reason.encode(errors="backslashreplace")
    return data[:MOST_REASON_BYTES].decode(errors="ignore")
