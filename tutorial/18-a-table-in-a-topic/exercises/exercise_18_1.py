"""Exercise 18.1: a copy of a table.

A program reads a table, from the earliest message on, and keeps a copy of it. This is what it is told:

    Copy(live)                           Subscribed: `live` is the offset of the next message to be published
    copy.on_message(offset, key, payload)
    copy.on_missed(live)                 DeletionsMissed: it has begun again with the earliest message; `live` is new

The copy has two attributes: `values`, a dict from keys to payloads, and `is_exact`, whether it has everything that
was in the table when it began (or began again).
"""


class Copy:
    """What a reader holds of a table."""

    def __init__(self, live: int) -> None:
        raise NotImplementedError("this is yours to write")

    def on_message(self, offset: int, key: bytes, payload: bytes) -> None:
        """Take in a message."""
        raise NotImplementedError("this is yours to write")

    def on_missed(self, live: int) -> None:
        """Begin again: keys may have been deleted unseen."""
        raise NotImplementedError("this is yours to write")
