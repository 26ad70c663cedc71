"""Every frame of the protocol as a frozen dataclass: the vocabulary that client and broker share.

The same classes serve both sides: what one encodes is equal to what the other decodes. A class knows its
number on the wire (`TYPE`) and the meaning of its flag bits (`FLAGS`: attribute → bit); how its body lies in
bytes is told in `layout`. The `id` every frame begins with is the request's id in requests and replies, and
the subscription's in events.

Requests are numbered from 1, a reply is its request's number with the top bit set (`| 0x80`), events are
numbered from 0x40. Durations are milliseconds, times microseconds since 1970, sizes bytes.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from zaichik_protocol.batch import Batch

PROTOCOL_VERSION = 1
FOREVER = 2**64 - 1  # a duration without end; also an `until` that is never reached
REPLY = 0x80


class Setting(IntEnum):
    """A topic's settings by their number on the wire."""

    RETENTION_TTL_MS = 1
    COMPACTION_WINDOW_MS = 2
    CAPACITY = 3
    MAX_BYTES = 4
    MAX_KEYS = 5


class Start(IntEnum):
    """Where a subscription begins."""

    EARLIEST = 0
    LATEST = 1
    OFFSET = 2
    TIME = 3


class Kind(IntEnum):
    """What a Describe asks about."""

    BROKER = 0
    TOPICS = 1
    SUBSCRIPTIONS = 2


@dataclass(frozen=True, slots=True)
class Frame:
    """What all frames have: an id, a type and flag bits."""

    id: int

    TYPE: ClassVar[int]
    FLAGS: ClassVar[dict[str, int]] = {}


# -- requests: client to broker ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(Frame):
    """The first frame of every connection."""

    TYPE: ClassVar[int] = 1
    version_min: int = PROTOCOL_VERSION
    version_max: int = PROTOCOL_VERSION
    features: int = 0
    client: str = ""
    auth: int = 0
    user: str = ""
    secret: str = ""


@dataclass(frozen=True, slots=True)
class CreateTopic(Frame):
    """Make a topic with the settings named; those not named take the broker's defaults."""

    TYPE: ClassVar[int] = 2
    topic: str
    settings: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Publish(Frame):
    """Append a batch to a topic. `producer` 0 means: not numbered, not safe to retry."""

    TYPE: ClassVar[int] = 3
    topic: str
    batch: Batch
    producer: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Subscribe(Frame):
    """Read a topic from `start` on. The frame's id becomes the subscription's."""

    TYPE: ClassVar[int] = 4
    topic: str
    name: str = ""
    start: int = Start.EARLIEST
    value: int = 0
    epoch: int = 0
    until: int = FOREVER
    credit: int = 1
    credit_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Unsubscribe(Frame):
    """End a subscription. `forget` also drops a named one's position."""

    TYPE: ClassVar[int] = 5
    FLAGS: ClassVar[dict[str, int]] = {"forget": 1}
    subscription: int
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Commit(Frame):
    """Settle every message below `next`, so that as many more may come."""

    TYPE: ClassVar[int] = 6
    subscription: int
    next: int


@dataclass(frozen=True, slots=True)
class Ping(Frame):
    """Ask for a sign of life; the value comes back."""

    TYPE: ClassVar[int] = 7
    value: int = 0


@dataclass(frozen=True, slots=True)
class Close(Frame):
    """Finish what was sent before, then close."""

    TYPE: ClassVar[int] = 8


@dataclass(frozen=True, slots=True)
class Describe(Frame):
    """Ask what the broker knows of itself, its topics or its subscriptions, a page at a time."""

    TYPE: ClassVar[int] = 9
    kind: int
    prefix: str = ""
    after: str = ""
    limit: int = 100


# -- replies: broker to client -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Welcome(Frame):
    """The Hello was accepted. The broker's limits, so that a client need not run into them."""

    TYPE: ClassVar[int] = REPLY | Hello.TYPE
    version: int
    features: int
    boot: int
    max_frame: int
    max_batch: int
    max_message: int
    max_credit: int
    idle_ms: int
    broker: str


@dataclass(frozen=True, slots=True)
class TopicCreated(Frame):
    """The topic is there with these settings; `created` is 1 if this request made it."""

    TYPE: ClassVar[int] = REPLY | CreateTopic.TYPE
    created: int
    epoch: int
    settings: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Published(Frame):
    """The batch is readable: `stored` messages, from `first_offset` on.

    Bit i of `dropped`, lowest bit of each byte first, is set if message i was compacted away; no bytes
    if none was.
    """

    TYPE: ClassVar[int] = REPLY | Publish.TYPE
    FLAGS: ClassVar[dict[str, int]] = {"duplicate": 1}
    first_offset: int
    stored: int
    compacted: int
    subscribers: int
    dropped: bytes = b""
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Subscribed(Frame):
    """The subscription stands at `start`; what lies below `live` is history."""

    TYPE: ClassVar[int] = REPLY | Subscribe.TYPE
    FLAGS: ClassVar[dict[str, int]] = {"named": 1, "resumed": 2}
    epoch: int
    start: int
    live: int
    committed: int
    named: bool = False
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Unsubscribed(Frame):
    """Nothing more comes from that subscription."""

    TYPE: ClassVar[int] = REPLY | Unsubscribe.TYPE


@dataclass(frozen=True, slots=True)
class Committed(Frame):
    """Everything below `committed` is settled."""

    TYPE: ClassVar[int] = REPLY | Commit.TYPE
    committed: int


@dataclass(frozen=True, slots=True)
class Pong(Frame):
    """The Ping's value."""

    TYPE: ClassVar[int] = REPLY | Ping.TYPE
    value: int


@dataclass(frozen=True, slots=True)
class Closed(Frame):
    """The last frame of a connection that was closed in order."""

    TYPE: ClassVar[int] = REPLY | Close.TYPE


@dataclass(frozen=True, slots=True)
class Described(Frame):
    """A page of JSON; `more` is 1 if another follows."""

    TYPE: ClassVar[int] = REPLY | Describe.TYPE
    more: int
    json: bytes


@dataclass(frozen=True, slots=True)
class Error(Frame):
    """The request with this id failed (or, with id 0, one that asked for no reply)."""

    TYPE: ClassVar[int] = 0xFF
    FLAGS: ClassVar[dict[str, int]] = {"retryable": 1, "fatal": 2}
    code: int
    request_type: int
    field: str
    retry_after_ms: int
    message: str
    retryable: bool = False
    fatal: bool = False


# -- events: broker to client, unasked -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Messages(Frame):
    """A batch for the subscription `id`.

    Message i has the offset `base + i`; with `holes` it has `base + deltas[i]`.
    """

    TYPE: ClassVar[int] = 0x40
    FLAGS: ClassVar[dict[str, int]] = {"holes": 1, "redelivered": 2}
    base: int
    accepted_us: int
    batch: Batch
    deltas: tuple[int, ...] = ()
    holes: bool = False
    redelivered: bool = False


@dataclass(frozen=True, slots=True)
class Lagged(Frame):
    """Offsets from `from_offset` to before `to_offset` were gone before subscription `id` got them."""

    TYPE: ClassVar[int] = 0x41
    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class SubscriptionEnded(Frame):
    """The subscription `id` ended at offset `next`."""

    TYPE: ClassVar[int] = 0x42
    code: int
    next: int
    text: str


@dataclass(frozen=True, slots=True)
class GoAway(Frame):
    """The broker is about to close this connection."""

    TYPE: ClassVar[int] = 0x43
    code: int
    text: str


REQUESTS: tuple[type[Frame], ...] = (
    Hello, CreateTopic, Publish, Subscribe, Unsubscribe, Commit, Ping, Close, Describe,
)  # fmt: skip
REPLIES: tuple[type[Frame], ...] = (
    Welcome, TopicCreated, Published, Subscribed, Unsubscribed, Committed, Pong, Closed, Described, Error,
)  # fmt: skip
EVENTS: tuple[type[Frame], ...] = (Messages, Lagged, SubscriptionEnded, GoAway)
