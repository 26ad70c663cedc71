"""One filter of a reader, and all filters of all readers: a message costs its matches (MQ-0)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from zaichik.apps.mqtt.filters import FilterTree

if TYPE_CHECKING:
    from zaichik.apps.mqtt.tail import Entry

# Readers of topics that are remembered, in all topics. What is beyond that is looked up in the tree
# again. A topic counts, too: its name takes as much memory as some readers.
MOST_REMEMBERED = 100_000
OF_A_TOPIC = 10


class Reader(Protocol):
    """Who has filters: a session, or a group that shares its messages."""

    def offer(self, entry: "Entry", subscriptions: "list[Subscription]") -> None:
        """Take a message that has just come, or remember where to go on (G-4)."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One filter.

    It is changed in place when a client subscribes again: messages that wait refer to it.

    Attributes:
        reader: whose filter it is.
        filter: as the client has sent it, with `$share/NAME/` if it is shared.
        qos: the most that the client wants.
        no_local: whether what the session itself has published is left out.
        retain_as_published: whether the retain flag of live messages is kept.
        identifier: the client's number for it, which comes with each message; 0: none.
        starts: by the broker's topic, the offset from which on it counts; only those are here
            that the client may read, and the filter can match.
        is_active: whether the client still has it.
    """

    reader: Reader
    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    starts: dict[str, int] = field(default_factory=dict)
    is_active: bool = True

    def wants(self, entry: "Entry") -> bool:
        """Returns whether a message that its filter matches is for it."""
        start = self.starts.get(entry.space)
        return self.is_active and start is not None and entry.offset >= start


class Subscriptions:
    """The filters of all readers, and who wants a message of some topic."""

    def __init__(self) -> None:
        self._tree: FilterTree[Subscription] = FilterTree()
        self._remembered: dict[str, dict[Reader, list[Subscription]]] = {}
        self._count = 0

    def add(self, topic_filter: str, subscription: Subscription) -> None:
        """Add one.

        Args:
            topic_filter: the filter, without `$share/NAME/`.
            subscription: what is found by it.
        """
        self._tree.add(topic_filter, subscription)
        self._forget()

    def remove(self, topic_filter: str, subscription: Subscription) -> None:
        """Remove one; what waits for it already is not delivered any more."""
        subscription.is_active = False
        self._tree.remove(topic_filter, subscription)
        self._forget()

    def matching(self, topic: str) -> dict[Reader, list[Subscription]]:
        """Returns, for each reader with filters that match, these. It must not be changed."""
        found = self._remembered.get(topic)
        if found is None:
            found = {}
            for subscription in self._tree.match(topic):
                found.setdefault(subscription.reader, []).append(subscription)
            count = OF_A_TOPIC + len(found)
            if self._count + count > MOST_REMEMBERED:
                self._forget()
            self._count += count
            self._remembered[topic] = found
        return found

    def _forget(self) -> None:
        self._remembered.clear()
        self._count = 0
