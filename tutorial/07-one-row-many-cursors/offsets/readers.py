"""Readers: each walks along its topic's row at a pace of its own."""

from typing import Any

from batches import encode_batch
from construct import Container
from layouts import MESSAGES, MESSAGES_TYPE, encode
from topics import Topic


class Reader:
    """One subscription. Its `cursor` is the offset of its next message."""

    def __init__(self, topic: Topic, wanted: Container[Any]) -> None:
        self.topic, self.id = topic, wanted.id
        self.cursor = topic.next_offset

    def next_event(self) -> bytes | None:
        """The next message as a frame; None if there is no more yet."""
        if self.cursor == self.topic.next_offset:
            return None
        self.cursor = max(self.cursor, self.topic.head)  # some have gone
        place = self.cursor - self.topic.head
        accepted_us, key, payload = self.topic.row[place]
        batch = encode_batch([(key, payload)])
        event = {"base": self.cursor, "accepted_us": accepted_us}
        self.cursor += 1
        return encode(
            MESSAGES_TYPE, self.id, MESSAGES.build({**event, "batch": batch})
        )
