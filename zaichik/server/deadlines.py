"""Timeouts of a peer: for reading output, for completing a frame, and between heartbeats.

No connection has a timer. The broker checks each of them once a second and compares what it sees
with what it saw before, so a thousand idle peers cost a thousand comparisons a second, and a busy
one costs no more than an idle one. A peer whose input is overdue is disconnected only at the second
consecutive check: in between, all input that had arrived was read. (A socket that accepts no output
needs no second check.)

Time in which the broker itself was stalled does not count: the buffers in between fill up, and no
peer can make progress. So each connection has a time of its own, which a check advances by two
seconds at most.
"""

from zaichik.base.clock import SECOND_US
from zaichik.core.settings import BrokerSettings
from zaichik_protocol import ErrorCode, Refused

# A check comes once a second, and a little later if there is much to do.
_LONGEST_STEP_US = 2 * SECOND_US


class Deadlines:
    """The deadlines of one connection.

    Args:
        settings: the limits.
        now_us: when it was accepted.

    Attributes:
        write_timeout: seconds after which a peer that reads nothing is stuck.
    """

    def __init__(self, settings: BrokerSettings, now_us: int) -> None:
        self._settings = settings
        self.write_timeout = settings.write_timeout
        self._checked_us = now_us
        self._time_us = 0  # the connection's own time since it was accepted
        self._step_us = 0  # by which the last check advanced it

        # What the last check saw.
        self._frames = 0
        self._buffered = 0
        self._sends = 0
        self._unacknowledged: int | None = None
        self._was_full = False
        self._was_overdue = False

        # The last check that saw new input.
        self._heard_us = 0
        # The last check before the incomplete frame began. That is a little early, and one reason
        # for a second check.
        self._begun_us = 0
        # The last check that saw output accepted, or none waiting.
        self._moved_us = 0

    def advance(self, now_us: int) -> None:
        """Advance the connection's own time. Each check begins with this."""
        self._step_us = min(now_us - self._checked_us, _LONGEST_STEP_US)
        self._time_us += self._step_us
        self._checked_us = now_us

    def is_stuck(self, sends: int, unacknowledged: int | None, *, is_full: bool) -> bool:
        """Returns whether the peer has read nothing for the write timeout (LAG-3).

        Time in which there was nothing to read does not count.

        A full socket accepts output again only once much of what it holds is gone. A peer that
        reads slowly may take longer than the timeout for that, so a little of it gone counts, too.

        Args:
            sends: how often the socket has accepted output so far.
            unacknowledged: bytes that it holds for the peer; None if the system does not tell.
            is_full: whether it accepts none now.
        """
        has_moved = sends != self._sends or unacknowledged != self._unacknowledged
        if has_moved or not (is_full and self._was_full):
            self._moved_us = self._time_us
        self._sends = sends
        self._unacknowledged = unacknowledged
        self._was_full = is_full
        return self._time_us - self._moved_us >= self.write_timeout * SECOND_US

    def excuse(self) -> None:
        """Discount the time since the last check.

        Called instead of `check` while input is left unread.
        """
        self._begun_us += self._step_us
        self._heard_us += self._step_us
        self._was_overdue = False

    def check(self, frames: int, buffered: int, needed: int, *, heartbeat: bool) -> Refused | None:
        """Returns the reason to disconnect the peer; None if there is none (TIM-2, TIM-3).

        Args:
            frames: complete frames received so far.
            buffered: bytes received of the next frame.
            needed: its total size in bytes, as far as is known.
            heartbeat: whether the peer promised one.
        """
        if frames != self._frames or not buffered:
            self._begun_us = self._time_us
        if (frames, buffered) != (self._frames, self._buffered):
            self._heard_us = self._time_us
        self._frames = frames
        self._buffered = buffered
        refusal = self._overdue(needed, heartbeat=heartbeat)
        was_overdue = self._was_overdue
        self._was_overdue = refusal is not None
        # At the first check that finds it overdue, its input may still be on the way here.
        if not was_overdue:
            return None
        return refusal

    def _overdue(self, needed: int, *, heartbeat: bool) -> Refused | None:
        """Returns what is overdue now; None if nothing is."""
        limits = self._settings
        allowed_s = limits.frame_timeout + needed / limits.frame_rate
        if self._time_us - self._begun_us >= allowed_s * SECOND_US:
            problem = (
                f"only {self._buffered} of a frame's {needed} bytes "
                f"arrived within {allowed_s:.0f} s"
            )
            return Refused(ErrorCode.FRAME_TIMEOUT, problem)
        if heartbeat and self._time_us - self._heard_us >= limits.idle_timeout * SECOND_US:
            return Refused(
                ErrorCode.IDLE_TIMEOUT,
                f"a heartbeat was promised, but nothing arrived for {limits.idle_timeout:g} s",
            )
        return None
