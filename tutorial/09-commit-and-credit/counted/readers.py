"""Readers: each walks along its topic's row at a pace of its own."""

from collections.abc import Callable
from typing import Any

from batches import encode_batch
from construct import Container
from layouts import MESSAGES, MESSAGES_TYPE, encode
from topics import Topic


class Reader:
    """One subscription. Its `cursor` is the offset of its next message.

    A topic calls `ring` when it has news.
    """

    def __init__(
        self, topic: Topic, wanted: Container[Any], ring: Callable[[], None]
    ) -> None:
        self.topic, self.id, self.ring = topic, wanted.id, ring
        self.cursor = topic.next_offset
        self.credit = wanted.credit
        topic.readers.append(self)

    def leave(self) -> None:
        """Read no more of this topic."""
        self.topic.readers.remove(self)

    def next_event(self) -> bytes | None:
        """The next message as a frame; None if there is no more yet."""
        if self.credit == 0 or self.cursor == self.topic.next_offset:
            return None
        self.credit -= 1
        self.cursor = max(self.cursor, self.topic.head)  # some have gone
        place = self.cursor - self.topic.head
        accepted_us, key, payload = self.topic.row[place]
        batch = encode_batch([(key, payload)])
        event = {"base": self.cursor, "accepted_us": accepted_us}
        self.cursor += 1
        return encode(
            MESSAGES_TYPE, self.id, MESSAGES.build({**event, "batch": batch})
        )

    def commit(self, following: int) -> int:
        """One message is done: the next one may come."""
        self.credit += 1
        return following
