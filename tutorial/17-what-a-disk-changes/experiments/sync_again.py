"""A sync fails the way Linux reports it, and the program syncs again.

Run it after "Type: group commit".
"""

import errno

from experiments.plug import Disk
from tiny_log import Log


class Failing(Disk):
    """The third sync fails: some of the data can't be written.

    Linux then says so, once, and counts the data as written. So programs
    still read it, and the next sync has nothing left to do, and succeeds.
    """

    syncs, believed = 0, 0

    def sync(self) -> None:
        """Write what hasn't been written, as far as the system knows."""
        self.syncs += 1
        if self.syncs != 3:
            new = self.seen[self.believed :]
            self.kept = self.kept.ljust(self.believed, b"\0") + new
        self.believed = len(self.seen)
        if self.syncs == 3:
            raise OSError(errno.EIO, "Input/output error")


class Stubborn(Failing):
    """Does not take no for an answer."""

    def sync(self) -> None:
        """Try twice."""
        try:
            super().sync()
        except OSError as error:
            print(f"  {error}; sync again")
            super().sync()


disk = Stubborn()
log = Log(disk)
for body in (b"one apple", b"two apples", b"three apples", b"four apples"):
    log.write(body)
    print(f"{body.decode()}: acknowledged")
disk.seen = disk.kept  # the plug
print("there:", ", ".join(body.decode() for body in Log(disk).bodies))
