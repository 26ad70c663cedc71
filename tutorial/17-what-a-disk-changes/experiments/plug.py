"""A disk in memory, with a plug to pull. It forgets as a real one does."""

import random

SECTOR = 512  # bytes: what a disk writes at once, or not at all


class Disk:
    """One file.

    `seen` is what programs read: the system has it in memory. `kept` is what
    is on the disk.
    """

    def __init__(self, seed: int = 7) -> None:
        self.seen = self.kept = b""
        self._random = random.Random(seed)

    def read(self) -> bytes:
        """All that's in it, as far as programs know."""
        return self.seen

    def write(self, at: int, data: bytes) -> None:
        """Put these bytes there; in memory, for now."""
        before = self.seen[:at].ljust(at, b"\0")
        self.seen = before + data + self.seen[at + len(data) :]

    def sync(self) -> None:
        """What's in memory is on the disk now."""
        self.kept = self.seen

    def cut(self, at: int) -> None:
        """Let the file end there, on the disk, too."""
        self.seen = self.kept = self.seen[:at]

    def pull_the_plug(self) -> None:
        """Some sectors were written already, in any order; others not.

        The file has its new length: where nothing came, there are zeros.
        """
        sectors = []
        for at in range(0, len(self.seen), SECTOR):
            new = self.seen[at : at + SECTOR]
            old = self.kept[at : at + SECTOR].ljust(len(new), b"\0")
            sectors.append(new if self._random.random() < 0.5 else old)
        self.seen = self.kept = b"".join(sectors)
