"""What `$topics` retains: the last record of each topic, as a table has it (PAT-1).

A record is JSON, with the topic's name as its key:

    {"epoch": 1385596800000000, "earlier": 0}
    {"epoch": 1385596800000000, "earlier": 0, "gone": true}
    {"epoch": 1385596900000000, "earlier": 1, "first": 1385596800000000}

A topic that goes leaves a record that says so, and not a tombstone. A reader that comes later finds
`earlier`, and so knows that there were other topics of the name meanwhile. These records go as
tombstones do, which `deleted_below` tells. Then the counting of a name begins again, and `first` is
the epoch with which it began: a reader that knows an older one knows that none was missed before.

How many records there are at most follows from how many topics there may be, so nothing is ever
refused.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from zaichik.core.checks import MAX_NAME
from zaichik.core.settings import MAX_CAPACITY, BrokerSettings, TopicSettings
from zaichik.core.sharing import prices
from zaichik.core.tables.table import Table
from zaichik_protocol import FOREVER, Batch

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

RECORD_BYTES = MAX_NAME + 130  # the largest record, with its key
# What is known of a topic that has gone, or had earlier ones, besides its record.
KNOWN_COST = prices.KEY + MAX_NAME
GONE_AT_ONCE = 1000  # records that go in one step


def settings_for(max_topics: int) -> TopicSettings:
    """Returns the settings of `$topics` in a broker that may have that many topics.

    They only describe it: the table has no more records than these allow.
    """
    capacity = min(2 * max_topics, MAX_CAPACITY)
    return TopicSettings(FOREVER, capacity=capacity, max_bytes=capacity * RECORD_BYTES, table=1)


class Gone(NamedTuple):
    """A topic that has gone, and whose record is kept.

    Attributes:
        name: its name, as the record's key.
        epoch: its epoch.
        until_us: when the record goes.
    """

    name: bytes
    epoch: int
    until_us: int


class Earlier(NamedTuple):
    """What went before a topic, as far as it is known.

    Attributes:
        topics: how many topics of its name.
        first_epoch: the epoch of the first of them; 0 if there are none.
    """

    topics: int
    first_epoch: int


NONE_EARLIER = Earlier(0, 0)


class TopicsTable(Table):
    """What `$topics` retains.

    Args:
        topic: `$topics`.
        settings: see `settings_for`.
        limits: the broker's; as many records of topics that have gone are kept as there may be
            topics.
    """

    def __init__(
        self, topic: "TopicController", settings: TopicSettings, limits: BrokerSettings
    ) -> None:
        super().__init__(topic, settings, limits)
        self._most_gone = limits.max_topics
        # Records of topics that have gone, by their offsets, in order.
        self._gone: dict[int, Gone] = {}
        # What went before the last topic of a name; names that had one only are left out.
        self._earlier: dict[bytes, Earlier] = {}
        # A topic may go where nobody knows the time, and times must not decrease.
        self._latest_us = 0

    # -- writing ---------------------------------------------------------------------------------

    def begin(self, topics: Iterable["TopicController"], now_us: int) -> None:
        """Store a record of each topic that there is."""
        names: list[bytes] = []
        records: list[bytes] = []
        for topic in topics:
            names.append(topic.name.encode())
            records.append(_record(topic.epoch, NONE_EARLIER))
        if names:
            self._store_records(names, records, now_us)

    def came(self, topic: "TopicController", now_us: int) -> None:
        """Store a record of a new topic."""
        name = topic.name.encode()
        earlier = self._earlier.get(name, NONE_EARLIER)
        before = self._gone.pop(self.kept.offset_of(name), None)
        if before is not None:
            earlier = Earlier(earlier.topics + 1, earlier.first_epoch or before.epoch)
            self._earlier[name] = earlier
        self._store_records([name], [_record(topic.epoch, earlier)], now_us)

    def went(self, topic: "TopicController", now_us: int) -> None:
        """Store a record of a topic that has gone; others go early if there are too many."""
        while len(self._gone) >= self._most_gone:
            self._forget_oldest()
            self.kept.evicted += 1
        name = topic.name.encode()
        earlier = self._earlier.get(name, NONE_EARLIER)
        self._note_time(now_us)
        # First, because what it takes is charged with the record.
        until_us = self._latest_us + self._tombstones_us
        self._gone[self.kept.next_offset] = Gone(name, topic.epoch, until_us)
        self._store_records([name], [_record(topic.epoch, earlier, gone=True)], now_us)

    def _store_records(self, names: list[bytes], records: list[bytes], now_us: int) -> None:
        self._note_time(now_us)
        self._topic.store(Batch.of_columns(names, records), self._latest_us)

    def _note_time(self, now_us: int) -> None:
        self._latest_us = max(self._latest_us, now_us)

    # -- reading ---------------------------------------------------------------------------------

    def name_at(self, offset: int) -> str:
        """Returns which topic the record at that offset, which can be read, is about."""
        return self.kept.key_at(offset).decode()

    # -- what goes -------------------------------------------------------------------------------

    def sweep(self, now_us: int) -> None:
        """See `Retained`: records of topics that have gone go when their time is over.

        As for tombstones, the newest message stays.
        """
        self._note_time(now_us)
        newest = self.kept.next_offset - 1
        for _ in range(GONE_AT_ONCE):
            if not self._gone:
                break
            oldest = next(iter(self._gone))
            if oldest == newest or now_us < self._gone[oldest].until_us:
                break
            self._forget_oldest()
            self.kept.expired += 1
        super().sweep(now_us)

    def _forget_oldest(self) -> None:
        """Drop the oldest record of a topic that has gone, and what is known of the name."""
        offset = next(iter(self._gone))
        gone = self._gone.pop(offset)
        self._earlier.pop(gone.name, None)
        self.kept.forget(gone.name)

    def drop_all(self) -> None:
        """See `Retained`."""
        self._gone.clear()
        self._earlier.clear()
        super().drop_all()

    # -- what it takes, and what `describe` reports ----------------------------------------------

    def _memory(self) -> int:
        return super()._memory() + KNOWN_COST * (len(self._gone) + len(self._earlier))

    def own_fields(self) -> dict[str, Any]:
        """See `Retained`."""
        return super().own_fields() | {"gone": len(self._gone)}


def _record(epoch: int, earlier: Earlier, *, gone: bool = False) -> bytes:
    """Returns what is told of a topic, as JSON. Its members have this order (PAT-1).

    There may be ten thousand at once, and `json` would take several times as long.
    """
    members = f'"epoch": {epoch}, "earlier": {earlier.topics}'
    if earlier.topics:
        members += f', "first": {earlier.first_epoch}'
    if gone:
        members += ', "gone": true'
    return f"{{{members}}}".encode()
