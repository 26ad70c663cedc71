"""What all logs of a store share: a budget of bytes, a cache of chunks, the queue of disk work."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import monotonic, perf_counter

from zaichik.storage.reading import Chunks
from zaichik.storage.work import DiskWork
from zaichik_protocol import FOREVER

logger = logging.getLogger("zaichik.log.store")

# Every topic refuses, and its publishers retry: once in a while is enough for the log.
SHORTAGE_SECONDS = 60.0
KEPT_SYNCS = 256  # whose times are kept: a second of a busy disk, and enough for a percentile


class DiskBudget:
    """The bytes of all logs together (DUR-9).

    Attributes:
        used: their bytes, including those that are being written.
        limit: the most that this may be.
    """

    def __init__(self) -> None:
        self.used = 0
        self.limit = FOREVER


class SyncTimes:
    """How long the latest groups took to be written and synced.

    Args:
        clock: returns seconds; threads call it.

    Attributes:
        clock: see above.
        latest: in seconds, the oldest first.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock = clock
        self.latest: deque[float] = deque(maxlen=KEPT_SYNCS)

    def p99_us(self) -> int | None:
        """Returns the 99th percentile; None before the first group."""
        seconds = sorted(self.latest)
        if not seconds:
            return None
        return round(seconds[len(seconds) * 99 // 100] * 1e6)


class Shortage:
    """Logs that messages are refused for lack of room, at most once a minute for all topics.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._silent_until = -inf

    def refused(self, folder: str, reason: str) -> None:
        """Note that a topic has refused messages, and why."""
        now = self._clock()
        if now < self._silent_until:
            return
        self._silent_until = now + SHORTAGE_SECONDS
        logger.warning("there is no room for messages of durable topics in %s: %s", folder, reason)


@dataclass(frozen=True)
class LogResources:
    """See above.

    Attributes:
        work: has what threads are to do.
        budget: limits the bytes of all logs.
        chunks: has what was read for readers.
        sync_times: measures the disk.
        shortage: logs that there is no room.
    """

    work: DiskWork
    budget: DiskBudget = field(default_factory=DiskBudget)
    chunks: Chunks = field(default_factory=Chunks)
    sync_times: SyncTimes = field(default_factory=SyncTimes)
    shortage: Shortage = field(default_factory=Shortage)
