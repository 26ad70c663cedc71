"""The replies of one conversation, in the order of its requests.

A reply is bytes, or a slot: the place of one that is not known yet, because it waits for a disk, say. What comes after
a slot waits for it, so the order holds without a task that waits.
"""

from collections import deque
from collections.abc import Callable

from zaichik_protocol import Frame, encode


class Slot:
    """The place of a reply that is not known yet."""

    def __init__(self, replies: "Replies") -> None:
        self._replies = replies

    def fill(self, reply: Frame) -> None:
        """The reply is known: it is sent when what was before it is sent. Nothing happens if it is wanted no more."""
        self._replies.fill(self, reply)


class Replies:
    """Those that wait to be sent.

    Args:
        on_output: called whenever `take` may return something.

    Attributes:
        bytes: of all that are known.
        waiting: replies and slots.
    """

    def __init__(self, on_output: Callable[[], None]) -> None:
        self._on_output = on_output
        self.bytes = 0
        self.waiting: deque[bytes | Slot] = deque()

    def add(self, reply: Frame) -> None:
        """Have a reply sent after all others."""
        data = encode(reply)
        self.waiting.append(data)
        self.bytes += len(data)
        self._on_output()

    def reserve(self) -> Slot:
        """Returns a place after all others."""
        slot = Slot(self)
        self.waiting.append(slot)
        return slot

    def fill(self, slot: Slot, reply: Frame) -> None:
        """Put the reply in its place, if the place is still there."""
        if slot in self.waiting:
            data = encode(reply)
            self.waiting[self.waiting.index(slot)] = data
            self.bytes += len(data)
            self._on_output()

    @property
    def is_blocked(self) -> bool:
        """Whether the next reply is not known yet."""
        return bool(self.waiting) and isinstance(self.waiting[0], Slot)

    def take(self) -> list[bytes]:
        """Returns the replies up to the first that is not known yet. They wait no more."""
        taken: list[bytes] = []
        while self.waiting and not isinstance(reply := self.waiting[0], Slot):
            taken.append(reply)
            self.waiting.popleft()
        self.bytes -= sum(map(len, taken))
        return taken

    def clear(self) -> None:
        """Forget all of them: there is nobody to hear them."""
        self.waiting.clear()
        self.bytes = 0
