"""Topics: rows of messages, and who reads them."""

import anyio
from batches import Message
from clock import now_us
from errors import INVALID_FIELD, require, require_text

CAPACITY = 10_000  # the most messages that a row keeps


class Topic:
    """One topic: a row of messages, which leave only at the front.

    A message's offset is the number it got when it came. It stays, however
    many go before it: the row's first message has the offset `head`.
    """

    def __init__(self) -> None:
        self.epoch = now_us()  # tells it from later ones of its name
        self.row: list[tuple[int, bytes, bytes]] = []  # time, key, payload
        self.next_offset = 0
        self.readers = 0
        self.news = anyio.Event()  # set as soon as the row has grown

    @property
    def head(self) -> int:
        """The offset of the oldest message that is still there."""
        return self.next_offset - len(self.row)

    def publish(self, batch: list[Message], now: int) -> int:
        """Put a batch into the row. Returns the first message's offset."""
        first = self.next_offset
        self.next_offset += len(batch)
        self.row += [(now, key, payload) for key, payload in batch]
        del self.row[:-CAPACITY]  # all but the newest
        self.news.set()
        self.news = anyio.Event()
        return first


class Topics(dict[bytes, Topic]):
    """All topics, by their names."""

    def find(self, name: bytes) -> Topic:
        """The topic of that name; a new one, if there is none."""
        require(name, INVALID_FIELD, "topic", "a topic needs a name")
        require_text(name, "topic")
        return self.setdefault(name, Topic())
