"""The file `clock`: what the next start has to know about time.

A broker takes the time from the machine's clock when it starts, but never an earlier one than what
it has accepted before. Machines without a battery begin years in the past, until somebody or
something sets their clock. After the next start, all that was stored before seems to be years old.
So this file has what the clocks said at the start, when the machine's clock was set while the
broker ran, and at an orderly stop. The next start compares: in the same run of the machine, and
where the clock was set while the broker ran, it knows how much of the time has not passed. Jumps
are kept here, too, because what was stored before them stays.
"""

import json
import logging
from typing import Any

from zaichik.base.clock import DAY_US, Reading, SystemClock, jumped_us
from zaichik.base.relative_time import in_words
from zaichik.core.jumps import MOST_JUMPS, NOTICED_US, Jump
from zaichik.storage.disk import Disk, DiskFull
from zaichik.storage.segment import seal, unseal, unseal_object
from zaichik.storage.shapes import are_ranges, is_number, is_text, is_time

logger = logging.getLogger("zaichik.log.store")

CLOCK = "clock"
# The first had the time alone.
_FIRST_MARK = b"zaichik clock 1\n"
_MARK = b"zaichik clock 2\n"
_MOST_BYTES = 4096
# After so long a time without a broker, a wrong clock is as likely.
DOUBTFUL_US = 30 * DAY_US


class ClockFile:
    """See above. The file is read when this is made.

    Args:
        disk: where it is.

    Attributes:
        time_us: the broker's time that it has; 0 if there is none.
        jumps: those that are known, the oldest first.
        ahead_us: by how much the broker's clock was ahead of the machine's at the start, if that is
            worth mentioning.
    """

    def __init__(self, disk: Disk) -> None:
        self.time_us = 0
        self.jumps: list[Jump] = []
        self.ahead_us = 0
        self._disk = disk
        self._clock: SystemClock | None = None
        self._before: Reading | None = None
        self._lead_us = 0
        self._least_us = 0
        try:
            data = disk.read(CLOCK, 0, _MOST_BYTES)
        except FileNotFoundError:
            return
        except OSError:
            data = b""
        if not self._load(data):
            logger.warning("%s is damaged, and not needed", CLOCK)

    def _load(self, data: bytes) -> bool:
        """Take over what the file has. Returns whether it is whole."""
        first = unseal(_FIRST_MARK, data)
        if first is not None and first.isdigit():
            self.time_us = int(first)
            return True
        fields = unseal_object(_MARK, data)
        if fields is None:
            return False
        jumps = fields.get("jumps")
        if not is_time(fields.get("time_us")) or not are_ranges(jumps):
            return False
        self._before = _reading(fields)
        self.time_us = fields["time_us"]
        self.jumps += [(at_us, by_us) for at_us, by_us in jumps]
        return True

    def start(self, least_us: int) -> SystemClock:
        """Returns the broker's clock, and notices whether the machine's has been set.

        Args:
            least_us: the latest time of anything that is stored.

        Raises:
            StorageFailed: the file cannot be written.
        """
        clock = SystemClock(least_us)
        self._clock = clock
        now = clock.reading()
        self._lead_us = now.broker_us - now.wall_us
        if self._lead_us >= NOTICED_US:
            self.ahead_us = self._lead_us
            logger.warning(
                "the machine's clock is %s behind what was stored before: the broker's goes on "
                "from there",
                in_words(self.ahead_us),
            )
        before = self._before
        by_us = 0
        if before is not None:
            # What was stored since then was stored while time passed.
            stored_us = max(least_us - before.broker_us, 0)
            gone_us = now.broker_us - before.broker_us
            by_us = min(jumped_us(before, now), gone_us - stored_us)
        if by_us >= NOTICED_US:
            self.jumps.append((now.broker_us, by_us))
            del self.jumps[:-MOST_JUMPS]
            logger.warning(
                "the machine's clock was set forward by %s since the last start: that does not "
                "count for what was stored before",
                in_words(by_us),
            )
        elif least_us and now.broker_us - least_us >= DOUBTFUL_US:
            logger.warning(
                "the last time that is known here is %s ago; if the clock was wrong then, messages "
                "expire too early",
                in_words(now.broker_us - least_us),
            )
        self._least_us = least_us
        self.save(least_us)
        return clock

    def check_clock(self) -> None:
        """Notice whether the machine's clock was set meanwhile. Call this once a minute; blocks.

        Raises:
            StorageFailed: see `start`.
        """
        if self._clock is None:
            return
        now = self._clock.reading()
        lead_us = now.broker_us - now.wall_us
        moved_us = self._lead_us - lead_us
        if abs(moved_us) < NOTICED_US:
            return
        self._lead_us = lead_us
        direction = "forward"
        if moved_us < 0:
            direction = "back"
        logger.warning(
            "the machine's clock was set %s by %s: the broker's does not follow before the next "
            "start",
            direction,
            in_words(abs(moved_us)),
        )
        self.save(self._least_us)

    def save(self, time_us: int) -> None:
        """Write the file. If there is no room for it, the old one has to do.

        Args:
            time_us: the broker's next clock begins no earlier. At an orderly stop, that is now;
                before, the time of what was stored, as the machine's clock may be wrong.

        Raises:
            StorageFailed: see `start`.
        """
        fields: dict[str, Any] = {"time_us": time_us, "jumps": self.jumps}
        if self._clock is not None:
            now = self._clock.reading()
            fields["broker_us"] = now.broker_us
            fields["wall_us"] = now.wall_us
            fields["boot"] = now.boot
            fields["since_boot_us"] = now.since_boot_us
        try:
            self._disk.replace(CLOCK, seal(_MARK, json.dumps(fields).encode()))
        except DiskFull:
            logger.info("no room for %s: if the clock is set back, messages live longer", CLOCK)


def _reading(fields: dict[str, Any]) -> Reading | None:
    """Returns what all clocks said; None if only the broker's is known."""
    broker_us = fields.get("broker_us", fields["time_us"])
    wall_us = fields.get("wall_us")
    boot = fields.get("boot")
    since_boot_us = fields.get("since_boot_us")
    if not is_time(broker_us) or not is_time(wall_us):
        return None
    if not is_text(boot) or not is_number(since_boot_us):
        return None
    return Reading(broker_us, wall_us, boot, since_boot_us)
