"""The one clock: integer microseconds since 1970 that never decrease (RET-8).

The broker reads it once per request. The reading decides retention and compaction and is also stored as the
message's timestamp, so every decision can be recomputed from the data. Two clocks would disagree at the edges: a
message could expire by one and be delivered by the other.
"""

import time
from typing import Protocol

MICROSECONDS = 1_000_000
# The end of the year 9799. After 9999 there are no dates, and messages may expire up to a century later than now.
LAST_US = 247_090_953_599_999_999

# Monotonic, and running while the machine is suspended: CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC_RAW on macOS.
# `time.monotonic` stands still during sleep on both.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC))


def stopwatch_us() -> float:
    """Returns µs since an arbitrary moment: for measuring durations, and for nothing else."""
    return time.perf_counter_ns() / 1000


class Clock(Protocol):
    """The broker's source of time."""

    def now_us(self) -> int:
        """Returns microseconds since 1970; never less than the previous reading."""


class SystemClock:
    """Wall time at its creation, plus monotonic time since: setting the machine's clock changes nothing.

    Args:
        least_us: its first reading is at least this: what an earlier run accepted must lie in the past.

    The time for which a laptop sleeps counts on Linux and macOS. On a system whose monotonic clock does not count it,
    every later reading is behind the wall clock by the length of the sleep.
    """

    def __init__(self, least_us: int = 0) -> None:
        self._offset_ns = max(time.time_ns(), least_us * 1000) - time.clock_gettime_ns(_MONOTONIC)

    def now_us(self) -> int:
        """Returns microseconds since 1970."""
        return (time.clock_gettime_ns(_MONOTONIC) + self._offset_ns) // 1000


class ManualClock:
    """A clock that moves only when it is moved: for tests, lessons and replaying history.

    Args:
        start_us: its first reading, in microseconds since 1970.
    """

    def __init__(self, start_us: int = 0) -> None:
        self._now_us = start_us

    def now_us(self) -> int:
        """Returns microseconds since 1970."""
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Move the clock forward by this many seconds."""
        self.move_to(self._now_us + round(seconds * MICROSECONDS))

    def move_to(self, now_us: int) -> None:
        """Move the clock forward to this time.

        Raises:
            ValueError: that time is in the past.
        """
        if now_us < self._now_us:
            raise ValueError(f"the clock stands at {self._now_us} µs and cannot go back to {now_us}")
        self._now_us = now_us
