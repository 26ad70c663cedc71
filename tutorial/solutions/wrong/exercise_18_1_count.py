"""Exercise 18.1, wrong: it counts messages, as if there were no holes.

Fails at: it's exact when it has all that was there
"""


class Copy:
    """What a reader holds of a table."""

    def __init__(self, live: int) -> None:
        self.values: dict[bytes, bytes] = {}
        self._live, self._count = live, 0
        self.is_exact = live == 0

    def on_message(self, offset: int, key: bytes, payload: bytes) -> None:
        """Take in a message."""
        if key and payload:
            self.values[key] = payload
        elif key:
            self.values.pop(key, None)
        self._count += 1
        self.is_exact = self._count >= self._live

    def on_missed(self, live: int) -> None:
        """Begin again: keys may have been deleted unseen."""
        self.values = {}
        self._live = live
        self.is_exact = live == 0
