"""Heartbeat and failure detection.

The broker hears from this client in time, and a frozen broker is noticed.

TCP does not notice a peer that is frozen: its kernel goes on acknowledging. So a connection counts
as lost once a reply is due and nothing at all has been heard for a while. Which reply does not
matter, and a broker that sends anything is alive. A client that only waits for messages is owed no
reply; but it has promised a heartbeat (TIM-3), and the answer to its Ping is one.

There is no timer for each request. The transport calls `check` at regular intervals and passes
counters; what has not changed between two checks has not happened.

A client that was stalled itself (it was stopped, the machine was asleep, a computation blocked the
event loop) must not blame the broker. So a check counts two intervals at most, however late it
comes, and a broker is lost only when it is overdue at two punctual checks in a row: in between,
everything that had arrived was read.
"""

from enum import Enum, auto


class Action(Enum):
    """The action that the transport has to take."""

    NONE = auto()
    PING = auto()
    LOST = auto()


class Heartbeat:
    """The heartbeat of one socket.

    Args:
        idle_s: seconds of silence after which the broker closes the connection; 0: never.
        silence_timeout: seconds that the broker may be silent while it owes a reply.
        now: seconds, of any clock that never goes back.

    Attributes:
        interval_s: seconds between two checks, `math.inf` if there is nothing to check.
    """

    def __init__(self, idle_s: float, silence_timeout: float, now: float) -> None:
        self._ping_after_s = float("inf")
        if idle_s:
            self._ping_after_s = idle_s / 3
        self._silence_timeout = silence_timeout
        self.interval_s = min(self._ping_after_s, silence_timeout) / 4
        self._checked_at = now
        # What was counted at the last check.
        self._sent = 0
        self._received = 0
        # Without anything sent.
        self._unsent_s = 0.0
        # Without anything received while a reply is due.
        self._silent_s = 0.0
        # As found at the last check.
        self._was_waiting = False
        self._was_overdue = False

    def check(self, now: float, sent: int, received: int, *, is_waiting: bool) -> Action:
        """Returns the action to take now.

        Args:
            now: seconds.
            sent: how often something was sent so far.
            received: how often something was received so far.
            is_waiting: whether a reply is due.
        """
        elapsed_s = now - self._checked_at
        self._checked_at = now
        self._unsent_s += elapsed_s
        if sent != self._sent:
            self._unsent_s = 0.0
        if received != self._received or not self._was_waiting:
            # The reply may have become due just now.
            self._silent_s = 0.0
        else:
            self._silent_s += min(elapsed_s, 2 * self.interval_s)
        self._sent = sent
        self._received = received
        self._was_waiting = is_waiting
        # Only two punctual checks in a row count: this client may have been stalled itself.
        was_overdue = self._was_overdue and elapsed_s <= 2 * self.interval_s
        is_overdue = is_waiting and self._silent_s >= self._silence_timeout
        self._was_overdue = is_overdue
        if is_overdue and was_overdue:
            return Action.LOST
        # At the next check it may be too late.
        if self._unsent_s + 2 * self.interval_s >= self._ping_after_s:
            self._unsent_s = 0.0
            return Action.PING
        return Action.NONE
