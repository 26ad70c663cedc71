"""The last messages of a topic, kept once for all readers, each of whom has a place in them (MQ-0).

    evicted      first                     place                      next
    ──────────────┬──────────────────────────┬──────────────────────────┬───▶ numbers
                  │ kept, for whoever is     │ not sent to this reader  │ still to come
                  │ behind                   │                          │

What no filter matches is not kept. So entries have numbers of their own besides the offsets of
their messages: a reader steps from number to number, and what lies between two entries is nothing
to anybody.

The tail is bounded in bytes. A reader whose place was evicted has a subscription of its own, until
it has caught up (`straggler`).
"""

from dataclasses import dataclass, field

from zaichik.apps.mqtt.packets import PublishTemplate, Version
from zaichik.apps.mqtt.subscription import Reader, Subscription

MOST_BYTES = 16 * 1024 * 1024
# Of an entry, besides what its message has: the objects that hold it, about.
OVERHEAD = 400
# The number of a place that is not in the tail, but in the broker.
NOT_IN_TAIL = -1


@dataclass(slots=True, eq=False)
class Entry:
    """One message that somebody may want.

    Attributes:
        space: the broker's topic that has it.
        offset: its offset there.
        timestamp: when the broker accepted it, in seconds since 1970.
        topic: its MQTT topic.
        properties: those of version 5, encoded; b"" for none.
        payload: its payload.
        qos: the one it was published with; 2 if that is not known any more (MQ-4).
        retain: whether it was published to be retained.
        publisher: the session that has published it; "" if that is not known.
        readers: who wants it, and by which filters.
        number: its number in the tail; -1 if it is in none.
        templates: by the version of the protocol, what makes its packets.
        size: about how many bytes it takes here.
    """

    space: str
    offset: int
    timestamp: float
    topic: str
    properties: bytes
    payload: bytes
    qos: int
    retain: bool
    publisher: str
    readers: dict[Reader, list[Subscription]]
    number: int = -1
    templates: dict[Version, PublishTemplate] = field(default_factory=dict)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the bytes once."""
        self.size = len(self.topic) + len(self.properties) + len(self.payload) + OVERHEAD


@dataclass(slots=True)
class Place:
    """Where a reader goes on.

    Attributes:
        number: the first entry it was not given.
        offset: the offset of that entry's message, or less: the reader has everything below.
    """

    number: int
    offset: int


class Tail:
    """The entries of one topic.

    Args:
        space: the topic.
        end: the offset that is read next.
        most_bytes: the most that are kept.

    Attributes:
        space: see above.
        end: all messages below this offset were read.
        first: the number of the oldest entry that is kept.
        next: the number of the next entry.
    """

    def __init__(self, space: str, end: int = 0, most_bytes: int = MOST_BYTES) -> None:
        self.space = space
        self.end = end
        self.first = 0
        self.next = 0
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: dict[int, Entry] = {}

    def __getitem__(self, number: int) -> Entry:
        """Returns the entry of that number.

        Raises:
            KeyError: it was evicted, or is still to come.
        """
        return self._entries[number]

    def add(self, entry: Entry) -> None:
        """Add the next one, and evict the oldest if there are too many bytes."""
        entry.number = self.next
        self._entries[self.next] = entry
        self.next += 1
        self._bytes += entry.size
        # The newest one stays, however large: its readers are about to be given it.
        while self._bytes > self._most_bytes and self.first < self.next - 1:
            self._evict()

    def forget(self, number: int) -> None:
        """Evict the entries below that number, which every reader has been given."""
        while self.first < min(number, self.next):
            self._evict()

    def _evict(self) -> None:
        entry = self._entries.pop(self.first)
        self._bytes -= entry.size
        self.first += 1

    def has(self, place: Place) -> bool:
        """Returns whether a reader can go on from there."""
        return place.number >= self.first

    def offset_of_first(self) -> int:
        """Returns the offset of the oldest entry that is kept; the end if there is none."""
        if self.first == self.next:
            return self.end
        return self._entries[self.first].offset
