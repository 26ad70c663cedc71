"""Exercise 18.1, wrong: what it holds is kept, and only looks new.

Fails at: after DeletionsMissed it begins again
"""


class Copy:
    """What a reader holds of a table."""

    def __init__(self, live: int) -> None:
        self.values: dict[bytes, bytes] = {}
        self._live = live
        self.is_exact = live == 0

    def on_message(self, offset: int, key: bytes, payload: bytes) -> None:
        """Take in a message."""
        if key and payload:
            self.values[key] = payload
        elif key:
            self.values.pop(key, None)
        if offset >= self._live - 1:
            self.is_exact = True

    def on_missed(self, live: int) -> None:
        """Begin again: keys may have been deleted unseen."""
        self._live = live
        self.is_exact = live == 0
