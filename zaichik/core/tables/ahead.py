"""What a table will hold when everything that waits for the disk has been written.

    kept     a=1 b=2 c=3                     on the disk: readers are sent it
    waits          b=4 │ a=(deleted) d=5     accepted, and not answered yet
    ahead    b=4 c=3 d=5                     what the next batch is judged by

A batch is judged when it is accepted, so that a refusal needs no disk, and it is judged by its
result (TAB-1). So the batches before it count, although nobody has been sent them. Each is judged
twice, here and when it is stored: between the two, messages may expire.

Of each batch, only its difference is remembered. Where something of it has expired meanwhile that
it would have superseded, the difference is corrected. If the disk has no room, all differences are
forgotten at once, and nothing else is to be undone.
"""

from collections import deque
from typing import NamedTuple

from zaichik.core.tables.keep_last import ROW, Change, KeepLast


class Newest(NamedTuple):
    """The newest message of a key that waits.

    Attributes:
        offset: its offset.
        messages, size: 1, and what it takes; 0 if it is a tombstone, which does not count.
    """

    offset: int
    messages: int
    size: int


class Difference:
    """What one batch that waits will change.

    Attributes:
        keys: those of its messages that no later one in it supersedes.
        messages, size, keyless: how many more can be read after it than before it, and what they
            take; see `KeepLast`.
        replaced: the messages that it supersedes and that can still be read: their offsets, in
            order, and what they take.
    """

    def __init__(self, keys: dict[bytes, int], keyless: int) -> None:
        self.keys = keys
        self.messages = 0
        self.size = 0
        self.keyless = keyless
        self.replaced: deque[tuple[int, int]] = deque()


class Ahead:
    """See above.

    Args:
        kept: what can be read.
        expires: whether messages do. If not, nothing is remembered for that.

    Attributes:
        messages, size, keyless: those of `kept` when all that waits is written.
    """

    def __init__(self, kept: KeepLast, *, expires: bool) -> None:
        self._kept = kept
        self._expires = expires
        self._differences: deque[Difference] = deque()
        self._newest: dict[bytes, Newest] = {}
        self._messages = 0
        self._size = 0
        self._keyless = 0

    @property
    def messages(self) -> int:
        """See above."""
        return self._kept.messages + self._messages

    @property
    def size(self) -> int:
        """See above."""
        return self._kept.size + self._size

    @property
    def keyless(self) -> int:
        """See above."""
        return self._kept.keyless + self._keyless

    def judge(self, change: Change) -> Change:
        """Returns what a batch would change, after all that waits.

        Args:
            change: what it would change if nothing waited.
        """
        if not self._differences:
            return change
        messages = change.messages + self._messages
        size = change.size + self._size
        for key in change.last.keys() & self._newest.keys():
            # What waits has superseded the message that can still be read, and is superseded now.
            newest = self._newest[key]
            messages -= newest.messages
            size -= newest.size
            its_size = self._kept.size_of(key)
            if its_size:
                messages += 1
                size += its_size
        return change._replace(messages=messages, size=size)

    def add(self, change: Change, base: int) -> None:
        """Add a batch that was judged here, and accepted.

        Args:
            change: what it will change.
            base: the offset of its first message.
        """
        difference = Difference(change.last, change.keyless)
        difference.messages = change.messages - self.messages
        difference.size = change.size - self.size
        if self._expires:
            difference.replaced = self._replaced(change)
        self._differences.append(difference)
        self._count(difference, 1)
        keys = change.key_ends
        payloads = change.payload_ends
        for key, index in change.last.items():
            size = payloads[index + 1] - payloads[index]
            messages = 0
            if size:
                messages = 1
                size += keys[index + 1] - keys[index] + ROW
            self._newest[key] = Newest(base + index, messages, size)

    def _replaced(self, change: Change) -> deque[tuple[int, int]]:
        """Returns what a batch supersedes that can be read, and that nothing before it does."""
        kept = self._kept
        replaced: list[tuple[int, int]] = []
        for offset, (_, _, size) in zip(change.replaced, change.rows, strict=True):
            is_counted = offset not in kept.tombstones
            if is_counted and kept.key_at(offset) not in self._newest:
                replaced.append((offset, size))
        replaced.sort()
        return deque(replaced)

    def take_synced(self, base: int) -> int:
        """Forget the oldest batch, whose first message has that offset: it is about to be kept.

        Returns how many keys it has.
        """
        done = self._differences.popleft()
        self._count(done, -1)
        newest = self._newest
        for key, index in done.keys.items():
            if newest[key].offset == base + index:
                del newest[key]
        return len(done.keys)

    def take_all_back(self) -> None:
        """Forget all that waits: it was refused."""
        self._differences.clear()
        self._newest.clear()
        self._messages = 0
        self._size = 0
        self._keyless = 0

    def expire_below(self, offset: int) -> None:
        """Note that what could be read below that offset has expired.

        What waits will not supersede it any more.
        """
        for difference in self._differences:
            replaced = difference.replaced
            while replaced and replaced[0][0] < offset:
                _, size = replaced.popleft()
                difference.messages += 1
                difference.size += size
                self._messages += 1
                self._size += size

    def _count(self, difference: Difference, sign: int) -> None:
        self._messages += sign * difference.messages
        self._size += sign * difference.size
        self._keyless += sign * difference.keyless
