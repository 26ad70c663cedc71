"""Retained messages: the newest of each topic, in the table `mqtt/retained` (MQ-9, MQ-10).

The key of a row is the MQTT topic alone. The row is

    01 │ QoS u8 │ published u64, µs since 1970 │ size of properties u16 │ properties │ payload

In the key, properties would split a topic into several, and a deletion would miss them. The time
makes message expiry go on over restarts.

What the table has is in memory as well, because a filter may match any of it.
"""

import heapq
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from zaichik.apps.mqtt import forwarding
from zaichik.apps.mqtt.filters import FilterTree
from zaichik.apps.mqtt.spaces import RETAINED, Spaces
from zaichik.apps.mqtt.subscription import Subscription
from zaichik.apps.mqtt.tail import Entry

FORMAT = 1
HEADER = struct.Struct(">BBQH")
# Looking at so many takes about a millisecond. A client may ask with a thousand filters at once.
TOPICS_AT_ONCE = 1000
# Times of expiry of messages that were replaced since, besides one for each that is kept.
MOST_OUTDATED = 1000


class UnreadableRow(ValueError):
    """A row that is none, or one of a later version."""


@dataclass(frozen=True, slots=True)
class Row:
    """A retained message.

    Attributes:
        qos: the QoS that it was published with.
        published_us: when.
        properties: its properties, encoded; b"" for none.
        payload: its payload.
    """

    qos: int
    published_us: int
    properties: bytes
    payload: bytes

    def encoded(self) -> bytes:
        """Returns the row as it is stored."""
        header = HEADER.pack(FORMAT, self.qos, self.published_us, len(self.properties))
        return header + self.properties + self.payload

    @classmethod
    def of(cls, data: bytes) -> "Row":
        """Returns a row that was stored.

        Raises:
            UnreadableRow: it is none.
        """
        if len(data) <= HEADER.size:
            raise UnreadableRow("too short")
        number, qos, published_us, size = HEADER.unpack_from(data)
        if number != FORMAT or qos > 2:
            raise UnreadableRow(f"format {number}")
        end = HEADER.size + size
        if end > len(data):
            raise UnreadableRow("properties longer than the row")
        return cls(qos, published_us, data[HEADER.size : end], data[end:])


@dataclass(frozen=True, slots=True)
class _Kept:
    """A row, and its offset in the table: the higher one is the newer."""

    row: Row
    offset: int


class Retained:
    """The retained messages."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        # Of topics that were deleted: the offset of the deletion, as of `_Kept`.
        self._deleted: dict[str, int] = {}
        # When messages expire: times, topics, and which of their messages.
        self._expiring: list[tuple[int, str, int]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, topic: str) -> bool:
        return topic in self._kept

    def note(self, topic: str, row: Row | None, offset: int) -> None:
        """Note that the table has this row at that offset; None: it was deleted there.

        Answers may come in another order than the table has.
        """
        kept = self._kept.get(topic)
        newest = self._deleted.get(topic, -1)
        if kept is not None:
            newest = max(newest, kept.offset)
        if offset <= newest:
            return
        if row is None:
            self._kept.pop(topic, None)
            self._deleted[topic] = offset
            return
        self._deleted.pop(topic, None)
        self._kept[topic] = _Kept(row, offset)
        seconds = forwarding.restored(row.properties).message_expiry_interval
        if seconds is not None:
            heapq.heappush(self._expiring, (row.published_us + seconds * 1_000_000, topic, offset))
            if len(self._expiring) > 2 * len(self._kept) + MOST_OUTDATED:
                self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Forget when messages would have expired that were replaced or deleted since.

        A topic may have another message each second, and each of them a day.
        """
        self._expiring = [
            (at_us, topic, offset)
            for at_us, topic, offset in self._expiring
            if topic in self._kept and self._kept[topic].offset == offset
        ]
        heapq.heapify(self._expiring)

    def expired(self, now_us: int) -> list[str]:
        """Returns the topics whose messages have expired since, each once."""
        found: list[str] = []
        while self._expiring and self._expiring[0][0] <= now_us:
            _, topic, offset = heapq.heappop(self._expiring)
            kept = self._kept.get(topic)
            if kept is not None and kept.offset == offset:
                found.append(topic)
        return found

    def has_expired(self, topic: str, now_us: int) -> bool:
        """Returns whether the message of a topic that had expired is still the one that is there.

        While others were being deleted, a newer one may have come.
        """
        kept = self._kept.get(topic)
        if kept is None:
            return False
        seconds = forwarding.restored(kept.row.properties).message_expiry_interval
        return seconds is not None and kept.row.published_us + seconds * 1_000_000 <= now_us

    def forget_deletions(self) -> None:
        """Forget what was deleted: whatever was on its way then has been noted by now."""
        self._deleted.clear()

    def matching(
        self, topic_filter: str, subscription: Subscription, spaces: Spaces
    ) -> Iterator[tuple[Entry, Subscription] | None]:
        """Yields the messages for a filter, each as it is when it is asked for (MQ-10).

        After `TOPICS_AT_ONCE` topics that were looked at, it yields None: others have their turn.

        Args:
            topic_filter: the filter.
            subscription: of the client, which has the topics of the broker that it may read.
            spaces: where MQTT's topics are.
        """
        for topic in self._topics(topic_filter):
            if topic is None:
                yield None
                continue
            kept = self._kept.get(topic)
            if kept is not None and spaces.space_of(topic) in subscription.starts:
                yield self._entry(topic, kept), subscription

    def newest(self, entry: Entry) -> Entry | None:
        """Returns the newest message of a message's topic, maybe itself; None if it was deleted."""
        kept = self._kept.get(entry.topic)
        if kept is None:
            return None
        if kept.offset == entry.offset:
            return entry
        return self._entry(entry.topic, kept)

    def _topics(self, topic_filter: str) -> Iterator[str | None]:
        """Yields the topics that a filter matches, of those that are there now; None: see above."""
        if "+" not in topic_filter and "#" not in topic_filter:
            yield topic_filter
            return
        tree: FilterTree[None] = FilterTree(remembered=0)
        tree.add(topic_filter, None)
        # Most topics are told by their beginning, for a tenth of the time.
        literal = re.split("[+#]", topic_filter)[0].rstrip("/")
        for number, topic in enumerate(list(self._kept), 1):
            if number % TOPICS_AT_ONCE == 0:
                yield None
            if topic.startswith(literal) and tree.match(topic):
                yield topic

    def _entry(self, topic: str, kept: _Kept) -> Entry:
        row = kept.row
        return Entry(
            space=RETAINED,
            offset=kept.offset,
            timestamp=row.published_us / 1e6,
            topic=topic,
            properties=row.properties,
            payload=row.payload,
            qos=row.qos,
            retain=True,
            publisher="",
            readers={},
        )
