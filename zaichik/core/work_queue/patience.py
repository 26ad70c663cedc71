"""Patience: the time that counts for time-outs (SHR-4).

    clock      ──┬──┬──┬─────────────stall, or sleep───────────┬──┬──▶
    patience   ──┬──┬──┬──┬                                    ┬──┬──▶    2 s of all that

A worker has its time-out to settle a message, as long as the broker is there to listen. Of the time
between two sweeps, which are a second apart, at most two seconds count: while the broker is
stalled, or the machine asleep, no worker can say that it is done.
"""

from zaichik.base.clock import SECOND_US

MOST_US = 2 * SECOND_US  # between two sweeps


class Patience:
    """How much time has counted so far, by the broker's clock.

    Args:
        now_us: the clock's reading, at which nothing has counted yet.
    """

    def __init__(self, now_us: int) -> None:
        self._swept_us = now_us
        self._counted_us = 0

    def at(self, now_us: int) -> int:
        """Returns how much has counted by now, or at the last sweep, if that is later."""
        return self._counted_us + min(max(now_us - self._swept_us, 0), MOST_US)

    def sweep(self, now_us: int) -> None:
        """Begin the next second. Called once a second, before names are swept."""
        self._counted_us = self.at(now_us)
        self._swept_us = now_us

    def advance(self, now_us: int) -> None:
        """Count all the time since the last sweep: somebody has advanced the clock (TIM-4)."""
        self._counted_us += now_us - self._swept_us
        self._swept_us = now_us
