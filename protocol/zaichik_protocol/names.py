"""The numbers of the protocol that have names: features, settings, starts, outcomes and others."""

# Not compiled: numbers are looked up as they are.

from enum import IntEnum

PROTOCOL_VERSION = 1
DEFAULT_PORT = 8889
FOREVER = 2**64 - 1  # a duration without end; also an `until` that is never reached
HEARTBEAT = 1  # a bit of `features`: the client promises a byte every `idle_ms` / 3
OWNER = 2  # another: a Subscribe may name its owner
DURABLE = 4  # another: a Published says whether its batch is on a disk
TABLES = 8  # another: holes of a table are not taken for lag, and DeletionsMissed is known
SHARED = 16  # another: a Subscribe may share its name, and Settle and Dead are known


class Setting(IntEnum):
    """A topic's settings by their number on the wire."""

    RETENTION_TTL_MS = 1
    COMPACTION_WINDOW_MS = 2
    CAPACITY = 3
    MAX_BYTES = 4
    MAX_KEYS = 5
    JOURNAL_BYTES = 6
    OVERFLOW = 7
    DURABLE = 8
    LOG_BYTES = 9
    SEGMENT_BYTES = 10
    TABLE = 11
    TOMBSTONES_MS = 12


class Overflow(IntEnum):
    """What a topic does when its ring is full and a reader still needs its oldest messages.

    These are the setting's values.
    """

    EVICT = 0
    REJECT = 1


class Auth(IntEnum):
    """The kind of secret that a Hello has."""

    NONE = 0
    TOKEN = 1
    PASSWORD = 2


class Start(IntEnum):
    """Where a subscription begins."""

    EARLIEST = 0
    LATEST = 1
    OFFSET = 2
    TIME = 3


class Outcome(IntEnum):
    """What a Settle says of messages; `EXTEND` does not settle them.

    Attributes:
        DONE: they are done.
        RETRY: they failed: they come again, after a time.
        REJECT: they can never succeed: they are dead at once.
        RELEASE: the program has not opened them: as if they had not been handed out.
        GIVE_BACK: the program has opened them, and was stopped by something else (SHR-4b).
        LOSE: the program failed with several messages open, and cannot tell which (SHR-6).
        EXTEND: they take longer.
    """

    DONE = 0
    RETRY = 1
    REJECT = 2
    RELEASE = 3
    GIVE_BACK = 4
    LOSE = 5
    EXTEND = 6


class DeadAction(IntEnum):
    """What a Dead asks for."""

    LIST = 0
    REVIVE = 1
    FORGET = 2
    FORGET_NAME = 3


class Kind(IntEnum):
    """What a Describe asks about."""

    BROKER = 0
    TOPICS = 1
    SUBSCRIPTIONS = 2
    CONNECTIONS = 3
    COUNTERS = 4
    WINDOWS = 5
    MARKS = 6
    FURTHEST = 7
