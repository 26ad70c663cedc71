"""Topics: which number does the next message get?"""

from clock import now_us
from errors import INVALID_FIELD, require, require_text


class Topic:
    """One topic. It keeps no messages: it only numbers them."""

    def __init__(self) -> None:
        self.epoch = now_us()  # tells it from later ones of its name
        self.next_offset = 0


class Topics(dict[bytes, Topic]):
    """All topics, by their names."""

    def find(self, name: bytes) -> Topic:
        """The topic of that name; a new one, if there is none."""
        require(name, INVALID_FIELD, "topic", "a topic needs a name")
        require_text(name, "topic")
        return self.setdefault(name, Topic())
