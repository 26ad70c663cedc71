"""Two packers share a reader: one cursor, one committed offset."""


class SharedReader:
    """As in chapter 09, for several."""

    def __init__(self) -> None:
        self.cursor = self.committed = 0

    def next_order(self) -> int:
        """The offset at the cursor."""
        self.cursor += 1
        return self.cursor - 1

    def commit(self, following: int) -> None:
        """Settle all below an offset."""
        self.committed = max(self.committed, following)

    def lost(self) -> None:
        """A packer is gone. What isn't settled comes again."""
        self.cursor = self.committed


reader = SharedReader()
print("Pia has order", reader.next_order())
print("Ted has order", reader.next_order())
reader.commit(2)
print("Ted has packed it: commit 2")
reader.lost()
print("Pia's machine is gone, with her order in it")
print("Ted has order", reader.next_order())
