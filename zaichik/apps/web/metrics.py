"""The broker's state for Prometheus: a collector of its client, over what `describe` reports.

Each metric is a row of a table: its name, its type, what it means, and how it is read from a row of
`describe`. The number of series is bounded whatever clients do. No label has a value that clients
can make up without end: not the name of a client, a peer or a key. A limited number of topics and
named subscriptions do have labels; which ones is decided once, because a series that comes and goes
is worse than none. What is not listed is in the totals. `docs/run/metrics.md` has the table and
what to make of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, Literal

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zaichik.apps.web.topics.counts import Counts
from zaichik.base.clock import SECOND_US
from zaichik_protocol import PROTOCOL_VERSION, ErrorCode

Row = Mapping[str, Any]
Labels = tuple[str, ...]

# Topics that are gone whose counters are remembered: those that went last.
MOST_GONE = 1000
MOST_PREFIXES = 16  # that were asked for with `?topic=`, and whose choice of topics is remembered
POLL_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # and more
BYTES = {
    "max_message",
    "max_frame",
    "max_key",
    "max_bytes",
    "max_client_bytes",
    "max_disk_bytes",
    "max_replies",
}

# Why connections end. Each has a series from the start: a rate does not see how a new series has
# become 1.
REASONS = [code.name for code in ErrorCode if code.fatal] + [
    "CLOSED", "STOPPED", "DISCONNECTED", "GONE", "RESET", "TURNED_AWAY", "NOT_ZAICHIK",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: its name; for counters, without the `_total` at the end.
        text: what it means.
        read: returns its value from a row, None if the broker does not report it; or the name of
            the row's field.
        type: its type in Prometheus.
        labels: the names of the labels that distinguish its series.
    """

    name: str
    text: str
    read: Callable[[Row], float | None] | str
    type: Literal["gauge", "counter", "histogram"] = "gauge"
    labels: Labels = ()

    @property
    def full_name(self) -> str:
        """The name in queries."""
        return self.name + "_total" * (self.type == "counter")

    def of(self, rows: Iterable[tuple[Labels, Row]]) -> Metric:
        """Returns the metric with a series for each row that has a value."""
        kind = CounterMetricFamily if self.type == "counter" else GaugeMetricFamily
        metric = kind(self.name, self.text, labels=self.labels)
        for labels, row in rows:
            value = row.get(self.read) if isinstance(self.read, str) else self.read(row)
            if value is not None:
                metric.add_metric(labels, value)
        return metric


def _seconds(name: str) -> Callable[[Row], float | None]:
    return lambda row: None if row.get(name) is None else row[name] / SECOND_US


def _stale(row: Row) -> float:
    since_us = row.get("access", {}).get("stale_since_us")
    return 0 if since_us is None else (row["now_us"] - since_us) / SECOND_US


def _resident(row: Row) -> int:
    # Older brokers, which do not tell it, have no tables: there it is all from the head on.
    span = int(row["next_offset"]) - int(row["head"]) - int(row["damaged"])
    return int(row.get("resident", span))


def _lag(row: Row) -> int:
    # Older brokers, which do not tell it, have no tables: there it is all from `needed` on.
    return int(row.get("lag", row["next_offset"] - row["needed"]))


def _lag_seconds(row: Row) -> float | None:
    if row["needed"] >= row["next_offset"]:
        return 0
    needed_us = row.get("needed_us")
    return None if needed_us is None else max(0, row["now_us"] - needed_us) / SECOND_US


def _unsettled(row: Row) -> int:
    """Returns how many messages a named subscription has still to settle, without holes."""
    behind: int = row["next_offset"] - row["committed"]
    # Older brokers report no lag, and have no tables.
    if "lag" not in row:
        return behind
    lag: int = row["lag"]
    if "shared" in row:
        return lag + int(row["shared"]["open"])
    if not row["connection"]:
        return lag + int(row["delivered"])
    # Some of what lies between the committed offset and the next one are holes, too.
    if row["passed"]:
        return lag + int(row["in_flight"])
    return behind - int(row["ahead"]) + lag


def _in_flight(row: Row) -> int:
    """Returns how many messages of a named subscription were sent and are not settled."""
    if "shared" in row:
        return int(row["shared"]["with_workers"])
    return int(row["in_flight"])


def _reader_present(row: Row) -> int:
    if "shared" in row:
        return int(row["shared"]["workers"] > 0)
    return int(bool(row["connection"]))


def _of_shared(name: str) -> Callable[[Row], float | None]:
    """Returns what reads that number of a shared name."""
    return lambda row: int(row["shared"][name])


def _oldest_seconds(row: Row) -> float:
    oldest_us = row["shared"]["oldest_us"]
    if oldest_us is None:
        return 0
    return float(max(0, row["now_us"] - oldest_us) / SECOND_US)


def _conservation_error(row: Row) -> int:
    """Returns by how much the conservation laws of `docs/understand/semantics.md` are violated."""
    arriving: int = row["published"] - row["next_offset"] - row["compacted"]
    gone = row["expired"] + row["evicted"] + row.get("superseded", 0) + row["damaged"]
    leaving: int = row["next_offset"] - _resident(row) - gone
    return abs(arriving) + abs(leaving)


BROKER = (
    Family("zaichik_connections", "Open connections.", "connections"),
    Family(
        "zaichik_subscriptions", "Live subscriptions, those with a name included.", "subscriptions"
    ),
    Family("zaichik_topics", "Topics, journals included.", "topics"),
    Family("zaichik_producers", "Numbered producers that are remembered.", "producers"),
    Family("zaichik_sessions", "Named subscriptions, with and without a reader.", "sessions"),
    Family("zaichik_stored_bytes", "Size of the batches that all topics hold.", "bytes"),
    Family(
        "zaichik_memory_bytes", "Memory used or reserved, at its real cost, of max_bytes.", "memory"
    ),
    Family(
        "zaichik_resident_bytes",
        "Memory that the system has given to the broker's process.",
        "resident",
    ),
    Family("zaichik_disk_bytes", "Size of the logs of all durable topics.", "disk_bytes"),
    Family(
        "zaichik_sync_p99_seconds",
        "How long 99 % of the latest syncs took.",
        _seconds("sync_p99_us"),
    ),
    Family(
        "zaichik_access_stale_seconds", "How long the files of --access have been unusable.", _stale
    ),
)
LIMITS = (
    Family("zaichik_limit", "Limits that are numbers.", "value", labels=("name",)),
    Family("zaichik_limit_bytes", "Limits that are sizes.", "value", labels=("name",)),
)
DISCONNECTS = Family(
    "zaichik_disconnects", "Connections that have ended.", "value", "counter", ("reason",)
)
ACCESS = Family(
    "zaichik_access_events", "Logins, refusals and reloads.", "value", "counter", ("event",)
)
COUNTED = {
    "published": ("published_messages", "Messages published, stored or not"),
    "next_offset": ("stored_messages", "Messages stored"),
    "compacted": ("compacted_messages", "Messages dropped by compaction"),
    "expired": ("expired_messages", "Messages dropped when their retention had ended"),
    "evicted": ("evicted_messages", "Messages dropped to make room"),
    "superseded": (
        "superseded_messages",
        "Messages of tables replaced by newer ones of their keys",
    ),
    "damaged": ("damaged_messages", "Messages given up by a repair of the disk"),
    "refused": ("refused_batches", "Batches refused because the topic was full"),
}
TOTALS = tuple(
    Family(f"zaichik_{name}", f"{text}, of all topics, since the first scrape.", read, "counter")
    for read, (name, text) in COUNTED.items()
)
OF_TOPIC = ("topic",)
TOPICS = (
    *(
        Family(f"zaichik_topic_{name}", f"{text}.", read, "counter", OF_TOPIC)
        for read, (name, text) in COUNTED.items()
    ),
    Family(
        "zaichik_topic_resident_messages", "Messages that can be read.", _resident, labels=OF_TOPIC
    ),
    Family(
        "zaichik_topic_capacity_messages",
        "Messages that the topic may hold.",
        "capacity",
        labels=OF_TOPIC,
    ),
    Family("zaichik_topic_bytes", "Size of the batches held in memory.", "bytes", labels=OF_TOPIC),
    Family("zaichik_topic_keys", "Keys of the table that have a message.", "keys", labels=OF_TOPIC),
    Family(
        "zaichik_topic_tombstones",
        "Tombstones of the table that can be read.",
        "tombstones",
        labels=OF_TOPIC,
    ),
    Family("zaichik_topic_readers", "Live subscriptions.", "subscriptions", labels=OF_TOPIC),
    Family(
        "zaichik_topic_lag_messages",
        "Messages that the reader furthest behind has still to settle.",
        _lag,
        labels=OF_TOPIC,
    ),
    Family(
        "zaichik_topic_lag_seconds", "Age of the oldest of these.", _lag_seconds, labels=OF_TOPIC
    ),
    Family(
        "zaichik_topic_conservation_error_messages",
        "Messages without exactly one fate: not 0 is a bug.",
        _conservation_error,
        labels=OF_TOPIC,
    ),
)
OF_SESSION = ("topic", "session")
SESSIONS = (
    Family(
        "zaichik_session_lag_messages",
        "Messages that the named subscription has still to settle.",
        _unsettled,
        labels=OF_SESSION,
    ),
    Family(
        "zaichik_session_in_flight_messages",
        "Of these, messages that were sent.",
        _in_flight,
        labels=OF_SESSION,
    ),
    Family(
        "zaichik_session_reader_present",
        "1 if it has a reader, 0 if that is away.",
        _reader_present,
        labels=OF_SESSION,
    ),
)
SHARED = (
    Family(
        "zaichik_shared_name_workers",
        "Workers of the shared name.",
        _of_shared("workers"),
        labels=OF_SESSION,
    ),
    Family(
        "zaichik_shared_name_open_messages",
        "Messages that were handed out, or wait to come again, and are not settled.",
        _of_shared("open"),
        labels=OF_SESSION,
    ),
    Family(
        "zaichik_shared_name_dead_messages",
        "Messages that failed too often, or were rejected: somebody has to look at them.",
        _of_shared("dead"),
        labels=OF_SESSION,
    ),
    Family(
        "zaichik_shared_name_oldest_seconds",
        "How long a worker has had the message that one has had for longest; 0 if none has any.",
        _oldest_seconds,
        labels=OF_SESSION,
    ),
)
UNLISTED = (
    Family("zaichik_topics_unlisted", "Topics without series of their own.", "topics"),
    Family(
        "zaichik_sessions_unlisted", "Named subscriptions without series of their own.", "sessions"
    ),
)
BOOT = Family(
    "zaichik_boot_time_seconds", "When this run of the broker was first seen.", _seconds("boot_us")
)
BUILD = Family("zaichik_build_info", "Always 1.", "value", labels=("version", "protocol"))
UP = Family(
    "zaichik_up", "1 if the broker has answered, 0 if not: then all others are missing.", "value"
)
POLLS = Family(
    "zaichik_view_poll_seconds", "How long the broker took to answer.", "", "histogram", ("kind",)
)
STREAMS = Family("zaichik_view_streams", "Pages that are open.", "value")
HTTP_STREAMS = Family("zaichik_http_streams", "Streams that programs read over HTTP.", "value")
HTTP_ANSWERS = Family(
    "zaichik_http_answers", "Answers to programs over HTTP.", "value", "counter", ("status",)
)
HTTP_PUBLISHED = Family(
    "zaichik_http_published_messages", "Messages published over HTTP.", "value", "counter"
)
ALL = (
    BUILD,
    UP,
    BOOT,
    *BROKER,
    *LIMITS,
    DISCONNECTS,
    ACCESS,
    *TOTALS,
    *TOPICS,
    *SESSIONS,
    *SHARED,
    *UNLISTED,
    POLLS,
    STREAMS,
    HTTP_STREAMS,
    HTTP_ANSWERS,
    HTTP_PUBLISHED,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the broker has answered.

    Attributes:
        broker: kind 0 of `describe`.
        topics: the counters of each topic whose name begins so.
        sessions: the named subscriptions to them, as far as they were asked for.
    """

    broker: Row
    topics: list[Row]
    sessions: list[Row]


class Chosen:
    """The choice of those that have series: the largest at first, kept while they exist."""

    def __init__(self, most: int) -> None:
        self._most, self._kept = most, set[Labels]()

    def of(self, sizes: Mapping[Labels, float]) -> list[Labels]:
        """Returns the chosen ones in order."""
        self._kept &= sizes.keys()
        free = self._most - len(self._kept)
        self._kept.update(
            nlargest(free, sizes.keys() - self._kept, key=lambda name: (sizes[name], name))
        )
        return sorted(self._kept)


@dataclass(frozen=True, slots=True)
class Counters:
    """What was counted of a topic, in the order of `COUNTED`.

    Attributes:
        epoch: which topic of its name it is; 0: the broker is too old to tell.
        values: the counters; 0 for what the broker does not report.
    """

    epoch: int = 0
    values: tuple[int, ...] = (0,) * len(COUNTED)

    @classmethod
    def of(cls, row: Row) -> "Counters":
        """Returns the counters in a row of `describe`."""
        return cls(row.get("epoch") or 0, tuple(row.get(name) or 0 for name in COUNTED))

    def left_out(self, before: "Counters") -> tuple[int, ...]:
        """Returns how much of each counter of `before`, of the same name, is not in these any more.

        That is all of it, if it has begun anew, or nothing.
        """
        pairs = list(zip(self.values, before.values, strict=True))
        is_other = self.epoch != before.epoch
        # Without an epoch, one counter that has fallen shows that it is another topic. With one, it
        # is a counter that does not survive a restart of the broker.
        if not self.epoch and any(now < was for now, was in pairs):
            is_other = True
        return tuple(was if is_other or now < was else 0 for now, was in pairs)


@dataclass
class Totals:
    """Counters over all topics, which do not fall when a topic is deleted.

    They add up what is new at each reading. Of another topic of the same name, all is new.
    """

    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    _before: dict[str, Counters] | None = None

    def add(self, topics: Iterable[Row]) -> None:
        """Count what is new. What there was before the first time is not."""
        now = {row["name"]: Counters.of(row) for row in topics}
        if self._before is not None:
            for topic, counters in now.items():
                self._count(counters, self._before.get(topic, Counters()))
        self._before = now

    def _count(self, now: Counters, before: Counters) -> None:
        lost = now.left_out(before)
        for name, value, was, anew in zip(COUNTED, now.values, before.values, lost, strict=True):
            self.sums[name] += value - was + anew


class Names:
    """The counters of each name: those of its topic, and of earlier topics that had the name.

    To Prometheus, a topic that is deleted and created again is one series. If its counters began at
    0 again, all messages up to the old topic's number would be missing from every rate. So they go
    on. Of names whose topics are gone, only the last `MOST_GONE` are remembered: a program may
    create and delete any number of topics.
    """

    def __init__(self) -> None:
        # By name, what was read last, and what earlier topics had counted. The names that were read
        # last are at the end.
        self._known: dict[str, tuple[Counters, tuple[int, ...]]] = {}
        self._most = 0  # topics in one reading of all

    def counted(self, topics: Iterable[Row], *, is_all: bool) -> dict[str, Row]:
        """Returns the counters of each of these topics' names.

        Args:
            topics: rows of `describe`.
            is_all: whether there are no others.
        """
        found: dict[str, Row] = {}
        for row in topics:
            name = row["name"]
            now = Counters.of(row)
            last, earlier = self._known.pop(name, (now, Counters().values))
            earlier = tuple(map(sum, zip(earlier, now.left_out(last), strict=True)))
            self._known[name] = now, earlier
            found[name] = {
                counter: value + before
                for counter, value, before in zip(COUNTED, now.values, earlier, strict=True)
                # What the broker does not report has no counter.
                if row.get(counter) is not None
            }
        self._forget(len(found), is_all=is_all)
        return found

    def _forget(self, seen: int, *, is_all: bool) -> None:
        if is_all:
            self._most = seen
        most = max(self._most, seen) + MOST_GONE
        while len(self._known) > most:
            del self._known[next(iter(self._known))]


class Metrics(Collector):
    """Everything that is kept from scrape to scrape, and one scrape at a time, as a collector.

    Args:
        topics, sessions: how many have series of their own.
        streams: returns how many pages are open.
        counts: what programs have done; None: nothing.

    Attributes:
        polls: the histogram of how long the broker took.
        reading: what it has answered; None if it has not.
        prefix: the topics that were asked for; "" asks for everything.
    """

    def __init__(
        self,
        topics: int,
        sessions: int,
        streams: Callable[[], int] = lambda: 0,
        counts: Counts | None = None,
    ) -> None:
        self.polls = Histogram(
            POLLS.name, POLLS.text, POLLS.labels, buckets=POLL_SECONDS, registry=None
        )
        self.reading: Reading | None = None
        self.prefix = ""
        self._most, self._streams = (topics, sessions), streams
        self._counts = counts or Counts()
        self._chosen: dict[str, tuple[Chosen, Chosen]] = {}
        self._totals = Totals()
        self._names = Names()
        self._boot = 0, 0  # which run it is, and when it was first seen

    def collect(self) -> Iterator[Metric]:
        """Returns the metrics of the last reading."""
        reading = self.reading
        version = "" if reading is None else str(reading.broker["name"]).rpartition(" ")[2]
        yield BUILD.of([((version, str(PROTOCOL_VERSION)), {"value": 1})])
        yield UP.of([((), {"value": int(reading is not None)})])
        if reading is not None and not self.prefix:
            yield from self._of_broker(reading.broker, reading.topics)
        if reading is not None:
            yield from self._of_topics(reading)
        for metric in self.polls.collect() if not self.prefix else ():
            metric.samples = [
                sample for sample in metric.samples if not sample.name.endswith("_created")
            ]
            yield metric
        if not self.prefix:
            yield STREAMS.of([((), {"value": self._streams()})])
            yield HTTP_STREAMS.of([((), {"value": self._counts.streams})])
            yield HTTP_ANSWERS.of(_named(self._counts.answers))
            yield HTTP_PUBLISHED.of([((), {"value": self._counts.published})])

    def _of_broker(self, broker: Row, topics: list[Row]) -> Iterator[Metric]:
        if self._boot[0] != broker["boot"]:
            self._boot = broker["boot"], broker["now_us"]
        yield BOOT.of([((), {"boot_us": self._boot[1]})])
        for family in BROKER:
            yield family.of([((), broker)])
        limits = {
            name: value for name, value in broker["limits"].items() if name.startswith("max_")
        }
        for family, is_size in zip(LIMITS, (False, True), strict=True):
            yield family.of(
                _named({name: limits[name] for name in limits if (name in BYTES) == is_size})
            )
        yield DISCONNECTS.of(_named(dict.fromkeys(REASONS, 0) | broker["disconnects"]))
        # An old broker has none.
        yield ACCESS.of(
            _named(
                {
                    name: n
                    for name, n in broker.get("access", {}).items()
                    if name != "stale_since_us"
                }
            )
        )
        self._totals.add(topics)
        for family in TOTALS:
            yield family.of([((), self._totals.sums)])

    def _of_topics(self, reading: Reading) -> Iterator[Metric]:
        now_us = reading.broker["now_us"]
        topics: dict[Labels, Row] = {
            (row["name"],): {**row, "now_us": now_us} for row in reading.topics
        }
        counted = self._names.counted(reading.topics, is_all=not self.prefix)
        of_names: dict[Labels, Row] = {(name,): row for name, row in counted.items()}
        sessions: dict[Labels, Row] = {}
        for row in reading.sessions:  # users may have the same name; the one furthest behind counts
            key = row["topic"], row["session"]
            sessions[key] = min(sessions.get(key, row), row, key=lambda it: it["committed"])
        of_topics, of_sessions = self._choices()
        listed = of_topics.of({key: row["bytes"] for key, row in topics.items()})
        named = of_sessions.of({key: _unsettled(row) for key, row in sessions.items()})
        for family in TOPICS:
            rows = of_names if family.type == "counter" else topics
            yield family.of((key, rows[key]) for key in listed)
        for family in SESSIONS:
            yield family.of((key, sessions[key]) for key in named)
        shared = [key for key in named if "shared" in sessions[key]]
        for family in SHARED:
            yield family.of((key, {**sessions[key], "now_us": now_us}) for key in shared)
        known = len(sessions) if self.prefix else reading.broker["sessions"]
        unlisted = {"topics": len(topics) - len(listed), "sessions": known - len(named)}
        for family in UNLISTED:
            yield family.of([((), unlisted)])

    def _choices(self) -> tuple[Chosen, Chosen]:
        """Returns the choices for this prefix.

        If there are too many, the latest to come is forgotten.
        """
        if self.prefix not in self._chosen and len(self._chosen) >= MOST_PREFIXES:
            self._chosen.popitem()
        topics, sessions = self._most
        return self._chosen.setdefault(self.prefix, (Chosen(topics), Chosen(sessions)))


def _named(values: Mapping[str, float]) -> list[tuple[Labels, Row]]:
    return [((name,), {"value": value}) for name, value in values.items()]
