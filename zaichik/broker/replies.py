"""The replies of one connection, in the order of its requests.

A queued reply is bytes, or a slot: a placeholder for a reply that is not known yet: one that waits for a disk, say.
The replies after a slot wait for it, so the order holds without a task that waits.
"""

from collections import deque
from collections.abc import Callable

from zaichik_protocol import Frame, encode


class Slot:
    """A placeholder for a reply that is not known yet."""

    def __init__(self, replies: "Replies") -> None:
        self._replies = replies

    def fill(self, reply: Frame) -> None:
        """Replace the slot by its reply, which is sent after those before it. Does nothing after `Replies.clear`."""
        self._replies.fill(self, reply)


class Replies:
    """The queue of replies to send.

    Args:
        on_output: called whenever `take` may return something.

    Attributes:
        bytes: size of the replies in the queue; slots count as nothing.
        waiting: replies and slots.
    """

    def __init__(self, on_output: Callable[[], None]) -> None:
        self._on_output = on_output
        self.bytes = 0
        self.waiting: deque[bytes | Slot] = deque()

    def add(self, reply: Frame) -> None:
        """Queue a reply after all others."""
        data = encode(reply)
        self.waiting.append(data)
        self.bytes += len(data)
        self._on_output()

    def reserve(self) -> Slot:
        """Returns a new slot, queued after all others."""
        slot = Slot(self)
        self.waiting.append(slot)
        return slot

    def fill(self, slot: Slot, reply: Frame) -> None:
        """Put a reply in its slot, if the slot is still queued."""
        if slot in self.waiting:
            data = encode(reply)
            self.waiting[self.waiting.index(slot)] = data
            self.bytes += len(data)
            self._on_output()

    @property
    def is_blocked(self) -> bool:
        """Whether the queue begins with a slot."""
        return bool(self.waiting) and isinstance(self.waiting[0], Slot)

    def take(self) -> list[bytes]:
        """Removes and returns the replies before the first slot."""
        taken: list[bytes] = []
        while self.waiting and not isinstance(reply := self.waiting[0], Slot):
            taken.append(reply)
            self.waiting.popleft()
        self.bytes -= sum(map(len, taken))
        return taken

    def drop_slots(self) -> None:
        """Drop the replies that are not known and never will be."""
        self.waiting = deque(reply for reply in self.waiting if not isinstance(reply, Slot))

    def clear(self) -> None:
        """Drop all replies and slots: the peer is gone."""
        self.waiting.clear()
        self.bytes = 0
