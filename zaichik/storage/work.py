"""The queue of disk work: which logs have something to write, and what has to be read.

Nothing here blocks, and nothing here knows of threads: an owner of threads takes the work from the
queue (`DiskThreads` of the server; tests and simulations do it themselves). A log is in the queue
once, however much it has to write, and is not in it while a thread writes for it: so its groups are
written one after the other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zaichik.storage.topic_log import TopicLog

Completion = Callable[[], None]


class DiskWork:
    """See above.

    Args:
        on_removed: called with a log whose deletion is complete.

    Attributes:
        on_write, on_read: called when there is something to write, or to read.
    """

    def __init__(self, on_removed: Callable[[TopicLog], None]) -> None:
        self._on_removed = on_removed
        self.on_write: Callable[[], None] = _nobody_waits
        self.on_read: Callable[[], None] = _nobody_waits
        self._writes: OrderedDict[TopicLog, None] = OrderedDict()
        self._busy: set[TopicLog] = set()  # the logs that threads write for
        self._reads: OrderedDict[object, Callable[[], Completion]] = OrderedDict()

    # -- what logs ask for -------------------------------------------------------------------------

    def write(self, log: TopicLog) -> None:
        """Have `log.gather()` called soon, a thread do what it returns, and its result called."""
        # A log that is being written for is asked afterwards whether it has more.
        if log not in self._busy:
            self._writes[log] = None
            self.on_write()

    def read(self, waiter: object, read: Callable[[], Completion]) -> None:
        """Have a thread call `read`, then call what it returned.

        Does nothing if the waiter waits already.
        """
        self._reads.setdefault(waiter, read)
        self.on_read()

    # -- what an owner of threads does -------------------------------------------------------------

    @property
    def has_writes(self) -> bool:
        """Whether a log waits for a thread."""
        return bool(self._writes)

    @property
    def has_reads(self) -> bool:
        """Whether a reader waits for a thread."""
        return bool(self._reads)

    @property
    def is_written(self) -> bool:
        """Whether there is nothing to write, and nothing is being written."""
        return not self._busy and not self._writes

    def take_write(self) -> TopicLog:
        """Returns the log that has waited longest; call `finish_write` when its work is done."""
        log, _ = self._writes.popitem(last=False)
        self._busy.add(log)
        return log

    def finish_write(self, log: TopicLog) -> None:
        """Note that a log's work is done: what it has gathered meanwhile goes into the queue."""
        self._busy.remove(log)
        if log.has_work:
            self.write(log)
        elif log.is_deleted:
            self._on_removed(log)

    def take_read(self) -> Callable[[], Completion]:
        """Returns what a thread is to call for the reader that has waited longest."""
        _, read = self._reads.popitem(last=False)
        return read


def _nobody_waits() -> None:
    """Stands for a callback until there are threads."""
