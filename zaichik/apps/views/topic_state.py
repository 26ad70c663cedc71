"""A reading: what `describe` said about a topic and its readers at one moment, in its own words.

Nothing is recomputed and nothing is made up: a field that a broker does not have is absent here as
well, and `missing` says in words what cannot be shown without it. The version of a broker is never
checked, only whether a field is there.
"""

from dataclasses import dataclass, field
from typing import Any

JSON = dict[str, Any]

MISSING = {
    "head_us": "how old messages are",
    "refused": "how often it refused a batch because it was full",
}
MISSING_OF_READERS = {
    "cursor_us": "lag in seconds",
    "redelivered_below": "which messages are delivered again",
}


@dataclass(frozen=True, slots=True)
class TopicState:
    """One reading of one topic.

    Attributes:
        now_us: the broker's clock, in microseconds since 1970.
        boot: the broker's run; another boot is another broker, whose counters began at 0. 0 if
            unknown.
        topic: the topic's row (describe kind 1), untouched.
        readers: rows of its readers, of names whose reader is away, and of shared names (kind 2 or
            7), untouched. Not always all of them.
        workers: rows of workers of shared names, not always all of them.
        windows: open compaction windows, the newest first: the key, and when its window was opened.
        marks: samples of the topic's batches, ascending: first offset, and when it was accepted.
        readable: of a table, how many messages from each mark up to the next one can be read.
        messages: the last messages, the newest last: `offset, accepted_us, key, payload, format,
            size, is_cut`.
        drops: how often compaction dropped each key, as far as the topic's journal was read.

        missing: what this broker does not report, in words.

    Keys and payloads are printable already (`printable`). Names in rows are untrusted.
    """

    now_us: int
    boot: int
    topic: JSON
    readers: tuple[JSON, ...] = ()
    workers: tuple[JSON, ...] = ()
    windows: tuple[tuple[str, int], ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    readable: tuple[int, ...] = ()
    messages: tuple[JSON, ...] = ()
    drops: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, page: JSON) -> "TopicState":
        """Returns the reading that this JSON holds; only `topic` must be there.

        Raises:
            KeyError: there is no `topic`.
        """
        windows = [(key, opened_us) for key, opened_us in page.get("windows", ())]
        marks = [(base, accepted_us) for base, accepted_us in page.get("marks", ())]
        rows = page.get("readers", ())
        return cls(
            now_us=page.get("now_us", 0),
            boot=page.get("boot", 0),
            topic=page["topic"],
            readers=tuple(row for row in rows if "worker" not in row),
            workers=tuple(row for row in rows if "worker" in row),
            windows=tuple(windows),
            marks=tuple(marks),
            readable=tuple(page.get("readable", ())),
            messages=tuple(page.get("messages", ())),
            drops=dict(page.get("drops", {})),
            missing=tuple(page.get("missing", ())),
        )

    @property
    def name(self) -> str:
        """The topic's name, untrusted: print it with `printable` only."""
        return str(self.topic["name"])

    @property
    def head(self) -> int:
        """The oldest offset that can be read."""
        return int(self.topic["head"])

    @property
    def next_offset(self) -> int:
        """The offset that the next message will get."""
        return int(self.topic["next_offset"])

    @property
    def all_readers(self) -> int:
        """How many readers there are, listed or not; the workers of a shared name are one."""
        workers = [row["shared"]["workers"] for row in self.readers if "shared" in row]
        others: int = self.topic["subscriptions"] - sum(workers)
        return max(others + len(workers), len(self.readers))

    def setting(self, name: str) -> Any:
        """Returns one of the topic's settings, as `describe` has it."""
        return self.topic["settings"][name]

    @property
    def is_table(self) -> bool:
        """Whether it keeps the last message of each key."""
        return bool(self.topic["settings"].get("table"))

    @property
    def held(self) -> int:
        """How many messages count towards the capacity: a table's tombstones do not."""
        resident: int = self.topic["resident"]
        tombstones: int = self.topic.get("tombstones", 0)
        return resident - tombstones

    @property
    def held_bytes(self) -> int:
        """The size of these messages."""
        size: int = self.topic["bytes"]
        tombstones: int = self.topic.get("tombstone_bytes", 0)
        return size - tombstones

    @property
    def percent_full(self) -> int:
        """How much of what it may hold it holds.

        A table is full when it has too many keys, or too many bytes: the larger part counts.
        """
        parts = [self.held / max(1, self.setting("capacity"))]
        if self.is_table:
            parts.append(self.held_bytes / max(1, self.setting("max_bytes")))
        return int(100 * max(parts))

    @property
    def ttl_us(self) -> int | None:
        """How long messages can be read; None if time alone ends no message."""
        ttl_ms = self.setting("retention_ttl_ms")
        return ttl_ms * 1000 if isinstance(ttl_ms, int) and 0 < ttl_ms < 2**63 else None


def lag(row: JSON) -> int:
    """Returns how many messages a reader is behind; holes of a table are none."""
    # Older brokers do not tell it, and have no tables.
    name = "ahead"
    if "lag" in row:
        name = "lag"
    behind: int = row[name]
    return behind


def missing(topic: JSON, readers: list[JSON]) -> list[str]:
    """Returns what cannot be shown of them because fields are absent, in words."""
    words = [word for name, word in MISSING.items() if name not in topic]
    there = [reader for reader in readers if reader.get("connection")]
    return words + [
        word
        for name, word in MISSING_OF_READERS.items()
        if any(name not in reader for reader in there)
    ]
