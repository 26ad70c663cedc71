"""A client of raw bytes, written from protocol/README.md with `struct` alone.

It shares no code with the project's codec, so that one mistake cannot hide another: what a broker
sends is taken apart here, down to the last byte, by a second reading of the same text.
"""

import itertools
import struct
from collections import deque

import anyio

(
    HELLO,
    CREATE,
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    COMMIT,
    PING,
    CLOSE,
    DESCRIBE,
    DELETE,
    DISCONNECT,
) = range(1, 12)
EXPLAIN = 12
SETTLE, DEAD = 14, 15
WELCOME, CREATED, PUBLISHED, SUBSCRIBED, UNSUBSCRIBED, COMMITTED, PONG, CLOSED, DESCRIBED = range(
    0x81, 0x8A
)
ADVANCE_CLOCK = 13
DELETED, DISCONNECTED, EXPLAINED, CLOCK_ADVANCED = 0x8A, 0x8B, 0x8C, 0x8D
SETTLED, DEAD_PAGE = 0x8E, 0x8F
MESSAGES, LAGGED, ENDED, GO_AWAY, DELETIONS_MISSED = range(0x40, 0x45)
ERROR = 0xFF

TTL, WINDOW, CAPACITY, MAX_BYTES, MAX_KEYS = range(1, 6)  # the settings of a topic
OVERFLOW, TABLE, TOMBSTONES_MS = 7, 11, 12
EARLIEST, LATEST, OFFSET, TIME = range(4)  # where a subscription starts
FOREVER = NEVER = 2**64 - 1
RETRYABLE, FATAL = 1, 2  # flags of an Error
# flags of Subscribe, of Delete, of Publish and of Unsubscribe
OWNED = IF_EMPTY = TOMBSTONES = FORGET = 1
SHARED, BY_KEY = 2, 4  # flags of Subscribe
DELAYED = SELECTED = 1  # flags of Settle and of Dead
HOLES, REDELIVERED, TICKETS = 1, 2, 4  # flags of Messages
DONE, RETRY, REJECT, RELEASE, GIVE_BACK, LOSE, EXTEND = range(7)  # how a message is settled
LIST, REVIVE, FORGET_DEAD, FORGET_NAME = range(4)  # what a Dead asks for
IN_TABLE = 4  # a flag of Subscribed
OWNER, TABLES, SHARED_NAMES = 2, 8, 16  # features

MALFORMED, FRAME_TOO_LARGE, HELLO_REQUIRED, UNSUPPORTED_VERSION = 1, 2, 3, 4
INVALID_FIELD, UNSUPPORTED, NO_SUCH_TOPIC, TOPIC_EXISTS, NO_SUCH_SUBSCRIPTION = 64, 65, 66, 67, 70
NOT_IN_FLIGHT, OFFSET_AHEAD, EPOCH_CHANGED, MESSAGE_TOO_LARGE, BATCH_TOO_LARGE = 71, 72, 73, 75, 76
TOPIC_FULL = 77
PRODUCER_UNKNOWN, NOT_EMPTY, TAKEN_OVER, TABLE_FULL, NO_SUCH_NAME = 79, 81, 82, 85, 86
RETRY_HELPS = {5, 6, 7, 9, 10, 77, 80}

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass

# What a broker may send: the fields of each body, and the flags it may carry.
LIMITS = "max_frame:u32 max_batch:u32 max_message:u32 max_credit:u32 idle_ms:u32"
LAYOUTS = {
    WELCOME: (f"version:u16 features:u64 boot:u64 {LIMITS} broker:str", 0),
    CREATED: ("created:u8 epoch:u64 settings:settings", 0),
    PUBLISHED: ("first_offset:u64 stored:u32 compacted:u32 subscribers:u32 dropped:rest", 0x01),
    SUBSCRIBED: ("epoch:u64 start:u64 live:u64 committed:u64", 0x03 | IN_TABLE),
    UNSUBSCRIBED: ("", 0),
    COMMITTED: ("committed:u64", 0),
    PONG: ("value:u64", 0),
    CLOSED: ("", 0),
    DESCRIBED: ("more:u8 json:rest", 0),
    DELETED: ("", 0),
    DISCONNECTED: ("", 0),
    EXPLAINED: ("json:rest", 0),
    CLOCK_ADVANCED: ("", 0),
    ERROR: ("code:u16 request_type:u8 field:str retry_after_ms:u32 message:str", RETRYABLE | FATAL),
    SETTLED: ("late:u64[]", 0),
    DEAD_PAGE: ("more:u8 done:u32 next:u64 json:rest", 0),
    # HOLES is sent in tables only, and the other flags only where something is named.
    MESSAGES: (
        "base:u64 accepted_us:i64 ticket:u64 number:u16 deltas:deltas batch:rest",
        HOLES | REDELIVERED | TICKETS,
    ),
    LAGGED: ("from_offset:u64 to_offset:u64", 0),
    ENDED: ("code:u16 next:u64 text:str", 0),
    GO_AWAY: ("code:u16 text:str", 0),
    DELETIONS_MISSED: ("below:u64", 0),
}
INTEGERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i64": "<q"}


# ----------------------------------------------------------------------------------------------
# building


def frame(kind, request_id, body=b"", *, flags=0, zero=0):
    return struct.pack("<IBBHI", 8 + len(body), kind, flags, zero, request_id) + body


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<H", len(data)) + data


def batch(messages):
    """The columns of messages, each a payload or a pair of key and payload."""
    pairs = [message if isinstance(message, tuple) else (b"", message) for message in messages]
    columns = list(zip(*pairs, strict=True))
    offsets = [
        struct.pack(f"<{len(pairs) + 1}i", *itertools.accumulate(map(len, c), initial=0))
        for c in columns
    ]
    return (
        struct.pack("<I", len(pairs))
        + b"".join(offsets)
        + b"".join(columns[0])
        + b"".join(columns[1])
    )


def hello(
    *, magic=b"ZAIK", oldest=1, newest=1, features=0, client="raw", auth=0, user="", secret=""
):
    head = magic + struct.pack("<HHQ", oldest, newest, features)
    return head + string(client) + struct.pack("<B", auth) + string(user) + string(secret)


def create(topic, settings=()):
    """A CreateTopic's body; settings are pairs, or a dict."""
    pairs = list(settings.items() if isinstance(settings, dict) else settings)
    return (
        string(topic)
        + struct.pack("<B", len(pairs))
        + b"".join(struct.pack("<BQ", *pair) for pair in pairs)
    )


def publish(topic, messages, *, producer=0, sequence=0):
    columns = messages if isinstance(messages, bytes) else batch(messages)
    return struct.pack("<QQ", producer, sequence) + string(topic) + columns


def subscribe(
    topic,
    *,
    start=EARLIEST,
    value=0,
    epoch=0,
    until=NEVER,
    credit=1000,
    credit_bytes=1 << 23,
    name="",
):
    rest = struct.pack("<BQQQII", start, value, epoch, until, credit, credit_bytes)
    return string(topic) + string(name) + rest


def owned(topic, owner, attempt, **how):
    """A Subscribe's body with OWNED."""
    return subscribe(topic, **how) + struct.pack("<QI", owner, attempt)


def numbers(values):
    values = list(values)
    return struct.pack(f"<I{len(values)}Q", len(values), *values)


def shared(
    topic,
    name,
    *,
    timeout_ms=60_000,
    max_deliveries=5,
    tickets=(),
    owner=None,
    attempt=1,
    credit=1,
    **how,
):
    """A Subscribe's body with SHARED, and with OWNED if there is an owner."""
    start = subscribe(topic, name=name, credit=credit, **how)
    if owner is not None:
        start += struct.pack("<QI", owner, attempt)
    return start + struct.pack("<IH", timeout_ms, max_deliveries) + numbers(tickets)


def settle(subscription, outcome, tickets, *, delay_ms=None, reason=""):
    """A Settle's body; with a delay it needs DELAYED."""
    head = struct.pack("<IB", subscription, outcome)
    if delay_ms is not None:
        head += struct.pack("<Q", delay_ms)
    return head + string(reason) + numbers(tickets)


def dead(topic, name, action=LIST, *, user="", first=0, count=100, offsets=None):
    """A Dead's body; with offsets it needs SELECTED."""
    names = string(topic) + string(name) + string(user)
    rest = struct.pack("<BQH", action, first, count)
    if offsets is not None:
        rest += numbers(offsets)
    return names + rest


def delete(topic, epoch=0):
    return string(topic) + struct.pack("<Q", epoch)


def disconnect(connection):
    return struct.pack("<Q", connection)


def advance_clock(to_us):
    return struct.pack("<Q", to_us)


def unsubscribe(subscription):
    return struct.pack("<I", subscription)


def commit(subscription, following):
    return struct.pack("<IQ", subscription, following)


def ping(value=0):
    return struct.pack("<Q", value)


def describe(kind=0, prefix="", after="", limit=1):
    return struct.pack("<B", kind) + string(prefix) + string(after) + struct.pack("<H", limit)


# -----------------------------------------------------------------------------------------------
# parsing


class Reader:
    """A body that is taken apart from the front, and must come out even."""

    def __init__(self, data):
        self.data = data

    def take(self, size):
        assert size <= len(self.data), "a body ends inside a field"
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def read(self, kind):
        if kind == "rest":
            return self.take(len(self.data))
        if kind == "str":
            return self.take(self.read("u16")).decode()
        if kind == "settings":
            return {self.read("u8"): self.read("u64") for _ in range(self.read("u8"))}
        if kind == "deltas":
            return [self.read("u32") for _ in range(self.read("u32"))]
        if kind == "u64[]":
            return [self.read("u64") for _ in range(self.read("u32"))]
        layout = INTEGERS[kind]
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]


def column(offsets, data):
    assert offsets[0] == 0
    assert offsets[-1] == len(data)
    assert list(offsets) == sorted(offsets)
    return [data[a:b] for a, b in itertools.pairwise(offsets)]


def unbatch(data):
    """The (key, payload) pairs in a batch."""
    (count,) = struct.unpack_from("<I", data)
    assert count >= 1
    row = struct.Struct(f"<{count + 1}i")
    keys, payloads = row.unpack_from(data, 4), row.unpack_from(data, 4 + row.size)
    strings = data[4 + 2 * row.size :]
    parts = column(keys, strings[: keys[-1]]), column(payloads, strings[keys[-1] :])
    return list(zip(*parts, strict=True))


class Frame:
    """A frame from the broker: its header and, as attributes, the fields of its body."""

    def __init__(self, header, body):
        self.kind, self.flags, zero, self.id = struct.unpack("<BBHI", header)
        assert zero == 0
        assert self.kind in LAYOUTS, f"a broker never sends type {self.kind:#x}"
        layout, known_flags = LAYOUTS[self.kind]
        assert self.flags & ~known_flags == 0, f"flags {self.flags:#x} of {self.kind:#x}"
        reader = Reader(body)
        self.fields = dict(pair.split(":") for pair in layout.split())
        if not self.flags & HOLES:
            self.fields.pop("deltas", None)
        if not self.flags & TICKETS:
            self.fields.pop("ticket", None)
            self.fields.pop("number", None)
        self.fields = {name: reader.read(kind) for name, kind in self.fields.items()}
        assert not reader.data, "a body goes on after its last field"
        if self.kind == MESSAGES:
            pairs = unbatch(self.fields["batch"])
            deltas = self.fields.get("deltas", range(len(pairs)))
            assert len(deltas) == len(pairs)
            assert deltas[0] == 0
            assert all(one < other for one, other in itertools.pairwise(deltas))
            self.fields["messages"] = [
                (self.fields["base"] + delta, key, payload)
                for delta, (key, payload) in zip(deltas, pairs, strict=True)
            ]

    def __getattr__(self, name):
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self):
        text = ", ".join(
            f"{name}={value!r:.60}" for name, value in self.fields.items() if name != "batch"
        )
        return f"<{self.kind:#04x} flags={self.flags} id={self.id} {text}>"

    @property
    def is_event(self):
        return MESSAGES <= self.kind <= DELETIONS_MISSED


# ------------------------------------------------------------------------------------------------
# client


class RawClient:
    """One connection.

    Nothing is sent that a test did not ask for, and nothing received is overlooked.
    """

    def __init__(self, stream):
        self.stream = stream
        self.buffer = bytearray()
        self.ids = itertools.count(1)
        self.events = deque()  # events that came while a reply was awaited
        self.log = []  # every frame, as it came

    @classmethod
    async def connect(cls, port, dial=None):
        """A client of that port; `dial` opens the stream if a plain one will not do, and then a
        user is known by it.
        """
        client = cls(await (dial(port) if dial else anyio.connect_tcp("127.0.0.1", port)))
        client.is_known = dial is not None
        return client

    async def aclose(self):
        await self.stream.aclose()

    # Bytes.

    async def send(self, *frames):
        with anyio.fail_after(GUARD):
            await self.stream.send(b"".join(frames))

    async def end(self):
        """End the client's side of the stream (a FIN), and go on reading."""
        await self.stream.send_eof()

    async def _fill(self, size):
        while len(self.buffer) < size:
            self.buffer += await self.stream.receive()

    async def read(self):
        """The next frame, exactly."""
        with anyio.fail_after(GUARD):
            await self._fill(4)
            (length,) = struct.unpack_from("<I", self.buffer)
            assert length >= 8
            await self._fill(4 + length)
        data = bytes(self.buffer[4 : 4 + length])
        del self.buffer[: 4 + length]
        received = Frame(data[:8], data[8:])
        self.log.append(received)
        return received

    async def ends(self):
        """Make sure that nothing comes but the end of the stream."""
        assert not self.events, self.events
        with anyio.fail_after(GUARD):
            try:
                more = bytes(self.buffer) or await self.stream.receive()
            except anyio.EndOfStream:
                return
        raise AssertionError(f"more bytes instead of the end: {more[:40].hex()}")

    async def rest(self):
        """All frames up to the end of the stream, which must not cut one."""
        received = list(self.events)
        self.events.clear()
        with anyio.fail_after(GUARD):
            while True:
                try:
                    received.append(await self.read())
                except anyio.EndOfStream:
                    assert not self.buffer, "the stream ends inside a frame"
                    return received

    # Frames.

    async def reply(self, request_id):
        """The next reply, which must be the one to `request_id`; events on the way are kept."""
        while (received := await self.read()).is_event:
            self.events.append(received)
        assert received.id == request_id, f"{received} instead of the reply to {request_id}"
        return received

    async def event(self, kind, subscription):
        """The next event, which must be of this kind and for this subscription."""
        received = self.events.popleft() if self.events else await self.read()
        assert (received.kind, received.id) == (kind, subscription), received
        return received

    async def request(self, kind, body=b"", *, flags=0, request_id=None):
        """Send a request; what answers it, success or not."""
        request_id = next(self.ids) if request_id is None else request_id
        await self.send(frame(kind, request_id, body, flags=flags))
        return await self.reply(request_id)

    async def ok(self, kind, body=b"", **how):
        """Send a request that must succeed."""
        answer = await self.request(kind, body, **how)
        assert answer.kind == kind | 0x80, answer
        return answer

    async def refused(self, code, kind, body=b"", *, field=None, fatal=False, **how):
        """Send a request that must fail, in just this way."""
        answer = await self.request(kind, body, **how)
        return check_error(answer, code, field=field, request_type=kind, fatal=fatal)

    async def refused_for_good(self, code, data, *, request_id=None, request_type=None, field=None):
        """Send bytes that must be answered with an error, and that end the connection."""
        await self.send(data)
        answer = await self.read()
        check_error(answer, code, field=field, request_type=request_type, fatal=True)
        assert request_id is None or answer.id == request_id, answer
        await self.ends()

    # Requests that succeed.

    async def hello(self, **fields):
        self.welcome = await self.ok(HELLO, hello(**fields))
        return self.welcome

    async def create(self, topic, settings=()):
        return await self.ok(CREATE, create(topic, settings))

    async def publish(self, topic, *messages):
        return await self.ok(PUBLISH, publish(topic, messages))

    async def subscribe(self, topic, **how):
        return await self.ok(SUBSCRIBE, subscribe(topic, **how))

    async def unsubscribe(self, subscription):
        return await self.ok(UNSUBSCRIBE, unsubscribe(subscription))

    async def commit(self, subscription, following):
        return (await self.ok(COMMIT, commit(subscription, following))).committed

    async def ping(self):
        value = next(self.ids) << 32
        assert (await self.ok(PING, ping(value))).value == value

    async def next_offset(self, topic):
        """The next offset of a topic: where a subscription to what is new would start."""
        probe = await self.subscribe(topic, start=LATEST)
        await self.unsubscribe(probe.id)
        return probe.live

    # Events.

    async def messages(self, subscription, *offsets):
        """Receive the messages with just these offsets, in this order, in however many pieces."""
        got = []
        while len(got) < len(offsets):
            got += (await self.event(MESSAGES, subscription)).messages
        assert [offset for offset, _, _ in got] == list(offsets)
        return [payload for _, _, payload in got]

    async def lagged(self, subscription, from_offset, to_offset):
        event = await self.event(LAGGED, subscription)
        assert (event.from_offset, event.to_offset) == (from_offset, to_offset), event

    async def ended(self, subscription, following):
        event = await self.event(ENDED, subscription)
        assert (event.code, event.next) == (1, following), event

    async def nothing_arrives(self):
        """Make sure that no event has come or is on its way.

        That something will never come cannot be observed, and one Pong proves little: replies need
        not wait for events, so a wrong event may be overtaken by it. Sleeping proves no more, only
        more slowly. So this is what is done instead. A first Ping: when its Pong is here, the
        broker has carried out all requests of this connection (and the test has seen the replies to
        those of others), so whatever they bring about has been decided. Then a witness, a
        subscription of this same connection to a topic of its own, is sent a message: it takes the
        way all events take and, as subscriptions take fair turns, an event that was already due is
        not behind it. A second round trip then gives away what shared the witness's turn. A failure
        is always a fault of the broker, whatever the timing: an event came that must never come. A
        broker that holds back a wrong event for longer than all this is not caught here, but most
        tests go on and count every message that comes afterwards.
        """
        await self.ping()
        topic = f"witness-{id(self)}-{next(self.ids)}"
        witness = await self.subscribe(topic, start=LATEST, credit=1)
        await self.publish(topic, b"")
        if not any(event.id == witness.id for event in self.events):
            self.events.append(await self.read())
        await self.unsubscribe(witness.id)
        await self.ping()
        assert [event.id for event in self.events] == [witness.id], (
            f"unexpected: {list(self.events)}"
        )
        self.events.clear()


def check_error(answer, code, *, field=None, request_type=None, fatal=False):
    assert (answer.kind, getattr(answer, "code", None)) == (ERROR, code), answer
    assert field is None or answer.field == field, answer
    assert request_type is None or answer.request_type == request_type, answer
    assert bool(answer.flags & FATAL) == fatal, answer
    assert bool(answer.flags & RETRYABLE) == (code in RETRY_HELPS), answer
    return answer
