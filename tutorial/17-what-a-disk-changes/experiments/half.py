"""The plug is pulled while an order is written: nobody acknowledged it.

Run it after "Type: sync".
"""

from experiments.plug import SECTOR, Disk
from tiny_log import Log


class Pulled(Disk):
    """A disk whose plug is pulled instead of the second sync."""

    syncs = 0

    def sync(self) -> None:
        """Sync, or pull."""
        self.syncs += 1
        super().sync() if self.syncs == 1 else self.pull_the_plug()


disk = Pulled()
log = Log(disk)
log.write(b"two apples")
log.write(b"two apples, and then some. " * 100)
for body in Log(disk).bodies:
    holes = body.count(bytes(SECTOR))
    print(f"{body[:12].decode()}... {len(body):4} bytes,",
          "sectors of zeros:", holes)  # fmt: skip
