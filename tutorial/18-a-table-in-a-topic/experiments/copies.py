"""A reader that keeps a copy of a table, to look prices up in it."""

from types import SimpleNamespace as Wanted

from readers import Reader
from settings import FOREVER
from topics import Topic

from zaichik.learn import wire

WANTED = Wanted(
    id=1, credit=1_000_000, credit_bytes=1_000_000_000, start=0, value=0,
    until=FOREVER,
)  # fmt: skip


class Copy(dict[str, str]):
    """What a reader holds: prices by their fruit."""

    def __init__(self, topic: Topic) -> None:
        super().__init__()
        self.topic = topic
        self.reader = Reader(topic, WANTED, lambda: None)

    def read(self, now: int = 0) -> None:
        """Take in whatever comes."""
        while event := self.reader.next_event(now):
            frame = wire.parse(event)
            if frame.name == "DeletionsMissed":  # begin again
                self.clear()
                self.reader = Reader(self.topic, WANTED, lambda: None)
            else:
                self._take(frame)

    def _take(self, frame: wire.Frame) -> None:
        for message in frame.messages:
            fruit, price = message.key.decode(), message.payload.decode()
            self.pop(fruit, None)
            if price:  # else it is a tombstone
                self[fruit] = price

    def __str__(self) -> str:
        return ", ".join(f"{fruit} {price}" for fruit, price in self.items())
