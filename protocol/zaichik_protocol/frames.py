"""Every frame of the protocol, declared once: what can be said, and how it is laid out in bytes.

A frame is a dataclass that is never changed. Each of its fields says how it is encoded and what it
means; the order of the fields is their order on the wire. From this declaration follow the codec,
the tables, drawings and hexdumps of `protocol/README.md`, and `zaichik dissect`. The same classes
serve client and broker: what one encodes is equal to what the other decodes.

The `id` every frame begins with is the request's in requests and replies, and the subscription's in
events. Requests are numbered from 1, a reply is its request's number with the top bit set, events
are numbered from 0x40. Durations are milliseconds, times microseconds since 1970, sizes bytes.
"""

# Not compiled: its classes are made by a decorator, out of a declaration.

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

from zaichik_protocol import layout
from zaichik_protocol.batch import Batch, bitmap_size
from zaichik_protocol.layout import (
    BATCH,
    DELTAS,
    I64,
    MAGIC,
    NUMBERS,
    REST,
    SETTINGS,
    TEXT,
    U8,
    U16,
    U32,
    U64,
)
from zaichik_protocol.names import FOREVER, PROTOCOL_VERSION, Start

REPLY = 0x80

FrameClass = TypeVar("FrameClass", bound="Frame")


def wire(kind: layout.FieldType, meaning: str, *, only: str = "", **options: Any) -> Any:
    """A field of the body: how it is laid out, and what it means.

    With `only`, it is there if that flag is set, and has its default otherwise.
    """
    return dataclasses.field(metadata={"kind": kind, "meaning": meaning, "only": only}, **options)


def flag(bit: int, *, default: bool) -> Any:
    """A field that is a bit of the header's flags."""
    return dataclasses.field(metadata={"bit": bit}, default=default, kw_only=True)


@dataclass_transform(frozen_default=True, field_specifiers=(wire, flag))
def _value(cls: type[FrameClass]) -> type[FrameClass]:
    """A dataclass whose objects never change.

    Type checkers enforce it; doing so at run time would double the cost.
    """
    return dataclasses.dataclass(slots=True, unsafe_hash=True)(cls)


@_value
class Frame:
    """What all frames have.

    Attributes:
        TYPE: the number on the wire.
        FLAGS: the bits of the header's flags, by the attributes that stand for them.
        FIELDS: of the body, in their order.
        id: see above.
    """

    TYPE: ClassVar[int]
    FLAGS: ClassVar[dict[str, int]]
    FIELDS: ClassVar[tuple[layout.Field, ...]]

    id: int

    def misfit(self) -> str:
        """Returns the field that does not go with the others; "" if there is none.

        A field that is there only with a flag cannot be set without it. So this is not asked of a
        frame that could have such fields and has none.
        """
        return ""


@dataclass_transform(frozen_default=True, field_specifiers=(wire, flag))
def frame(number: int) -> Callable[[type[FrameClass]], type[FrameClass]]:
    """Declare a class as the frame with this number on the wire."""

    def declare(cls: type[FrameClass]) -> type[FrameClass]:
        declared = _value(cls)
        fields = dataclasses.fields(declared)
        declared.TYPE = number
        declared.FLAGS = {
            item.name: item.metadata["bit"] for item in fields if "bit" in item.metadata
        }
        declared.FIELDS = tuple(
            layout.Field(item.name, **item.metadata) for item in fields if "kind" in item.metadata
        )
        return declared

    return declare


# -- requests: client to broker ------------------------------------------------------------------


@frame(1)
class Hello(Frame):
    """The first frame of every connection."""

    magic: bytes = wire(MAGIC, "the letters ZAIK", default=b"ZAIK", kw_only=True)
    version_min: int = wire(
        U16, "oldest protocol version the client speaks", default=PROTOCOL_VERSION
    )
    version_max: int = wire(U16, "newest", default=PROTOCOL_VERSION)
    features: int = wire(U64, "bits of what it can do beyond the version", default=0)
    client: str = wire(TEXT, "its name, for the broker's log", default="")
    auth: int = wire(U8, "0 none, 1 token, 2 password", default=0)
    user: str = wire(TEXT, "who it is; empty with auth 0 and 1", default="")
    secret: str = wire(TEXT, "token or password; empty with auth 0", default="", repr=False)


@frame(2)
class CreateTopic(Frame):
    """Make a topic with the settings named; those not named take the broker's defaults."""

    topic: str = wire(TEXT, "its name: 1 to 200 bytes")
    settings: tuple[tuple[int, int], ...] = wire(
        SETTINGS, "a count u8, then that many of setting u8 and value u64", default=()
    )


@frame(3)
class Publish(Frame):
    """Append a batch to a topic. With `producer` 0 it is not numbered, and not safe to retry."""

    producer: int = wire(U64, "0: this batch is not numbered", default=0, kw_only=True)
    sequence: int = wire(
        U64,
        "the batch's number, counted by the producer; 0 with producer 0",
        default=0,
        kw_only=True,
    )
    topic: str = wire(TEXT, "where to; created if it does not exist")
    batch: Batch = wire(BATCH, "the messages: all the rest of the frame")
    tombstones: bool = flag(1, default=False)


@frame(4)
class Subscribe(Frame):
    """Read a topic from `start` on. The frame's id becomes the subscription's."""

    topic: str = wire(TEXT, "what to read; created if it does not exist")
    name: str = wire(TEXT, "empty: anonymous, its position dies with the connection", default="")
    start: int = wire(U8, "0 earliest, 1 latest, 2 an offset, 3 a time", default=Start.EARLIEST)
    value: int = wire(
        U64, "the offset, or the time in µs since 1970; 0 for earliest and latest", default=0
    )
    epoch: int = wire(U64, "the epoch the client believes in; 0: any", default=0)
    until: int = wire(
        U64, "the subscription ends before this offset; all ones: never", default=FOREVER
    )
    credit: int = wire(U32, "messages that may be in flight, at least 1", default=1)
    credit_bytes: int = wire(
        U32, "bytes of keys and payloads that may be in flight, at least 1", default=8 * 1024 * 1024
    )
    owner: int = wire(
        U64,
        "only with OWNED: which subscription asks, a random number, not 0",
        only="owned",
        default=0,
    )
    attempt: int = wire(
        U32,
        "only with OWNED: greater each time that owner asks for the name",
        only="owned",
        default=0,
    )
    timeout_ms: int = wire(
        U32,
        "only with SHARED: how long it may have a message; 0: for ever",
        only="shared",
        default=0,
        kw_only=True,
    )
    max_deliveries: int = wire(
        U16,
        "only with SHARED: after so many that failed, a message is dead; 0: never",
        only="shared",
        default=0,
        kw_only=True,
    )
    tickets: tuple[int, ...] = wire(
        NUMBERS,
        "only with SHARED: those that its program still has: a count u32, then as many u64",
        only="shared",
        default=(),
        kw_only=True,
    )
    owned: bool = flag(1, default=False)
    shared: bool = flag(2, default=False)
    by_key: bool = flag(4, default=False)


@frame(5)
class Unsubscribe(Frame):
    """End a subscription. `forget` also drops a named one's position."""

    subscription: int = wire(U32, "the id of the Subscribe")
    forget: bool = flag(1, default=False)


@frame(6)
class Commit(Frame):
    """Settle every message below `next`, so that as many more may come."""

    subscription: int = wire(U32, "the id of the Subscribe")
    next: int = wire(U64, "everything below this offset is settled")


@frame(7)
class Ping(Frame):
    """Ask for a sign of life; the value comes back."""

    value: int = wire(U64, "anything", default=0)


@frame(8)
class Close(Frame):
    """Finish what was sent before, then close."""


@frame(9)
class Describe(Frame):
    """Ask for the state of the broker, its topics, subscriptions or connections.

    The answer comes a page at a time.
    """

    kind: int = wire(U8, "0 to 3: broker, topics, subscriptions, connections; 4 to 7: see below")
    prefix: str = wire(
        TEXT, "only names that begin so; with kinds 5 to 7, the name of the topic", default=""
    )
    after: str = wire(TEXT, "only names after this one; empty: from the first", default="")
    limit: int = wire(U16, "names a page, at least 1", default=100)


@frame(10)
class Delete(Frame):
    """Take away a topic with all that belongs to it.

    With `if_empty` only if it holds nothing and has no reader.
    """

    topic: str = wire(TEXT, "its name")
    epoch: int = wire(U64, "the epoch it must have; 0: any", default=0)
    if_empty: bool = flag(1, default=False)


@frame(11)
class Disconnect(Frame):
    """End another connection."""

    connection: int = wire(U64, "its number, as Describe tells it")


@frame(12)
class Explain(Frame):
    """Ask what became of one message: that at an offset, or one of a key."""

    topic: str = wire(TEXT, "its name")
    subscription: str = wire(
        TEXT, "only for this one: its name, or CONNECTION.ID; empty: for each", default=""
    )
    offset: int = wire(U64, "which message, if `key` is empty", default=0)
    time: int = wire(U64, "with a key: the message nearest to this time; 0: the newest", default=0)
    key: bytes = wire(REST, "empty: the message at `offset`; else one of this key", default=b"")


@frame(13)
class AdvanceClock(Frame):
    """Move a clock that stands still otherwise forward to a time."""

    to_us: int = wire(U64, "µs since 1970, not less than the clock's time")


@frame(14)
class Settle(Frame):
    """Say what became of messages that a shared subscription was handed."""

    subscription: int = wire(U32, "the id of the Subscribe")
    outcome: int = wire(U8, "0 done, 1 retry, 2 reject, 3 release, 4 give back, 5 lose, 6 extend")
    delay_ms: int = wire(
        U64,
        "only with DELAYED: a retry comes again after it; an extend lasts as long",
        only="delayed",
        default=0,
        kw_only=True,
    )
    reason: str = wire(TEXT, "why, for people, if it failed", default="")
    tickets: tuple[int, ...] = wire(
        NUMBERS, "which messages: a count u32, then as many u64", default=()
    )
    delayed: bool = flag(1, default=False)


@frame(15)
class Dead(Frame):
    """List, revive or forget the dead messages of a shared name, or forget the name."""

    topic: str = wire(TEXT, "the name's topic")
    name: str = wire(TEXT, "the name")
    user: str = wire(TEXT, "whose it is; empty: that of the user who asks", default="")
    action: int = wire(U8, "0 list, 1 revive, 2 forget, 3 forget the name", default=0)
    from_offset: int = wire(U64, "list, or act on, what has this offset or a later one", default=0)
    count: int = wire(U16, "how many, at most; at least 1", default=100)
    offsets: tuple[int, ...] = wire(
        NUMBERS,
        "only with SELECTED: of these alone: a count u32, then as many u64",
        only="selected",
        default=(),
    )
    selected: bool = flag(1, default=False)


# -- replies: broker to client -------------------------------------------------------------------


@frame(REPLY | Hello.TYPE)
class Welcome(Frame):
    """The Hello was accepted. The broker's limits, so that a client need not run into them."""

    version: int = wire(U16, "the newest both speak")
    features: int = wire(U64, "the bits both set")
    boot: int = wire(U64, "a random number that this run of the broker keeps; never 0")
    max_frame: int = wire(U32, "largest length field accepted from now on")
    max_batch: int = wire(U32, "most messages in one batch")
    max_message: int = wire(
        U32, "most bytes of keys and payloads in one batch, and so in one message"
    )
    max_credit: int = wire(U32, "most messages a subscription may have in flight")
    idle_ms: int = wire(
        U32, "silence after which a client that promised HEARTBEAT is closed; 0: never"
    )
    broker: str = wire(TEXT, "its name and version")


@frame(REPLY | CreateTopic.TYPE)
class TopicCreated(Frame):
    """The topic is there with these settings; `created` is 1 if this request made it."""

    created: int = wire(U8, "1 if this request made the topic, 0 if it was there")
    epoch: int = wire(
        U64, "the topic's identity: µs since 1970 when it was made, or a little more; never 0"
    )
    settings: tuple[tuple[int, int], ...] = wire(
        SETTINGS, "all settings in force, in the order of their numbers"
    )


@frame(REPLY | Publish.TYPE)
class Published(Frame):
    """The batch is readable: `stored` messages, from `first_offset` on.

    Bit i of `dropped`, lowest bit of each byte first, is set if message i was compacted away; no
    bytes if none was.
    """

    first_offset: int = wire(
        U64, "offset of the first message stored; the next one to come if none was"
    )
    stored: int = wire(U32, "messages stored: they have consecutive offsets")
    compacted: int = wire(U32, "messages dropped because their key's window was open")
    subscribers: int = wire(U32, "subscriptions of the topic at that moment")
    dropped: bytes = wire(
        REST,
        "if compacted > 0: a bit a message, lowest bit first, 1 if it was dropped",
        default=b"",
    )
    duplicate: bool = flag(1, default=False)
    durable: bool = flag(2, default=False)

    def misfit(self) -> str:
        """There are as many bits as messages, if any was dropped."""
        if not self.compacted:
            return "dropped" if self.dropped else ""
        size = bitmap_size(self.stored, self.compacted)
        return "" if len(self.dropped) == size else "dropped"


@frame(REPLY | Subscribe.TYPE)
class Subscribed(Frame):
    """The subscription stands at `start`; what lies below `live` is history."""

    epoch: int = wire(U64, "the topic's identity")
    start: int = wire(U64, "the next offset to be delivered, if it is still there")
    live: int = wire(U64, "the next offset to be published: what lies below is history")
    committed: int = wire(U64, "everything below is settled")
    named: bool = flag(1, default=False)
    resumed: bool = flag(2, default=False)
    table: bool = flag(4, default=False)


@frame(REPLY | Unsubscribe.TYPE)
class Unsubscribed(Frame):
    """Nothing more comes from that subscription."""


@frame(REPLY | Commit.TYPE)
class Committed(Frame):
    """Everything below `committed` is settled."""

    committed: int = wire(U64, "everything below is settled")


@frame(REPLY | Ping.TYPE)
class Pong(Frame):
    """The Ping's value."""

    value: int = wire(U64, "the Ping's")


@frame(REPLY | Close.TYPE)
class Closed(Frame):
    """The last frame of a connection that was closed in order."""


@frame(REPLY | Describe.TYPE)
class Described(Frame):
    """A page of JSON; `more` is 1 if another follows."""

    more: int = wire(U8, "1 if another page follows: ask again with `after` set to the last name")
    json: bytes = wire(REST, "UTF-8 JSON: all the rest of the frame")


@frame(REPLY | Delete.TYPE)
class Deleted(Frame):
    """The topic is gone."""


@frame(REPLY | Disconnect.TYPE)
class Disconnected(Frame):
    """That connection is ending: its peer is told, and nothing more of it is carried out."""


@frame(REPLY | Explain.TYPE)
class Explained(Frame):
    """What became of the message, as a list of verdicts."""

    json: bytes = wire(REST, "UTF-8 JSON: all the rest of the frame")


@frame(REPLY | AdvanceClock.TYPE)
class ClockAdvanced(Frame):
    """What that time ends has ended."""


@frame(REPLY | Settle.TYPE)
class Settled(Frame):
    """The messages are settled, but those whose tickets were late."""

    late: tuple[int, ...] = wire(
        NUMBERS, "tickets that were not open: a count u32, then as many u64", default=()
    )


@frame(REPLY | Dead.TYPE)
class DeadPage(Frame):
    """What was listed, or how many were revived or forgotten."""

    more: int = wire(U8, "1 if there are more, after the last that was listed or acted on")
    done: int = wire(U32, "how many were revived or forgotten")
    next: int = wire(U64, "where to go on: ask again with it as `from_offset`")
    json: bytes = wire(REST, "of a list, UTF-8 JSON: all the rest of the frame", default=b"")


@frame(0xFF)
class Error(Frame):
    """The request with this id failed (or, with id 0, one that asked for no reply)."""

    code: int = wire(U16, "which error")
    request_type: int = wire(
        U8, "the type of the request it answers; 0 if it was not read that far"
    )
    field: str = wire(TEXT, "the field at fault; empty if no single one is")
    retry_after_ms: int = wire(U32, "how long to wait before trying again; 0: not told")
    message: str = wire(TEXT, "cause and next step, for a person")
    retryable: bool = flag(1, default=False)
    fatal: bool = flag(2, default=False)


# -- events: broker to client, unasked -----------------------------------------------------------


@frame(0x40)
class Messages(Frame):
    """A batch for the subscription `id`.

    Message i has the offset `base + i`; with `holes` it has `base + deltas[i]`.
    """

    base: int = wire(U64, "offset of the first message")
    accepted_us: int = wire(I64, "when the broker accepted them: µs since 1970")
    ticket: int = wire(
        U64,
        "only with TICKETS: that of the first message; the others follow it by one each",
        only="tickets",
        default=0,
        kw_only=True,
    )
    number: int = wire(
        U16,
        "only with TICKETS: which delivery of each message this is, from 1",
        only="tickets",
        default=0,
        kw_only=True,
    )
    deltas: tuple[int, ...] = wire(
        DELTAS,
        "only with HOLES: a count u32 (the batch's), then as many u32",
        only="holes",
        default=(),
        kw_only=True,
    )
    batch: Batch = wire(BATCH, "the messages: all the rest of the frame")
    holes: bool = flag(1, default=False)
    redelivered: bool = flag(2, default=False)
    tickets: bool = flag(4, default=False)

    def misfit(self) -> str:
        """With HOLES, each message has its delta."""
        if not self.holes:
            return ""
        return "" if len(self.deltas) == self.batch.count else "deltas"


@frame(0x41)
class Lagged(Frame):
    """Messages were gone before subscription `id` got them.

    Their offsets are `from_offset` up to, not including, `to_offset`.
    """

    from_offset: int = wire(U64, "first offset missed")
    to_offset: int = wire(U64, "first offset not missed: the subscription goes on there")


@frame(0x42)
class SubscriptionEnded(Frame):
    """The subscription `id` ended at offset `next`."""

    code: int = wire(U16, "why")
    next: int = wire(U64, "the offset it stood at")
    text: str = wire(TEXT, "the same in words")


@frame(0x43)
class GoAway(Frame):
    """The broker is about to close this connection."""

    code: int = wire(U16, "why")
    text: str = wire(TEXT, "the same in words")


@frame(0x44)
class DeletionsMissed(Frame):
    """Tombstones of a table went before subscription `id` got them.

    What it holds of keys may have been deleted: to be exact, it begins again from the earliest.
    """

    below: int = wire(U64, "the tombstones that are gone have offsets below this one")


REQUESTS: tuple[type[Frame], ...] = (
    Hello,
    CreateTopic,
    Publish,
    Subscribe,
    Unsubscribe,
    Commit,
    Ping,
    Close,
    Describe,
    Delete,
    Disconnect,
    Explain,
    AdvanceClock,
    Settle,
    Dead,
)
REPLIES: tuple[type[Frame], ...] = (
    Welcome,
    TopicCreated,
    Published,
    Subscribed,
    Unsubscribed,
    Committed,
    Pong,
    Closed,
    Described,
    Deleted,
    Disconnected,
    Explained,
    ClockAdvanced,
    Settled,
    DeadPage,
    Error,
)
EVENTS: tuple[type[Frame], ...] = (
    Messages,
    Lagged,
    SubscriptionEnded,
    GoAway,
    DeletionsMissed,
)
