"""What a table will hold when everything that waits for the disk has been written.

    kept     a=1 b=2 c=3                     on the disk: readers are sent it
    waits          b=4 │ a=(deleted) d=5     accepted, and not answered yet
    ahead    b=4 c=3 d=5                     what the next batch is judged by

A batch is judged when it is accepted, so that a refusal needs no disk, and it is judged by its
result (TAB-1). So the batches before it count, although nobody has been sent them.

What counts is a sum: what is kept, and for each key that waits, its newest message less the one
that is still kept. A message that is kept may expire meanwhile: then there is nothing to be taken
off. If the disk has no room, all of it is forgotten at once, and nothing else is to be undone.
"""

from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple

from zaichik.core.tables.keep_last import ROW, Change, KeepLast


class Counted(NamedTuple):
    """A message, as limits count it.

    Attributes:
        offset: its offset; -1 if there is none.
        messages: 1; 0 if it is a tombstone, or none.
        size: what it takes; 0 if it does not count.
    """

    offset: int
    messages: int
    size: int


NONE = Counted(-1, 0, 0)


class WaitingBatch(NamedTuple):
    """A batch that waits.

    Attributes:
        newest: of each key in it, the last message.
        keyless: how many messages have no key.
        keyless_bytes: what these take.
    """

    newest: dict[bytes, Counted]
    keyless: int
    keyless_bytes: int


class Ahead:
    """See above.

    Args:
        kept: what can be read.
        expires: whether messages do.

    Attributes:
        messages, size, keyless: those of `kept` when all that waits is written.
    """

    def __init__(self, kept: KeepLast, *, expires: bool) -> None:
        self._kept = kept
        self._expires = expires
        self._batches: deque[WaitingBatch] = deque()
        # Of each key that waits: its newest message, and the one that is kept.
        self._newest: dict[bytes, Counted] = {}
        self._replaced: dict[bytes, Counted] = {}
        # Of those that are kept, if they expire: the offset and the key, the lowest offset first.
        self._expiring: list[tuple[int, bytes]] = []
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
        if not self._batches:
            return change
        messages = change.messages + self._messages
        size = change.size + self._size
        for key in change.last.keys() & self._newest.keys():
            # What waits has superseded the one that is kept already, and is superseded now.
            newest = self._newest[key]
            replaced = self._replaced[key]
            messages += replaced.messages - newest.messages
            size += replaced.size - newest.size
        return change._replace(messages=messages, size=size)

    def add(self, change: Change, base: int) -> None:
        """Add a batch that was judged here, and accepted.

        Args:
            change: what it will change.
            base: the offset of its first message.
        """
        newest: dict[bytes, Counted] = {}
        keys = change.key_ends
        payloads = change.payload_ends
        for key, index in change.last.items():
            size = payloads[index + 1] - payloads[index]
            messages = 0
            if size:
                messages = 1
                size += len(key) + ROW
            newest[key] = Counted(base + index, messages, size)
        keyless_bytes = 0
        if change.keyless:
            for index in range(change.batch.count):
                if keys[index] == keys[index + 1]:
                    keyless_bytes += payloads[index + 1] - payloads[index] + ROW
        self._batches.append(WaitingBatch(newest, change.keyless, keyless_bytes))
        self._count_keyless(change.keyless, keyless_bytes)
        for key, message in newest.items():
            before = self._newest.get(key)
            if before is None:
                self._replace(key, self._of_kept(key))
            else:
                self._count(before, -1)
            self._newest[key] = message
            self._count(message, 1)

    def take_synced(self) -> int:
        """Forget the oldest batch, which is about to be kept. Returns how many keys it has."""
        done = self._batches.popleft()
        self._count_keyless(-done.keyless, -done.keyless_bytes)
        for key, message in done.newest.items():
            self._count(self._replaced.pop(key), 1)
            if self._newest[key].offset == message.offset:
                del self._newest[key]
                self._count(message, -1)
            else:
                # A later one waits, and this is what it will supersede.
                self._replace(key, message)
        return len(done.newest)

    def take_all_back(self) -> None:
        """Forget all that waits: it was refused."""
        self._batches.clear()
        self._newest.clear()
        self._replaced.clear()
        self._expiring.clear()
        self._messages = 0
        self._size = 0
        self._keyless = 0

    def expire_below(self, offset: int) -> None:
        """Note that what is kept below that offset has expired: nothing waits to supersede it."""
        expiring = self._expiring
        while expiring and expiring[0][0] < offset:
            at, key = heappop(expiring)
            replaced = self._replaced.get(key, NONE)
            if replaced.offset == at:
                self._count(replaced, 1)
                self._replaced[key] = NONE

    def _of_kept(self, key: bytes) -> Counted:
        size = self._kept.size_of(key)
        if not size:
            return NONE
        return Counted(self._kept.offset_of(key), 1, size)

    def _replace(self, key: bytes, message: Counted) -> None:
        """Note that what waits for a key will supersede that message."""
        self._replaced[key] = message
        self._count(message, -1)
        if self._expires and message.messages:
            heappush(self._expiring, (message.offset, key))

    def _count(self, message: Counted, sign: int) -> None:
        self._messages += sign * message.messages
        self._size += sign * message.size

    def _count_keyless(self, messages: int, size: int) -> None:
        self._keyless += messages
        self._messages += messages
        self._size += size
