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
    """What becomes of a message.

    Attributes:
        settling: see above.
        cause: why, in a few words; "" if all is well.
        errors: the last of what its job wrote to standard error.
    """

    settling: Settling
    cause: str = ""
    errors: str = ""

    @property
    def reason(self) -> str:
        """Why, for people, in at most 1,024 bytes (SHR-11)."""
        if not self.errors:
            return self.cause
        start = f"{self.cause}: "
        rest = self.errors.encode()[len(start.encode()) - MOST_REASON_BYTES :]
        # The first character may be cut; what is left of it is no text.
        return start + rest.decode("utf-8", "ignore")


def verdict(end: JobEnd) -> Verdict:
    """Returns what becomes of the message of a job."""
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
    return Verdict(settling, _how(end), end.errors.decode("utf-8", "replace").strip())


def _how(end: JobEnd) -> str:
    if end.cause == Cause.TIME_OUT:
        return f"took longer than {end.timeout:g} s"
    if end.status >= 0:
        return f"exit code {end.status}"
    try:
        return f"ended by {signal.Signals(-end.status).name}"
    except ValueError:  # a real-time signal
        return f"ended by signal {-end.status}"
