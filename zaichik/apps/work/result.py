"""What the end of a job means for its message: one table of exit codes (SHR-12)."""

import signal
from typing import NamedTuple

from zaichik.apps.work.job import Cause, JobEnd
from zaichik.client.work.verdict import MOST_REASON_BYTES, Verdict
from zaichik_protocol import Outcome

DATA_ERROR = 65  # EX_DATAERR of sysexits.h: the input is wrong, and will be next time


class Result(NamedTuple):
    """What a job says of its message, or what has kept it from beginning.

    Attributes:
        outcome: what becomes of the message.
        cause: why, in a few words; "" if all is well.
        errors: the last of what the job wrote to standard error.
    """

    outcome: Outcome
    cause: str = ""
    errors: str = ""

    @property
    def verdict(self) -> Verdict:
        """The same for the broker."""
        return Verdict(self.outcome, reason=self.reason)

    @property
    def reason(self) -> str:
        """Why, for people, in at most 1,024 bytes (SHR-11)."""
        if not self.errors:
            return self.cause
        start = f"{self.cause}: "
        rest = self.errors.encode()[len(start.encode()) - MOST_REASON_BYTES :]
        # The first character may be cut; what is left of it is no text.
        return start + rest.decode("utf-8", "ignore")


def result_of(end: JobEnd) -> Result:
    """Returns the result of a job."""
    match end:
        # Also if its exit code is 0: it may end in order, and have done half of the work.
        case JobEnd(cause=Cause.STOPPED):
            return Result(Outcome.GIVE_BACK)
        case JobEnd(cause=Cause.TIME_OUT):
            outcome = Outcome.RETRY
        case JobEnd(status=0):
            return Result(Outcome.DONE)
        case JobEnd(status=status) if status == DATA_ERROR:
            outcome = Outcome.REJECT
        case _:
            outcome = Outcome.RETRY
    return Result(outcome, _how(end), end.errors.decode("utf-8", "replace").strip())


def _how(end: JobEnd) -> str:
    if end.cause == Cause.TIME_OUT:
        return f"took longer than {end.timeout:g} s"
    if end.status >= 0:
        return f"exit code {end.status}"
    try:
        return f"ended by {signal.Signals(-end.status).name}"
    except ValueError:  # a real-time signal
        return f"ended by signal {-end.status}"
