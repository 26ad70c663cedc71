"""The line of workers that wait for a message: the one that waits longest is called first.

    called                idle
    w3, w7                w1, w9, w4         a worker joins at the end
    (their turn comes)    (nothing for them)

As many are called as there are messages, no more: a message that comes must not wake a thousand
workers, of which one gets it (the thundering herd). A worker that was not called may take only what
is left over for it. So nobody can push in, and nobody waits for ever.

A call is answered when the worker's connection has its turn. One that is not read, because its
network is stuck, has none, and a message would wait for it. So a call that is not answered within
two sweeps, which are a second apart, is taken back, and the worker goes to the end of the line.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter

from zaichik.core.work_queue.worker import Worker

SWEEPS = 2  # in which a call is answered; the first may come right after the call


class Line:
    """Workers that have credit, and had nothing to take when they asked."""

    def __init__(self) -> None:
        # Each with its number in the line, which grows.
        self._idle: OrderedDict[Worker, int] = OrderedDict()
        # Each with its number, and the sweep before its call.
        self._called: OrderedDict[Worker, tuple[int, int]] = OrderedDict()
        self._last_number = 0
        self._sweeps = 0

    def __len__(self) -> int:
        """Returns how many workers wait, called or not."""
        return len(self._idle) + len(self._called)

    def __iter__(self) -> Iterator[Worker]:
        """Returns the workers, those that were called first."""
        return chain(self._called, self._idle)

    @property
    def idle(self) -> int:
        """How many wait and were not called."""
        return len(self._idle)

    @property
    def called(self) -> int:
        """How many were called and have not answered yet."""
        return len(self._called)

    def is_called(self, worker: Worker) -> bool:
        """Returns whether that worker was called."""
        return worker in self._called

    def join(self, worker: Worker) -> None:
        """Have a worker wait, at the end of the line; one that waits keeps its place."""
        if worker not in self._called and worker not in self._idle:
            self._last_number += 1
            self._idle[worker] = self._last_number

    def leave(self, worker: Worker) -> None:
        """Remove a worker, if it waits."""
        self._idle.pop(worker, None)
        self._called.pop(worker, None)

    def put_back(self, worker: Worker) -> None:
        """Have a worker wait that was called and found nothing; it gets its old place."""
        number, _ = self._called.pop(worker)
        self._idle[worker] = number
        self._idle.move_to_end(worker, last=False)
        # Usually it has waited longest. If another one has, which found nothing either, then all
        # are put in order.
        if len(self._idle) > 1:
            _, next_number = next(islice(self._idle.items(), 1, 2))
            if next_number < number:
                self._idle = OrderedDict(sorted(self._idle.items(), key=itemgetter(1)))

    def call(self, count: int) -> None:
        """Call those that wait longest, until so many are called."""
        while self._idle and len(self._called) < count:
            self.call_one(next(iter(self._idle)))

    def call_one(self, worker: Worker) -> None:
        """Call that worker, which waits, unless it was called."""
        number = self._idle.pop(worker, None)
        if number is not None:
            self._called[worker] = number, self._sweeps
            worker.on_call()

    def sweep(self) -> None:
        """Take back the calls that were not answered in time. Called once a second."""
        self._sweeps += 1
        while self._called:
            worker, (_, called_at) = next(iter(self._called.items()))
            if self._sweeps - called_at < SWEEPS:
                break
            self.leave(worker)
            self.join(worker)
