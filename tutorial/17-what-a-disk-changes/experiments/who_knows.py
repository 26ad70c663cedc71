"""A group of five orders can't be synced: who is told?

Run it after "Type: group commit".
"""

import errno
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from experiments.plug import Disk
from tiny_log import Log


class Failing(Disk):
    """The first sync takes until the others have come. The second fails."""

    syncs, go_on = 0, Event()

    def sync(self) -> None:
        """Wait, fail."""
        self.syncs += 1
        self.go_on.wait(10)
        if self.syncs == 2:
            raise OSError(errno.EIO, "Input/output error")


disk = Failing()
log = Log(disk)
with ThreadPoolExecutor(6) as threads:
    threads.submit(log.append, b"one apple")
    while disk.syncs == 0:
        time.sleep(0.001)
    orders = [threads.submit(log.append, b"two apples") for _ in range(5)]
    while len(log._next[0]) < 5:  # noqa: SLF001 (we look whether all wait)
        time.sleep(0.001)
    disk.go_on.set()
told = sum(order.exception() is not None for order in orders)
print("told of the failure:", told)
print("acknowledged, and not on the disk:", 5 - told)
