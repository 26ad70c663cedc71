"""How long a client may take: for its Hello, for a frame it has begun, between two signs of life.

No connection has a timer. The broker looks at each of them once a second and compares what it sees with what it saw
before, so a thousand idle clients cost a thousand comparisons a second, and a busy one nothing more than they do.
Whoever is overdue is cut off if he is still overdue at the next look: in between, everything that had come was read.

Nobody is judged by time in which the broker itself stood still: the buffers between were soon full, and he could not go
on. So each connection has a time of its own, which a look moves on by two seconds at most.
"""

from zaichik.broker.settings import BrokerSettings
from zaichik_protocol import ErrorCode, Refused

_SECOND = 1_000_000  # µs
_LONGEST_STEP_US = 2 * _SECOND  # a look comes once a second, and a little later if there is much to do


class Deadlines:
    """Those of one connection.

    Args:
        settings: the limits.
        now_us: when it was accepted.
    """

    def __init__(self, settings: BrokerSettings, now_us: int) -> None:
        self._settings = settings
        self._looked_us = now_us
        self._time_us = 0  # since it was accepted, by its own time
        self._frames = self._buffered = 0  # seen at the last look
        self._heard_us = 0  # when something had come last
        self._begun_us = 0  # the last look before the frame that is not all here; waiting a look longer makes up for it
        self._was_overdue = False

    def look(
        self, now_us: int, frames: int, buffered: int, needed: int, *, greeted: bool, heartbeat: bool
    ) -> Refused | None:
        """Why to cut the client off, if it is time to.

        Args:
            now_us: the broker's clock.
            frames: whole frames that came so far.
            buffered: bytes of the next one that came.
            needed: bytes it has in all, as far as is known.
            greeted: whether there was a Hello.
            heartbeat: whether the client promised never to be silent for long.
        """
        self._time_us += min(now_us - self._looked_us, _LONGEST_STEP_US)
        self._looked_us = now_us
        if frames != self._frames or not buffered:
            self._begun_us = self._time_us
        if (frames, buffered) != (self._frames, self._buffered):
            self._heard_us = self._time_us
        self._frames, self._buffered = frames, buffered
        refusal = self._judge(needed, greeted=greeted, heartbeat=heartbeat)
        was_overdue, self._was_overdue = self._was_overdue, refusal is not None
        return refusal if was_overdue else None

    def _judge(self, needed: int, *, greeted: bool, heartbeat: bool) -> Refused | None:
        limits = self._settings
        if not greeted:
            if self._time_us < limits.handshake_timeout * _SECOND:
                return None
            return Refused(ErrorCode.HANDSHAKE_TIMEOUT, f"no complete Hello within {limits.handshake_timeout:g} s")
        allowed = limits.frame_timeout + needed / limits.frame_rate
        if self._time_us - self._begun_us >= allowed * _SECOND:
            problem = f"a frame of {needed} bytes was begun {allowed:.0f} s ago, and {self._buffered} of them are here"
            return Refused(ErrorCode.FRAME_TIMEOUT, problem)
        if heartbeat and self._time_us - self._heard_us >= limits.idle_timeout * _SECOND:
            return Refused(
                ErrorCode.IDLE_TIMEOUT, f"a heartbeat was promised, and nothing came for {limits.idle_timeout:g} s"
            )
        return None
