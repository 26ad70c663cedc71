"""Heartbeat and failure detection: the broker hears from this client in time, and a frozen broker is noticed.

TCP does not notice a peer that is frozen: its kernel goes on acknowledging. So a connection counts as lost once a reply
is due and nothing at all has been heard for a while. Which reply does not matter, and a broker that sends anything is
alive. A client that only waits for messages is owed no reply; but it has promised a heartbeat (TIM-3), and the answer
to its Ping is one.

There is no timer for each request. The transport calls `check` at regular intervals and passes counters; what has not
changed between two checks has not happened.

A client that was stalled itself (it was stopped, the machine was asleep, a computation blocked the event loop) must not
blame the broker. So a check counts two intervals at most, however late it comes, and a broker is lost only when it is
overdue at two punctual checks in a row: in between, everything that had arrived was read.
"""

from enum import Enum, auto


class Verdict(Enum):
    """The action that the transport has to take."""

    FINE = auto()
    PING = auto()
    LOST = auto()


class Heartbeat:
    """The heartbeat of one socket.

    Args:
        idle: seconds of silence after which the broker closes the connection; 0: never.
        silence: seconds that the broker may be silent while it owes a reply.
        now: seconds, of any clock that never goes back.

    Attributes:
        interval: seconds between two checks, `math.inf` if there is nothing to check.
    """

    def __init__(self, idle: float, silence: float, now: float) -> None:
        self._ping_after = idle / 3 if idle else float("inf")
        self._silence = silence
        self.interval = min(self._ping_after, silence) / 4
        self._checked = now
        self._sent = self._received = 0  # as counted at the last check
        self._unsent = self._silent = 0.0  # seconds without anything sent; without anything received while it is due
        self._was_waiting = False
        self._was_overdue = False

    def check(self, now: float, sent: int, received: int, *, is_waiting: bool) -> Verdict:
        """Returns the action to take now.

        Args:
            now: seconds.
            sent: how often something was sent so far.
            received: how often something was received so far.
            is_waiting: whether a reply is due.
        """
        elapsed = now - self._checked
        self._checked = now
        self._unsent = 0.0 if sent != self._sent else self._unsent + elapsed
        if received != self._received or not self._was_waiting:  # it may have become due just now
            self._silent = 0.0
        else:
            self._silent += min(elapsed, 2 * self.interval)
        self._sent, self._received, self._was_waiting = sent, received, is_waiting
        is_overdue = is_waiting and self._silent >= self._silence
        was_overdue, self._was_overdue = self._was_overdue and elapsed <= 2 * self.interval, is_overdue
        if is_overdue and was_overdue:
            return Verdict.LOST
        if self._unsent + 2 * self.interval >= self._ping_after:  # at the next check it may be too late
            self._unsent = 0.0
            return Verdict.PING
        return Verdict.FINE
