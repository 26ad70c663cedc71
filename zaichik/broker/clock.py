"""The one clock: integer microseconds since 1970 that never decrease (RET-8).

The broker reads it once a command. The reading decides about retention and compaction and is also stored as
the message's timestamp, so that anybody can work out every decision again from the data. Two clocks would
disagree at the edges: a message could expire by one and be delivered by the other.
"""

import time
from typing import Protocol

MICROSECONDS = 1_000_000


def stopwatch_us() -> float:
    """Returns the time since some moment, in µs: to measure how long something took, and for nothing else."""
    return time.perf_counter_ns() / 1000


class Clock(Protocol):
    """Anything that tells the time so."""

    def now_us(self) -> int:
        """Microseconds since 1970; never less than the last time."""


class SystemClock:
    """Wall time when it was made, and monotonic time from there on: setting the machine's clock changes nothing."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """Microseconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns) // 1000


class ManualClock:
    """A clock that moves only when told to: for tests, lessons, and replaying history.

    Args:
        start_us: microseconds since 1970 at which it begins.
    """

    def __init__(self, start_us: int = 0) -> None:
        self._now_us = start_us

    def now_us(self) -> int:
        """Microseconds since 1970."""
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        self.move_to(self._now_us + round(seconds * MICROSECONDS))

    def move_to(self, now_us: int) -> None:
        """Let time pass until then.

        Raises:
            ValueError: it is later than that already; time does not go back.
        """
        if now_us < self._now_us:
            raise ValueError(f"the clock stands at {self._now_us} µs and cannot go back to {now_us}")
        self._now_us = now_us
