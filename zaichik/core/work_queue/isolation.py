"""Isolation: a message that may have ended a worker goes to a hand in which there is nothing else.

    suspects    5, 9                  one hand for each
    hands       ▢ empty               called: its worker gets 5
                ▣ 12, 13              drains: it gets nothing more, and 9 when it is empty

What comes next shows what the suspect is. Alone in a hand, it is done, and was innocent; or its
worker is lost again, and nothing but the suspect can be the cause (SHR-6). To find out costs time,
the more the more a connection has at a time. So as few hands as possible drain: one for each
suspect, and only while no worker that waits has an empty hand.
"""

from collections.abc import Callable

from zaichik.core.work_queue.ledger import Ledger
from zaichik.core.work_queue.line import Line
from zaichik.core.work_queue.worker import Worker


class Isolation:
    """The hands that suspects of one name go to.

    Args:
        ledger: it has the suspects.
        line: the workers that wait.
        is_stopped: returns whether nothing at all is handed out at the name.

    Attributes:
        draining: the workers for which their hands drain, the oldest first.
    """

    def __init__(self, ledger: Ledger, line: Line, is_stopped: Callable[[], bool]) -> None:
        self.draining: dict[Worker, None] = {}
        self._ledger = ledger
        self._line = line
        self._is_stopped = is_stopped
        # Sweeps since a suspect was handed out, while some wait.
        self._sweeps_in_vain = 0

    @property
    def is_needed(self) -> bool:
        """Whether suspects wait that may be handed out."""
        return bool(self._ledger.suspects) and not self._is_stopped()

    def find_hands(self) -> None:
        """Have a hand for each suspect, as far as there are any: an empty one, or one that drains.

        All workers that wait are looked at; suspects are rare.
        """
        busy = []
        empty: dict[object, Worker] = {}
        for worker in self._line:
            if worker.hand.size:
                busy.append(worker)
            elif len(empty) < len(self._ledger.suspects):
                empty.setdefault(worker.hand, worker)
        for worker in empty.values():
            self._line.call_one(worker)
        for worker in busy:
            if empty or not self._drain(worker):
                # Its hand cannot be empty soon, or need not be.
                worker.hand.watch(worker)

    def drain(self, worker: Worker) -> bool:
        """Returns whether the worker's hand drains from now on, and so the worker does not wait.

        It does if it has to: no other worker that waits has an empty hand.
        """
        if len(self.draining) >= self._most_draining:
            return False
        if not all(other.hand.size for other in self._line):
            return False
        return self._drain(worker)

    def _drain(self, worker: Worker) -> bool:
        if len(self.draining) >= self._most_draining or not worker.hand.can_drain:
            return False
        self._line.leave(worker)
        self.draining[worker] = None
        worker.hand.drain(worker)
        worker.hand.watch(worker)
        return True

    @property
    def _most_draining(self) -> int:
        """How many hands may drain: one for each suspect that waits.

        And one more for each second in which that did not help: those that drain may have a message
        that takes hours.
        """
        if not self.is_needed:
            return 0
        return len(self._ledger.suspects) + self._sweeps_in_vain

    def note_handed_out(self, worker: Worker) -> None:
        """Note that a worker got a suspect."""
        self._sweeps_in_vain = 0
        self.stop_draining(worker)

    def stop_draining(self, worker: Worker) -> None:
        """Let a worker's hand take more again, if it drains for that worker."""
        if worker in self.draining:
            del self.draining[worker]
            worker.hand.stop_draining()

    def trim(self) -> None:
        """Have no more hands drain than may: suspects have gone, or the name has stopped."""
        if not self.draining:
            return
        most = self._most_draining
        # All of them first: a hand that takes more again calls workers, and that comes back here.
        excess = []
        while len(self.draining) > most:
            newest, _ = self.draining.popitem()
            excess.append(newest)
        for worker in excess:
            worker.hand.stop_draining()

    def sweep(self) -> None:
        """Note that a second has passed."""
        if self.is_needed:
            self._sweeps_in_vain += 1
        else:
            self._sweeps_in_vain = 0
