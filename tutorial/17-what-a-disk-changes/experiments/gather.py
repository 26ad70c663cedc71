"""Two hundred orders on a real disk: one after the other, and at once.

Run it after "Type: group commit".
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tiny_log import File, Log

ORDERS, AT_ONCE, SLOW_S = 200, 50, 0.002


class Counted(File):
    """A disk that counts its syncs, and takes 2 ms more for each.

    Some disks need that anyway. Others answer at once, or are no disks.
    """

    syncs = 0

    def sync(self) -> None:
        """Sync, slowly."""
        self.syncs += 1
        time.sleep(SLOW_S)
        super().sync()


def measure(name: str, publishers: int) -> float:
    """Show the syncs. Returns the seconds that all orders took."""
    path = Path("orders.log")
    path.unlink(missing_ok=True)
    disk = Counted(path)
    log, before = Log(disk), disk.syncs
    began = time.perf_counter()
    with ThreadPoolExecutor(publishers) as threads:
        list(threads.map(log.append, [b"two apples"] * ORDERS))
    took = time.perf_counter() - began
    syncs = disk.syncs - before
    assert Log(File(path)).bodies == [b"two apples"] * ORDERS
    print(f"{name}: {ORDERS / syncs:.0f} order(s) a sync")
    return took


alone = measure("one after the other", 1)
together = measure("fifty at once", AT_ONCE)
print(f"fifty at once are {alone / together:.0f} times as fast")
