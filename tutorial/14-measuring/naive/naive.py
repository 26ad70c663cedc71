"""A topic that is too simple to be wrong: it never forgets a thing."""

CAPACITY, TTL_US, WINDOW_US = 2, 2000, 2000


class Naive:
    """One topic: the list of all messages that it ever stored."""

    def __init__(self) -> None:
        self.all: list[tuple[int, bytes]] = []  # when it came, its key

    def publish(self, key: bytes, now: int) -> bool:
        """Whether a message of this key is stored, and not dropped."""
        opened = [came for came, other in self.all if key and other == key]
        if opened and now < opened[-1] + WINDOW_US:
            return False
        self.all.append((now, key))
        return True

    def gone(self, now: int) -> int:
        """How many messages can't be read any more: the oldest."""
        expired = [came for came, _ in self.all if now >= came + TTL_US]
        return max(len(expired), len(self.all) - CAPACITY)
