"""Every limit and default of the broker, in one place, with the reason for each number."""

from collections.abc import Container
from dataclasses import dataclass, field, fields, replace

from zaichik.base.process import open_files
from zaichik_protocol import FOREVER, ErrorCode, Overflow, Refused, Setting

KIB = 1024
MIB = 1024 * KIB
HOUR_MS = 3_600_000

# The file descriptors of a process are divided, and the shares never exceed NOFILE if that is 35 or
# more:
#
#     the process itself (24) | the log (8) | an operator (1)
#         | `refused_sockets` | `connection_sockets`
#
# Those of the process itself: standard streams, 9 of the event loop (uvloop, which has
# most), listening sockets and the spare one, pipes for signals, a connection that was just
# accepted, and files that are read briefly. 16 are open in an idle `zaichik serve`.
_PROCESS_FILES = 24
# One for each of the log's six threads, one for its lock, one to spare: no client can take them.
LOG_FILES = 8
_OPERATORS = 1  # connections beyond `max_connections` (CLO-5)


def refused_sockets(nofile: int) -> int:
    """Returns how many connections may be open only to be refused with an Error (CLO-5)."""
    quarter = _for_sockets(nofile) // 4
    return min(max(1, quarter), 16)


def connection_sockets(nofile: int) -> int:
    """Returns how many descriptors are left for connections.

    That is the most that `max_connections` may be.
    """
    left = _for_sockets(nofile) - refused_sockets(nofile)
    return max(1, left)


def _for_sockets(nofile: int) -> int:
    return nofile - _PROCESS_FILES - LOG_FILES - _OPERATORS


def out_of_range(name: str, value: int | str, allowed: str, field: str = "") -> Refused:
    """Returns the refusal of a value that is out of range.

    Its field is `name` unless another one is given.
    """
    problem = f"{name} is {value}; it must be {allowed}"
    return Refused(ErrorCode.INVALID_FIELD, problem, field or name)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of one topic (TOP-2). Attributes have the names of the wire's settings.

    Attributes:
        retention_ttl_ms: how long a message stays readable after it was accepted; `FOREVER` is
            allowed (RET-1).
        compaction_window_ms: how long a key's first message keeps later ones out; 0 is off (COM-1).
        capacity: messages in the ring.
        max_bytes: bytes of batches in the ring.
        max_keys: keys whose windows are remembered (COM-6).
        journal_bytes: bytes of batches in the ring of its journal; 0 means no journal (JRN-1).
        overflow: what happens when the ring is full and a reader still needs its oldest messages:
            see `Overflow` (RET-9).
        durable: 1 if messages are answered and delivered only when they are on the disk (DUR-1);
            then `capacity` and `max_bytes` bound what is in memory besides.
        log_bytes, segment_bytes: bytes of the log on the disk, and of each of its files (DUR-4).
        table: 1 if the topic keeps the last message of each key (TAB-1); then `capacity` and
            `max_bytes` bound what can be read, and nothing is evicted.
        tombstones_ms: of a table: how long a tombstone is kept (TAB-5).
    """

    retention_ttl_ms: int = 0
    compaction_window_ms: int = 0
    capacity: int = 10_000
    max_bytes: int = 64 * MIB
    max_keys: int = 100_000
    journal_bytes: int = 0
    overflow: int = Overflow.EVICT
    durable: int = 0
    log_bytes: int = 1024 * MIB
    segment_bytes: int = 64 * MIB
    table: int = 0
    tombstones_ms: int = 24 * HOUR_MS

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Returns the settings in force as the wire carries them, in the order of their numbers."""
        pairs = []
        for name, value in self.by_name().items():
            number = Setting[name.upper()].value
            pairs.append((number, value))
        return tuple(pairs)

    def by_name(self) -> dict[str, int]:
        """Returns the name and value of every setting in force, for people and for `describe`."""
        absent: set[str] = set()
        if not self.durable:
            absent |= OF_DURABLE_TOPICS
        if not self.table:
            absent |= OF_TABLES
        found: dict[str, int] = {}
        for item in fields(self):
            if item.name not in absent:
                # Programs, and `zaichik serve --durable`, may give true; what reads it takes
                # numbers.
                found[item.name] = int(getattr(self, item.name))
        return found

    @property
    def expires(self) -> bool:
        """Whether messages are readable for a limited time."""
        return self.retention_ttl_ms not in (0, FOREVER)

    def difference(self, wanted: "TopicSettings") -> str:
        """Returns how other settings differ from these, for a person."""
        differences = []
        for item in fields(self):
            here = int(getattr(self, item.name))
            there = int(getattr(wanted, item.name))
            if here != there:
                name = item.name
                own = _shown(name, here)
                other = _shown(name, there)
                differences.append(f"{name.removesuffix('_ms')} is {own}, asked for {other}")
        return ", ".join(differences)

    def merged(self, pairs: tuple[tuple[int, int], ...]) -> "TopicSettings":
        """Returns these settings, overridden by those of a request.

        Raises:
            Refused: a setting is unknown, named twice or out of range.
        """
        values: dict[str, int] = {}
        for number, value in pairs:
            if number not in _RANGES:
                problem = f"this broker knows no setting {number}"
                raise Refused(ErrorCode.UNSUPPORTED, problem, "settings")
            name = Setting(number).name.lower()
            if name in values:
                raise Refused(ErrorCode.INVALID_FIELD, f"{name} is named twice", "settings")
            values[name] = value
            allowed = _RANGES[number]
            is_time = name.endswith("_ms")
            if value in allowed or (is_time and value == FOREVER):
                continue
            in_words = f"{allowed.start} to {allowed.stop - 1}"
            if is_time:
                in_words += ", or forever"
            raise out_of_range(name, value, in_words, "settings")
        is_kept = values.get("durable") or values.get("table")
        if is_kept and not self.retention_ttl_ms:
            values.setdefault("retention_ttl_ms", FOREVER)
        if values.get("table"):
            values.setdefault("compaction_window_ms", 0)
            max_bytes = values.get("max_bytes", self.max_bytes)
            if values.get("durable", self.durable):
                values.setdefault("log_bytes", max(self.log_bytes, LOG_OF_TABLE * max_bytes))
        merged = replace(self, **values)
        merged.check_kind(values)
        return merged

    def check_kind(self, named: Container[str]) -> None:
        """Refuse settings that do not go together, of which a request has named some.

        Raises:
            Refused: `INVALID_FIELD`; `UNSUPPORTED` for what cannot be had together yet.
        """
        if self.durable and not self.retention_ttl_ms:
            positive = "more than 0 in a durable topic, which keeps messages"
            raise out_of_range("retention_ttl_ms", 0, positive, "settings")
        if self.durable and self.journal_bytes:
            problem = "a durable topic cannot have a journal yet"
            raise Refused(ErrorCode.UNSUPPORTED, problem, "settings")
        sizes_log = "log_bytes" in named or "segment_bytes" in named
        if sizes_log and not self.durable:
            problem = "log_bytes and segment_bytes are for durable topics"
            raise Refused(ErrorCode.INVALID_FIELD, problem, "settings")
        if "tombstones_ms" in named and not self.table:
            problem = "tombstones_ms is for tables"
            raise Refused(ErrorCode.INVALID_FIELD, problem, "settings")
        if self.table:
            self.check_table()

    def check_table(self) -> None:
        """Refuse settings that a table cannot have (TAB-1).

        Raises:
            Refused: `INVALID_FIELD`; `UNSUPPORTED` for what a table cannot have yet.
        """
        if not self.retention_ttl_ms:
            positive = "more than 0 in a table, which keeps messages"
            raise out_of_range("retention_ttl_ms", 0, positive, "settings")
        if self.compaction_window_ms:
            problem = (
                "a table has no compaction window: it keeps the last message of each key, and a "
                "window the first"
            )
            raise Refused(ErrorCode.INVALID_FIELD, problem, "settings")
        if self.overflow != Overflow.EVICT:
            problem = (
                "a table evicts nothing, and a newer message of a key replaces the older one even "
                "if a reader still needs that: leave out overflow"
            )
            raise Refused(ErrorCode.INVALID_FIELD, problem, "settings")
        if self.durable and self.log_bytes < LOG_OF_TABLE * self.max_bytes:
            problem = (
                f"log_bytes is {self.log_bytes}; a durable table needs {LOG_OF_TABLE} times its "
                f"max_bytes ({self.max_bytes}) at least, because superseded messages are removed "
                "from the log some at a time"
            )
            raise Refused(ErrorCode.INVALID_FIELD, problem, "settings")


def _shown(name: str, value: int) -> str:
    """Returns a value as a person would write it: a time in the largest unit that stays whole."""
    if value == FOREVER:
        return "forever"
    if not name.endswith("_ms"):
        return str(value)
    for letter, unit_ms in _UNITS_MS:
        if value and value % unit_ms == 0:
            return f"{value // unit_ms}{letter}"
    return f"{value}ms"


_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


# Anything longer is a mistake in units; for no limit there is `FOREVER`.
_CENTURY_MS = 100 * 31_557_600_000
MAX_CAPACITY = 100_000_000
_RANGES: dict[int, range] = {
    Setting.RETENTION_TTL_MS: range(_CENTURY_MS + 1),
    Setting.COMPACTION_WINDOW_MS: range(_CENTURY_MS + 1),
    Setting.CAPACITY: range(1, MAX_CAPACITY + 1),
    Setting.MAX_BYTES: range(1, 2**40 + 1),
    Setting.MAX_KEYS: range(1, 10_000_000 + 1),
    Setting.JOURNAL_BYTES: range(2**40 + 1),
    Setting.OVERFLOW: range(len(Overflow)),
    Setting.DURABLE: range(2),
    Setting.LOG_BYTES: range(MIB, 2**50 + 1),
    Setting.SEGMENT_BYTES: range(64 * KIB, 2**31 + 1),
    Setting.TABLE: range(2),
    Setting.TOMBSTONES_MS: range(_CENTURY_MS + 1),
}
# Settings that are there only in topics of that kind.
OF_DURABLE_TOPICS = {"durable", "log_bytes", "segment_bytes"}
OF_TABLES = {"table", "tombstones_ms"}
# The log of a table holds at most 2.5 times what the live messages take there, and a little more
# (DUR-10). Small messages take twice there what `max_bytes` counts, and tombstones a quarter more.
LOG_OF_TABLE = 8


def _most_connections() -> int:
    sockets = connection_sockets(open_files())
    return min(10_000, sockets)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The limits and defaults of one broker. `zaichik serve` prints them, `describe` reports them.

    Attributes:
        max_message: bytes of keys and payloads in a batch, and so in one message: small enough to
            fit in memory a few hundred times.
        max_batch: messages in a batch; larger batches would gain nothing and make turns unfair.
        max_frame: the largest length field. At least 4 KiB, and `max_message` + 12 times
            `max_batch` + 1 KiB, which is the largest batch, its offsets and a topic's name; the
            default has some room to spare.
        max_key: bytes of a key, which is held as long as its window is open.
        max_credit: messages that one subscription may have in flight.
        max_bytes: memory of all topics together, at its real cost (RET-10); no batch may be larger.
        max_client_bytes: memory of everything else that clients make the broker hold (LAG-6):
            connections, subscriptions, names, producers, incomplete frames, unread output.
        max_disk_bytes: the logs of all durable topics together (DUR-9). The default is out of
            reach: the file system limits them, of which 64 MiB stay free.
        max_connections: open connections (CLO-5). By default at most as many as there are file
            descriptors when 8 are left for files of the log, 25 for the process itself and an
            operator, and 16 for connections that are being refused: see `refused_sockets`.
        max_topics, max_subscriptions: topics of the broker, and subscriptions of one connection.
        topic_ttl: seconds after which a topic that was created by first use, and is unused, is
            deleted (TOP-7).
        max_producers: numbered producers whose replies are remembered (PUB-4). With its 64 replies,
            a producer takes 20 KiB, or 84 KiB if each reply lists the compacted messages of a batch
            of `max_batch`.
        producer_ttl: seconds after its last batch for which a producer is remembered (PUB-4); after
            a restart, those of durable topics are for 600 at most (DUR-8).
        max_open: messages of one shared name that are open and do not wait for their time (SHR-2).
        max_dead: dead messages of one shared name, with which it hands out nothing more (SHR-5).
        max_sessions: named subscriptions, with and without a reader (CMT-3).
        session_ttl: seconds for which a named subscription's position outlives its connection
            (CMT-3).
        disk_session_ttl: the same in a durable topic (DUR-5).
        soft_output: bytes of output that are taken at once for a connection, and one frame more at
            most; no messages are taken from its topics while anything taken before is unsent
            (LAG-3).
        max_replies: unsent bytes of replies above which a connection's requests are no longer read
            (LAG-3).
        handshake_timeout: seconds from accept to a complete Hello (TIM-1).
        frame_timeout, frame_rate: seconds in which an incomplete frame must be completed, plus its
            size divided by this many bytes a second (TIM-2): the slowest line worth serving.
        idle_timeout: seconds for which a client that has promised a heartbeat may be silent
            (TIM-3).
        write_timeout: seconds without progress, while output is waiting, after which a connection
            is reset (LAG-3).
        drain_timeout: seconds for which a stopping broker waits for its connections to end (CLO-2).
        auto_create: whether Publish and Subscribe create missing topics (TOP-3).
        topic: the settings of topics that do not name their own. `Overflow.REJECT` cannot be a
            default, because it reserves bytes: only an explicit create may ask for it.
    """

    max_message: int = 1 * MIB
    max_batch: int = 8192
    max_frame: int = 1 * MIB + 128 * KIB
    max_key: int = 1 * KIB
    max_credit: int = 1_000_000
    max_bytes: int = 512 * MIB
    max_client_bytes: int = 512 * MIB
    max_disk_bytes: int = 2**50
    max_connections: int = field(default_factory=_most_connections)
    max_topics: int = 10_000
    max_subscriptions: int = 1_000
    topic_ttl: float = 600.0
    max_producers: int = 10_000
    producer_ttl: float = 600.0
    max_sessions: int = 10_000
    # 5 MB at some 500 bytes each, and so much work at once for any number of workers.
    max_open: int = 10_000
    max_dead: int = 10_000
    session_ttl: float = 60.0
    disk_session_ttl: float = 7 * 86_400.0
    soft_output: int = 256 * KIB
    max_replies: int = 128 * KIB
    handshake_timeout: float = 5.0
    frame_timeout: float = 10.0
    frame_rate: int = 16 * KIB
    idle_timeout: float = 90.0
    write_timeout: float = 10.0
    drain_timeout: float = 10.0
    auto_create: bool = True
    topic: TopicSettings = field(default_factory=TopicSettings)

    def __post_init__(self) -> None:
        if self.topic.overflow != Overflow.EVICT:
            problem = (
                "overflow cannot be a default: only an explicit create may ask for a lossless topic"
            )
            raise ValueError(problem)
        if self.topic.table:
            problem = "table cannot be a default: only an explicit create may ask for a table"
            raise ValueError(problem)

    def limits(self) -> dict[str, int | float | bool]:
        """Returns the name and value of every limit, for people and for `describe`."""
        found: dict[str, int | float | bool] = {}
        for item in fields(self):
            if item.name != "topic":
                found[item.name] = getattr(self, item.name)
        return found
