"""Readers: each walks along its topic's row at a pace of its own."""

from typing import Any

from batches import encode_batch
from construct import Container
from layouts import MESSAGES, MESSAGES_TYPE, encode
from topics import Topic


class Reader:
    """One subscription. Its `cursor` is the place of its next message."""

    def __init__(self, topic: Topic, wanted: Container[Any]) -> None:
        self.topic, self.id = topic, wanted.id
        self.cursor = len(topic.row)

    def next_event(self) -> bytes | None:
        """The next message as a frame; None if there is no more yet."""
        if self.cursor == len(self.topic.row):
            return None
        accepted_us, key, payload = self.topic.row[self.cursor]
        batch = encode_batch([(key, payload)])
        event = {"base": self.cursor, "accepted_us": accepted_us}
        self.cursor += 1
        return encode(
            MESSAGES_TYPE, self.id, MESSAGES.build({**event, "batch": batch})
        )
