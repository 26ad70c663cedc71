"""The one clock: integer microseconds since 1970 that never decrease (RET-8).

The broker reads it once per request. The reading decides retention and compaction and is also
stored as the message's timestamp, so every decision can be recomputed from the data. Two clocks
would disagree at the edges: a message could expire by one and be delivered by the other.
"""

import time
from pathlib import Path
from typing import NamedTuple, Protocol

MILLISECOND_US = 1000
SECOND_US = 1000 * MILLISECOND_US
MINUTE_US = 60 * SECOND_US
DAY_US = 86_400 * SECOND_US

# The end of the year 9799. After 9999 there are no dates, and messages may expire up to a century
# later than now.
LAST_US = 247_090_953_599_999_999

# Monotonic, and running while the machine is suspended: CLOCK_BOOTTIME on Linux,
# CLOCK_MONOTONIC_RAW on macOS. `time.monotonic` stands still during sleep on both.
_MONOTONIC = getattr(
    time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC)
)


class Reading(NamedTuple):
    """Three clocks at one moment.

    Attributes:
        broker_us: the broker's clock.
        wall_us: the machine's clock, which anybody may set.
        boot: which run of the machine this is; "" if the system does not say.
        since_boot_us: how long that has been running.
    """

    broker_us: int
    wall_us: int
    boot: str
    since_boot_us: int


def jumped_us(before: Reading, now: Reading) -> int:
    """Returns by how much the broker's clock has gone on more than time has, as far as is known.

    In one run of the machine, that is exact. Otherwise it is known only what its clock says, and it
    may have been wrong at both moments.
    """
    if before.boot and before.boot == now.boot:
        passed_us = now.since_boot_us - before.since_boot_us
    else:
        passed_us = max(now.wall_us - before.wall_us, 0)
    return now.broker_us - before.broker_us - passed_us


def boot_id() -> str:
    """Returns what identifies this run of the machine; "" where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def stopwatch_us() -> float:
    """Returns µs since an arbitrary moment: for measuring durations, and for nothing else."""
    return time.perf_counter_ns() / 1000


class Clock(Protocol):
    """The broker's source of time."""

    def now_us(self) -> int:
        """Returns microseconds since 1970; never less than the previous reading."""


class SystemClock:
    """Wall time at its creation, plus monotonic time since.

    So setting the machine's clock changes nothing.

    Args:
        least_us: its first reading is at least this: what an earlier run accepted must lie in the
            past.

    The time for which a laptop sleeps counts on Linux and macOS. On a system whose monotonic clock
    does not count it, every later reading is behind the wall clock by the length of the sleep.
    """

    def __init__(self, least_us: int = 0) -> None:
        first_ns = max(time.time_ns(), least_us * 1000)
        self._offset_ns = first_ns - time.clock_gettime_ns(_MONOTONIC)

    def now_us(self) -> int:
        """Returns microseconds since 1970."""
        return (time.clock_gettime_ns(_MONOTONIC) + self._offset_ns) // 1000

    def reading(self) -> Reading:
        """Returns this clock's time, and that of the machine's clocks."""
        since_boot_us = time.clock_gettime_ns(_MONOTONIC) // 1000
        return Reading(self.now_us(), time.time_ns() // 1000, boot_id(), since_boot_us)


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
        self.move_to(self._now_us + round(seconds * SECOND_US))

    def move_to(self, now_us: int) -> None:
        """Move the clock forward to this time.

        Raises:
            ValueError: that time is in the past.
        """
        if now_us < self._now_us:
            raise ValueError(
                f"the clock stands at {self._now_us} µs and cannot go back to {now_us}"
            )
        self._now_us = now_us
