"""How every frame lies in bytes, declared once, in construct.

This declaration is the reference: the codec reads and writes by it, and the tables, drawings and hexdumps of
`protocol/README.md` as well as `zaichik dissect` are generated from it. The text after each `*` is that
field's documentation.

Four traps of construct that shape the file:

* Compiled parsers accept truncated input. These are interpreted.
* Bytes left over after a Struct pass unnoticed, unless the Struct ends in `Terminated`.
* `PascalString` decodes while it parses, so that bad UTF-8 would look like a bad frame. Strings stay bytes
  here (`TEXT`); the codec decodes them and can say which *field* is wrong.
* A `Switch` without a match yields None in silence. The codec looks types up in a dict instead.
"""

from typing import Any

from construct import (
    Array,
    Bytes,
    Const,
    Construct,
    ConstructError,
    GreedyBytes,
    If,
    Int8ul,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64sl,
    Int64ul,
    Prefixed,
    PrefixedArray,
    Struct,
    Terminated,
    this,
)

from zaichik_protocol import frames

MAGIC = b"ZAIK"

TEXT = Prefixed(Int16ul, GreedyBytes)
BATCH = GreedyBytes  # checked by batch.Batch, so that a bad batch is a bad field and not a bad frame
SETTINGS = PrefixedArray(Int8ul, Struct("setting" / Int8ul, "value" / Int64ul))
_HOLES = this._params.holes  # noqa: SLF001 (construct's public name for what parse() was told)
DELTAS = PrefixedArray(Int32ul, Int32ul)

HEADER = Struct(
    "length" / Int32ul * "bytes that follow this field: 8 + the body's",
    "type" / Int8ul * "which frame this is",
    "flags" / Int8ul * "bits whose meaning the type defines; all others 0",
    "zero" / Int16ul * "always 0",
    "id" / Int32ul * "of the request, in requests and replies; of the subscription, in events",
)
LENGTH_SIZE = 4
HEADER_SIZE = HEADER.sizeof()
MIN_LENGTH = HEADER_SIZE - LENGTH_SIZE

# The columns inside a `batch` field. The codec does not use it (batch.py reads the same bytes with two calls
# of the struct module); it documents them, and a test holds the two against each other.
BATCH_COLUMNS = Struct(
    "count" / Int32ul * "messages, at least 1",
    "key_offsets" / Array(this.count + 1, Int32sl) * "message i's key is key bytes [i] … [i + 1]; empty: no key",
    "payload_offsets" / Array(this.count + 1, Int32sl) * "message i's payload is payload bytes [i] … [i + 1]",
    "key_bytes" / Bytes(lambda known: known.key_offsets[-1]) * "all keys, end to end",
    "payload_bytes" / Bytes(lambda known: known.payload_offsets[-1]) * "all payloads, end to end",
    Terminated,
)


def reason(error: ConstructError) -> str:
    """What construct says, without the path of its parser, which it puts on a line before."""
    return str(error).rpartition("\n")[2]


def _body(*fields: "Construct[Any, Any]") -> Struct:
    return Struct(*fields, Terminated)


BODIES: dict[type[frames.Frame], Struct] = {
    frames.Hello: _body(
        "magic" / Const(MAGIC) * "the letters ZAIK",
        "version_min" / Int16ul * "oldest protocol version the client speaks",
        "version_max" / Int16ul * "newest",
        "features" / Int64ul * "bits of what it can do beyond the version",
        "client" / TEXT * "its name, for the broker's log",
        "auth" / Int8ul * "0 none, 1 token, 2 password",
        "user" / TEXT * "who it is; empty with auth 0 and 1",
        "secret" / TEXT * "token or password; empty with auth 0",
    ),
    frames.CreateTopic: _body(
        "topic" / TEXT * "its name: 1 to 200 bytes",
        "settings" / SETTINGS * "a count u8, then that many of setting u8 and value u64",
    ),
    frames.Publish: _body(
        "producer" / Int64ul * "0: this batch is not numbered",
        "sequence" / Int64ul * "the batch's number, counted by the producer; 0 with producer 0",
        "topic" / TEXT * "where to; created if it does not exist",
        "batch" / BATCH * "the messages: all the rest of the frame",
    ),
    frames.Subscribe: _body(
        "topic" / TEXT * "what to read; created if it does not exist",
        "name" / TEXT * "empty: anonymous, its position dies with the connection",
        "start" / Int8ul * "0 earliest, 1 latest, 2 an offset, 3 a time",
        "value" / Int64ul * "the offset, or the time in µs since 1970; 0 for earliest and latest",
        "epoch" / Int64ul * "the epoch the client believes in; 0: any",
        "until" / Int64ul * "the subscription ends before this offset; all ones: never",
        "credit" / Int32ul * "messages that may be in flight, at least 1",
        "credit_bytes" / Int32ul * "bytes of keys and payloads that may be in flight, at least 1",
    ),
    frames.Unsubscribe: _body("subscription" / Int32ul * "the id of the Subscribe"),
    frames.Commit: _body(
        "subscription" / Int32ul * "the id of the Subscribe",
        "next" / Int64ul * "everything below this offset is settled",
    ),
    frames.Ping: _body("value" / Int64ul * "anything"),
    frames.Close: _body(),
    frames.Describe: _body(
        "kind" / Int8ul * "0 the broker, 1 topics, 2 subscriptions",
        "prefix" / TEXT * "only names that begin so",
        "after" / TEXT * "only names after this one; empty: from the first",
        "limit" / Int16ul * "names a page, at least 1",
    ),
    frames.Welcome: _body(
        "version" / Int16ul * "the newest both speak",
        "features" / Int64ul * "the bits both set",
        "boot" / Int64ul * "a random number that this run of the broker keeps; never 0",
        "max_frame" / Int32ul * "largest length field accepted from now on",
        "max_batch" / Int32ul * "most messages in one batch",
        "max_message" / Int32ul * "most bytes of keys and payloads in one batch, and so in one message",
        "max_credit" / Int32ul * "most messages a subscription may have in flight",
        "idle_ms" / Int32ul * "silence after which a client that promised HEARTBEAT is closed; 0: never",
        "broker" / TEXT * "its name and version",
    ),
    frames.TopicCreated: _body(
        "created" / Int8ul * "1 if this request made the topic, 0 if it was there",
        "epoch" / Int64ul * "the topic's identity: µs since 1970 when it was made; never 0",
        "settings" / SETTINGS * "all settings in force, in the order of their numbers",
    ),
    frames.Published: _body(
        "first_offset" / Int64ul * "offset of the first message stored; the next one to come if none was",
        "stored" / Int32ul * "messages stored: they have consecutive offsets",
        "compacted" / Int32ul * "messages dropped because their key's window was open",
        "subscribers" / Int32ul * "subscriptions of the topic at that moment",
        "dropped" / GreedyBytes * "if compacted > 0: a bit a message, lowest bit first, 1 if it was dropped",
    ),
    frames.Subscribed: _body(
        "epoch" / Int64ul * "the topic's identity",
        "start" / Int64ul * "the next offset to be delivered, if it is still there",
        "live" / Int64ul * "the next offset to be published: what lies below is history",
        "committed" / Int64ul * "everything below is settled",
    ),
    frames.Unsubscribed: _body(),
    frames.Committed: _body("committed" / Int64ul * "everything below is settled"),
    frames.Pong: _body("value" / Int64ul * "the Ping's"),
    frames.Closed: _body(),
    frames.Described: _body(
        "more" / Int8ul * "1 if another page follows: ask again with `after` set to the last name",
        "json" / GreedyBytes * "UTF-8 JSON: all the rest of the frame",
    ),
    frames.Error: _body(
        "code" / Int16ul * "which error",
        "request_type" / Int8ul * "the type of the request it answers; 0 if it was not read that far",
        "field" / TEXT * "the field at fault; empty if no single one is",
        "retry_after_ms" / Int32ul * "how long to wait before trying again; 0: not told",
        "message" / TEXT * "cause and next step, for a person",
    ),
    frames.Messages: _body(
        "base" / Int64ul * "offset of the first message",
        "accepted_us" / Int64sl * "when the broker accepted them: µs since 1970",
        "deltas"
        / If(_HOLES, DELTAS)
        * "only with HOLES: a count u32 (the batch's), then u32 each: message i has offset base + delta[i]",
        "batch" / BATCH * "the messages: all the rest of the frame",
    ),
    frames.Lagged: _body(
        "from_offset" / Int64ul * "first offset missed",
        "to_offset" / Int64ul * "first offset not missed: the subscription goes on there",
    ),
    frames.SubscriptionEnded: _body(
        "code" / Int16ul * "why",
        "next" / Int64ul * "the offset it stood at",
        "text" / TEXT * "the same in words",
    ),
    frames.GoAway: _body("code" / Int16ul * "why", "text" / TEXT * "the same in words"),
}
