"""What the end of a job means for its message: one table of exit codes (SHR-12)."""

import signal
from enum import Enum
from typing import NamedTuple

from zaichik.apps.work.job import Cause, JobEnd

DATA_ERROR = 65  # EX_DATAERR of sysexits.h: the input is wrong, and will be next time
MOST_REASON_BYTES = 1024  # that the broker keeps (SHR-11)


class Settling(Enum):
    """What becomes of a message."""

    DONE = "done"
    RETRY = "retry"
    REJECT = "reject"
    RELEASE = "release"


class Verdict(NamedTuple):
    """What becomes of a message, and why, for people."""

    settling: Settling
    reason: str = ""


def verdict(end: JobEnd) -> Verdict:
    """Returns what becomes of the message of a job.

    The reason is how the job ended, and the last of what it wrote to standard error.
    """
    match end:
        # Also if its exit code is 0: it may end in order, and have done half of the work.
        case JobEnd(cause=Cause.STOPPED):
            return Verdict(Settling.RELEASE)
        case JobEnd(cause=Cause.TIME_OUT):
            settling = Settling.RETRY
        case JobEnd(status=0):
            return Verdict(Settling.DONE)
        case JobEnd(status=status) if status == DATA_ERROR:
            settling = Settling.REJECT
        case _:
            settling = Settling.RETRY
    return Verdict(settling, _reason(end))


def how(end: JobEnd) -> str:
    """Returns how a job ended, in a few words."""
    if end.cause == Cause.TIME_OUT:
        return f"took longer than {end.timeout:g} s"
    if end.status >= 0:
        return f"exit code {end.status}"
    try:
        return f"ended by {signal.Signals(-end.status).name}"
    except ValueError:  # a real-time signal
        return f"ended by signal {-end.status}"


def _reason(end: JobEnd) -> str:
    first = how(end)
    last = end.errors.decode("utf-8", "replace").strip()
    if not last:
        return first
    return f"{first}: {_ending(last, MOST_REASON_BYTES - len(first) - len(': '))}"


def _ending(text: str, most: int) -> str:
    """Returns the end of a text, in so many bytes at most."""
    # The first character may be cut; what is left of it is no text.
    return text.encode()[-most:].decode("utf-8", "ignore")
