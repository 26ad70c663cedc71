"""Retries: what becomes of a message that comes back and is not done.

                    counts             suspect      comes again
    retry           yes                no           after a time
    lost, timed out if it was alone    yes          at once, in a hand of its own
    given back      if it was alone,   from the     after a time
                    from the 10th on   10th on
    release         no                 as before    at once

The broker counts deliveries, and not failures that workers admit to, because a message that kills
its worker must count as well. A delivery has counted when the message was handed out, so what does
not count is taken back here. What counts and reaches `max_deliveries` is dead (SHR-5).
"""

from zaichik.core.work_queue.ledger import Ledger
from zaichik.core.work_queue.message import OpenMessage
from zaichik.core.work_queue.outcome import backoff_us

# Times that a message is given back in a row, from which on it is suspect (SHR-4b). A job that is
# always cancelled, because it takes longer than its program waits, would come for ever.
SUSPECT_GIVE_BACKS = 10

GIVEN_BACK = "it was given back again and again"


class Retries:
    """The messages of one name that come back. None of them is in a hand any more.

    Args:
        ledger: where they go.
        max_deliveries: see `QueueSettings`.
    """

    def __init__(self, ledger: Ledger, max_deliveries: int) -> None:
        self.max_deliveries = max_deliveries
        self._ledger = ledger

    def retry(self, message: OpenMessage, delay_us: int | None, reason: str, now_us: int) -> None:
        """Take back a message that failed, and whose program lived to say so.

        Args:
            message: the message.
            delay_us: after which it comes again; None for the usual time (SHR-4b).
            reason: why it failed.
            now_us: the clock's reading.
        """
        # Whatever has ended workers, it is not this message.
        message.is_suspect = False
        message.given_back = 0
        if delay_us is None:
            delay_us = backoff_us(message.count)
        self._fail(message, reason, now_us + delay_us, now_us)

    def lose(self, message: OpenMessage, reason: str, now_us: int, *, is_alone: bool) -> None:
        """Take back a message that was lost, alone in its hand or in company (SHR-6)."""
        message.is_suspect = True
        if is_alone:
            self._fail(message, reason, now_us, now_us)
        else:
            message.count -= 1
            self._ledger.wait(message, now_us, now_us)

    def give_back(self, message: OpenMessage, now_us: int, *, is_alone: bool) -> None:
        """Take back a message that was opened, and that something else has stopped (SHR-4b)."""
        message.given_back += 1
        due_us = now_us + backoff_us(message.given_back)
        if message.given_back >= SUSPECT_GIVE_BACKS:
            message.is_suspect = True
            if is_alone:
                self._fail(message, GIVEN_BACK, due_us, now_us)
                return
        message.count -= 1
        self._ledger.wait(message, due_us, now_us)

    def release(self, message: OpenMessage, now_us: int) -> None:
        """Take back a message as if it had not been handed out."""
        message.count -= 1
        self._ledger.wait(message, now_us, now_us)

    def _fail(self, message: OpenMessage, reason: str, due_us: int, now_us: int) -> None:
        """Have a message come again, after a delivery that counts, or be dead."""
        if 0 < self.max_deliveries <= message.count:
            self._ledger.bury(message, reason, now_us)
        else:
            self._ledger.wait(message, due_us, now_us)
