"""Order by key: of each key, one open message may go to workers; the others wait for it (SHR-8).

    key a    5 (held, or waits for its time)  ◀── 8 ◀── 9
    key b    7 (ready)

A heap for each key, because a message that is revived comes between those that wait.
"""

from heapq import heappop, heappush

from zaichik.core.work_queue.message import OpenMessage


class KeyOrder:
    """The open messages of each key: which is first, and which wait for it."""

    def __init__(self) -> None:
        # Of each key that has an open message, those that wait for that one.
        self._behind: dict[bytes, list[tuple[int, OpenMessage]]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        """Returns how many messages wait for others of their key."""
        return self._waiting

    def enter(self, message: OpenMessage) -> bool:
        """Returns whether the message is the first open one of its key; else it waits here."""
        behind = self._behind.get(message.key)
        if behind is None:
            self._behind[message.key] = []
            return True
        heappush(behind, (message.offset, message))
        self._waiting += 1
        return False

    def leave(self, key: bytes) -> OpenMessage | None:
        """Returns the next message of the key, after the first one was settled; None if no more."""
        behind = self._behind[key]
        if not behind:
            del self._behind[key]
            return None
        _, message = heappop(behind)
        self._waiting -= 1
        return message

    def busiest(self) -> tuple[bytes, int]:
        """Returns the key for which most messages wait, and how many; for a report, so O(n)."""
        busiest = b""
        most = 0
        for key, behind in self._behind.items():
            if len(behind) > most:
                busiest = key
                most = len(behind)
        return busiest, most
