"""A message broker in one file: the protocol of `protocol/README.md`, said as plainly as possible.

The idea. A *topic* is a row of messages that only grows at the new end; the place of a message in it is its
*offset*. Whoever publishes appends. Whoever subscribes has a *cursor*, the offset of the message to be sent
next, and moves along the row at its own pace. Nothing is copied for the readers: the row is the only store.

Three things keep this small world finite:

* *Retention*, and the ring's capacity, drop messages at the old end. A reader whose cursor is no longer in
  the row is told what it missed, its *lag*, and goes on at the *head*, the first offset still there.
* *Credit* limits what a reader has been sent and has not yet settled by a *commit*. A reader that is busy
  just does not commit, and is sent no more.
* *Compaction* keeps repetitions out: for a while after a message, others of the same key are not stored.

Reading order: "Fields and frames" is how bytes become values and back. `Topic` is where messages live,
`Subscription` is one reader's way along a topic, `Connection` is what one client may ask for. At the end,
`serve` starts it all, and once a second lets the `Broker` free what nobody will read.

All of this runs in one thread, and only an `await` lets other tasks go on. Topics and subscriptions have no
`await` at all: who looks at their state and then changes it is alone meanwhile, and needs no lock.

What the protocol leaves to a broker, this one leaves out: numbered producers, named subscriptions, Describe,
features, users, GoAway, time-outs. Every Messages frame brings one message.

Limits. To stay short, it also leaves out what the protocol does ask for:

* Of a ring's bounds only `capacity` is kept. `max_bytes` and `max_keys` are accepted and reported, no more:
  a ring may take any number of bytes, and no window is forgotten while it is open.
* A setting may have any value, and of one named twice the last value counts. A topic's name may contain
  control characters.
* Of the limits that Welcome tells, only `max_frame` is enforced: keys, messages and batches may be as large
  as a frame allows.
* A client that does not read is sent no more messages, so that it lags, and nobody else notices. But replies
  may pile up for it without bound, and it is never closed for that.
* A bug ends the connection that met it, without an Error; nobody else notices.
* Every client takes a file descriptor. When none is left, the next one cannot be accepted, and that ends the
  broker, for all (`ulimit -n` says how many there are). zaichik/net/listener.py shows how to go on.

So of the checks of `zaichik learn check all`, S5.9, S7.8, S7.9, S11.12, S11.13, S12.8, S12.12, S13.4 and S14.10
fail, those of S16, S17 and S18 are skipped, and all others pass.
"""

import secrets
import struct
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from io import BytesIO
from itertools import pairwise
from types import SimpleNamespace as Request  # a request's id, its time, and the fields of its body
from typing import Any

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

BOOT = secrets.randbits(64) or 1  # by this a client knows whether it has come back to the same broker
MAX_FRAME = 1_179_648

# The settings of a topic, and their values if nobody names any. A duration of all ones is forever; it needs
# no care, because Python's integers never overflow: it is just a very long time.
TTL_MS, WINDOW_MS, CAPACITY, MAX_BYTES, MAX_KEYS = 1, 2, 3, 4, 5
DEFAULTS = {TTL_MS: 0, WINDOW_MS: 0, CAPACITY: 10_000, MAX_BYTES: 67_108_864, MAX_KEYS: 100_000}

# The requests: the method of Connection that carries each out, and the fields of its body. They have the
# names that the protocol gives them, and the letters of the struct module: B is u8, H u16, I u32, Q u64.
REQUESTS = {
    1: ("hello", "magic:4s version_min:H version_max:H features:Q client:str auth:B user:str secret:str"),
    2: ("create_topic", "topic:str settings:settings"),
    3: ("publish", "producer:Q sequence:Q topic:str batch:rest"),
    4: ("subscribe", "topic:str name:str start:B value:Q epoch:Q until:Q credit:I credit_bytes:I"),
    5: ("unsubscribe", "subscription:I"),
    6: ("commit", "subscription:I next:Q"),
    7: ("ping", "value:Q"),
    8: ("close", ""),
}
# Which values a field may have, if not any.
RANGES = {"auth": range(3), "start": range(4), "credit": range(1, 2**32), "credit_bytes": range(1, 2**32)}

# The errors this broker answers. Those below 64 end the connection.
MALFORMED, FRAME_TOO_LARGE, HELLO_REQUIRED, UNSUPPORTED_VERSION = 1, 2, 3, 4
INVALID_FIELD, UNSUPPORTED, TOPIC_EXISTS, NO_SUCH_SUBSCRIPTION = 64, 65, 67, 70
NOT_IN_FLIGHT, OFFSET_AHEAD, EPOCH_CHANGED, BATCH_TOO_LARGE = 71, 72, 73, 76


class Refused(Exception):
    """A request that is answered by an Error. The arguments are its code, field and message."""


def require(good: object, code: int, field: str, message: str) -> None:
    """Refuses the request unless all is good."""
    if not good:
        raise Refused(code, field, message)


# --- Fields and frames --------------------------------------------------------------------------------------


def read_field(kind: str, body: BytesIO) -> Any:
    """The next field of a body. A str stays bytes: nobody here wants to read it."""
    if kind == "settings":
        return {read_field("B", body): read_field("Q", body) for _ in range(read_field("B", body))}
    if kind == "rest":
        return body.read()
    if kind == "str":
        kind = f"{read_field('H', body)}s"
    raw = body.read(struct.calcsize("<" + kind))
    require(len(raw) == struct.calcsize("<" + kind), MALFORMED, "", "the body ends inside a field")
    return struct.unpack("<" + kind, raw)[0]


def read_fields(layout: str, body: BytesIO) -> dict[str, Any]:
    """The fields of a body by their names."""
    kinds = dict(word.split(":") for word in layout.split())
    fields = {name: read_field(kind, body) for name, kind in kinds.items()}
    require(not body.read(), MALFORMED, "", "the body goes on after its last field")
    # Only now, where all lengths are known to be right, it matters what is inside the fields.
    for name, value in fields.items():
        utf8 = kinds[name] != "str" or value.decode(errors="ignore").encode() == value
        require(utf8, INVALID_FIELD, name, "this is not UTF-8")
        require(name not in RANGES or value in RANGES[name], INVALID_FIELD, name, "this is out of range")
    return fields


def read_batch(raw: bytes) -> list[tuple[bytes, bytes]]:
    """The keys and payloads of a batch."""
    count = int.from_bytes(raw[:4], "little")
    strings = raw[4 + 2 * 4 * (count + 1) :]  # they come after the count and two rows of offsets
    require(0 < count <= (len(raw) - 12) // 8, INVALID_FIELD, "batch", "empty, or ends inside its offsets")
    offsets = struct.unpack_from(f"<{2 * (count + 1)}i", raw, 4)
    # One row for both columns: the payloads begin where the keys end.
    bounds = [*offsets[: count + 1], *(offsets[count] + offset for offset in offsets[count + 2 :])]
    good = offsets[0] == offsets[count + 1] == 0 and bounds == sorted(bounds) and bounds[-1] == len(strings)
    require(good, INVALID_FIELD, "batch", "its offsets do not begin at 0, or decrease, or miss its size")
    columns = [strings[start:end] for start, end in pairwise(bounds)]
    return list(zip(columns[:count], columns[count:], strict=True))


def text(value: str) -> bytes:
    """A str: its length and its bytes."""
    return struct.pack("<H", len(value.encode())) + value.encode()


def frame(kind: int, frame_id: int, body: bytes, flags: int = 0) -> bytes:
    """A header and a body. The length does not count its own four bytes."""
    return struct.pack("<IBBHI", 8 + len(body), kind, flags, 0, frame_id) + body


# --- Topics -------------------------------------------------------------------------------------------------


class Topic:
    """A ring of messages, and the compaction windows of their keys."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.settings, self.next_offset = epoch, DEFAULTS, 0
        self.ring: list[tuple[int, bytes, bytes]] = []  # of each message: when it was accepted, key, payload
        self.windows: dict[bytes, int] = {}  # for a key, when its window closes
        self.readers: list[Subscription] = []  # those that have ended are still in it for a while

    def head(self, now: int) -> int:
        """The first offset still there, after all that is past its retention has gone."""
        if ttl_us := self.settings[TTL_MS] * 1000:  # with 0, time drops nothing
            # Messages are in the order of their times, and a time with two empty strings comes before them.
            del self.ring[: bisect_left(self.ring, (now - ttl_us + 1, b"", b""))]
        return self.next_offset - len(self.ring)

    def live_readers(self) -> list["Subscription"]:
        """The subscriptions that have not ended."""
        return [each for each in self.readers if each.cursor < each.until and not each.connection.done]

    def publish(self, batch: list[tuple[bytes, bytes]], now: int) -> int:
        """Stores a batch. In the result, bit i is set if compaction dropped message i instead."""
        dropped = 0
        for place, (key, payload) in enumerate(batch):
            if key and now < self.windows.get(key, 0):
                dropped |= 1 << place
            else:
                self.ring.append((now, key, payload))
                self.next_offset += 1
                self.windows[key] = now + self.settings[WINDOW_MS] * 1000
        del self.ring[: -self.settings[CAPACITY]]  # all but the newest
        return dropped


class Broker(dict[bytes, Topic]):
    """All topics by their names."""

    def find(self, name: bytes, now: int) -> Topic:
        """The topic of that name; if there is none, a new one."""
        require(0 < len(name) <= 200 and name[:1] != b"$", INVALID_FIELD, "topic", "1-200 bytes, no $ first")
        return self.setdefault(name, Topic(epoch=max(now, 1)))

    def sweep(self, now_us: int) -> None:
        """Frees messages that nobody will read, and the keys of windows that have closed."""
        for topic in self.values():
            topic.windows = {key: end for key, end in topic.windows.items() if now_us < end}
            head, cursors = topic.head(now_us), [reader.cursor for reader in topic.live_readers()]
            if topic.settings[TTL_MS] == 0:
                del topic.ring[: max(0, min(cursors, default=topic.next_offset) - head)]


# --- Subscriptions ------------------------------------------------------------------------------------------


class Subscription:
    """One reader's way along a topic: up to `committed` all is settled, from there to `cursor` in flight."""

    def __init__(self, connection: "Connection", topic: Topic, cursor: int, request: Request) -> None:
        self.connection, self.topic, self.id, self.until = connection, topic, request.id, request.until
        self.cursor = self.committed = cursor
        self.credit, self.credit_bytes = request.credit, request.credit_bytes
        self.in_flight: dict[int, int] = {}  # the size of each message by its offset
        self.events = self.all_events()

    def all_events(self) -> Iterator[bytes]:
        """All frames for this reader, each made when it is asked for. An empty one means: not now."""
        while self.cursor < self.until:
            yield self.next_event()
        yield frame(0x42, self.id, struct.pack("<HQ", 1, self.cursor) + text("until"))  # SubscriptionEnded

    def next_event(self) -> bytes:
        """The next message, or the lag before it; nothing if there is no message or no credit for it."""
        topic, offset = self.topic, self.cursor
        head, used = topic.head(self.connection.now_us()), sum(self.in_flight.values())
        if len(self.in_flight) >= self.credit or used >= self.credit_bytes or offset == topic.next_offset:
            return b""
        if offset < head:
            self.cursor = min(head, self.until)
            return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))  # Lagged
        accepted_us, key, payload = topic.ring[offset - head]
        if self.in_flight and used + len(key) + len(payload) > self.credit_bytes:  # alone, any size may go
            return b""
        self.in_flight[offset] = len(key) + len(payload)
        self.cursor += 1
        # A batch of one: the count, the key's two offsets, the payload's, and their bytes.
        batch = struct.pack("<I4i", 1, 0, len(key), 0, len(payload)) + key + payload
        return frame(0x40, self.id, struct.pack("<Qq", offset, accepted_us) + batch)  # Messages


# --- Connections --------------------------------------------------------------------------------------------


class Connection:
    """One client: a task that reads requests and carries them out, and a task that writes.

    They meet in `replies`, `subscriptions` and `wake`. The reading task just puts replies there, and so never
    waits for a slow socket. The writing task sends replies before anything else, so that they do not wait for
    messages, and takes messages from the topics only as fast as the socket takes them from it.
    """

    def __init__(self, broker: Broker, stream: SocketStream, now_us: Callable[[], int]) -> None:
        self.broker, self.stream, self.now_us = broker, stream, now_us
        self.replies: list[bytes] = []
        self.subscriptions: dict[int, Subscription] = {}
        # The event `wake` is set when there may be something to write.
        self.wake, self.welcomed, self.done, self.last_subscribe_id = anyio.Event(), False, False, 0

    async def run(self) -> None:
        """Serves the client until one side has had enough. Whatever goes wrong stays in here."""
        try:
            async with self.stream, anyio.create_task_group() as tasks:
                tasks.start_soon(self.write)
                await self.read()
                # Closing a socket before all is read from it would destroy what the client has yet to read.
                with anyio.move_on_after(1):
                    async for _ignored in self.stream:
                        pass
        except* Exception as errors:
            print("a connection broke off:", repr(errors), file=sys.stderr)

    async def read(self) -> None:
        """Answers one frame after the other, until a Close, a fatal error, or the end of the stream."""
        incoming = BufferedByteReceiveStream(self.stream)
        with closing(self), suppress(anyio.IncompleteRead):
            while not self.done:
                length = int.from_bytes(await incoming.receive_exactly(4), "little")
                # Before we know that a client speaks our language, it gets little memory.
                if 8 <= length <= (MAX_FRAME if self.welcomed else 4096):
                    self.answer(await incoming.receive_exactly(length))
                else:
                    self.fail(0, 0, MALFORMED if length < 8 else FRAME_TOO_LARGE, "", f"not {length}")

    async def write(self) -> None:
        """Sends what there is: all replies, then a message of each subscription, so that they take turns."""
        while self.replies or not self.done:
            self.wake = anyio.Event()  # before looking, so that nothing goes unnoticed afterwards
            events = [next(reader.events, b"") for reader in self.subscriptions.values()]
            chunk, self.replies = b"".join(self.replies + events), []
            if chunk:
                await self.stream.send(chunk)
            else:
                with anyio.move_on_after(1):  # at times it looks again, since messages expire silently
                    await self.wake.wait()
        await self.stream.send_eof()

    def answer(self, content: bytes) -> None:
        """Judges a request in the order of section 6, carries it out, and puts the reply behind others."""
        kind, flags, zero, frame_id = struct.unpack_from("<BBHI", content)
        try:
            require(zero == 0, MALFORMED, "zero", "the bytes after the flags are not 0")
            require(self.welcomed or kind == 1, HELLO_REQUIRED, "", "say Hello first")
            # A second Hello is no request that we know.
            require(kind in REQUESTS and (kind > 1 or not self.welcomed), UNSUPPORTED, "type", "not known")
            # The only flag is FORGET of Unsubscribe. It concerns named subscriptions, and so changes nothing.
            require(flags == 0 or (kind, flags) == (5, 1), UNSUPPORTED, "flags", "unknown flags")
            method, layout = REQUESTS[kind]
            fields = read_fields(layout, BytesIO(content[8:]))
            reply = getattr(self, method)(Request(id=frame_id, now=self.now_us(), **fields))
            if frame_id:  # id 0 asks for silence
                self.replies.append(frame(kind | 0x80, frame_id, reply or b""))
        except Refused as refused:
            self.fail(kind, frame_id, *refused.args)
        self.wake.set()

    def fail(self, kind: int, frame_id: int, code: int, field: str, message: str) -> None:
        """Answers with an Error; after a fatal one (flag 2) nothing more is read."""
        self.done = code < 64 or not self.welcomed
        body = struct.pack("<HB", code, kind) + text(field) + struct.pack("<I", 0) + text(message)
        self.replies.append(frame(0xFF, frame_id, body, flags=2 if self.done else 0))

    # From here on one method for each request; each returns the body of the reply, unless that is empty.

    def hello(self, request: Request) -> bytes:
        """Welcomes the client, whoever it is, and tells it limits of frames, batches, messages, credit."""
        require(request.magic == b"ZAIK", MALFORMED, "magic", "a client must begin with ZAIK")
        require(request.version_min <= 1 <= request.version_max, UNSUPPORTED_VERSION, "", "version 1 only")
        self.welcomed = True
        return struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0) + text("tiny 1")

    def create_topic(self, request: Request) -> bytes:
        """Makes a topic, or agrees that it is there already."""
        require(request.settings.keys() <= DEFAULTS.keys(), UNSUPPORTED, "settings", "not 1 to 5")
        created = request.topic not in self.broker
        topic = self.broker.find(request.topic, request.now)
        if topic.settings is DEFAULTS and topic.next_offset == 0:  # nobody has named any, nothing was stored
            topic.settings = DEFAULTS | request.settings
        require(request.settings.items() <= topic.settings.items(), TOPIC_EXISTS, "", f"has {topic.settings}")
        settings = b"".join(struct.pack("<BQ", *setting) for setting in topic.settings.items())
        return struct.pack("<BQB", created, topic.epoch, len(topic.settings)) + settings

    def publish(self, request: Request) -> bytes:
        """Stores a batch and wakes whoever reads the topic."""
        require(request.producer == 0, UNSUPPORTED, "producer", "no numbered producers here: send 0")
        batch, topic = read_batch(request.batch), self.broker.find(request.topic, request.now)
        require(len(batch) <= topic.settings[CAPACITY], BATCH_TOO_LARGE, "batch", "the ring is smaller")
        first, dropped = topic.next_offset, topic.publish(batch, request.now)
        for reader in topic.live_readers():
            reader.connection.wake.set()
        compacted, subscribers = dropped.bit_count(), len(topic.live_readers())
        bitmap = dropped.to_bytes((len(batch) + 7) // 8, "little") if dropped else b""
        return struct.pack("<Q3I", first, len(batch) - compacted, compacted, subscribers) + bitmap

    def subscribe(self, request: Request) -> bytes:
        """Puts a new cursor on a topic. The writing task moves it."""
        require(request.id > self.last_subscribe_id, INVALID_FIELD, "id", "not greater than an earlier one")
        require(not request.name, UNSUPPORTED, "name", "no named subscriptions here: leave it empty")
        topic = self.broker.find(request.topic, request.now)
        head, end = topic.head(request.now), topic.next_offset
        require(request.epoch in (0, topic.epoch), EPOCH_CHANGED, "epoch", f"its epoch is {topic.epoch}")
        require(request.start != 2 or request.value <= end, OFFSET_AHEAD, "value", f"its next offset: {end}")
        # With retention 0, earliest is the same as latest: who comes later gets nothing old.
        earliest = head if topic.settings[TTL_MS] else end
        at_time = head + bisect_left(topic.ring, (request.value, b"", b""))
        start = (earliest, end, request.value, at_time)[request.start]
        reader = self.subscriptions[request.id] = Subscription(self, topic, start, request)
        topic.readers, self.last_subscribe_id = [*topic.live_readers(), reader], request.id
        return struct.pack("<4Q", topic.epoch, start, end, start)

    def unsubscribe(self, request: Request) -> None:
        """Ends a subscription."""
        require(request.subscription in self.subscriptions, NO_SUCH_SUBSCRIPTION, "subscription", "unknown")
        self.subscriptions.pop(request.subscription).until = 0

    def commit(self, request: Request) -> bytes:
        """Settles everything below an offset, and so makes room for more."""
        require(request.subscription in self.subscriptions, NO_SUCH_SUBSCRIPTION, "subscription", "unknown")
        reader = self.subscriptions[request.subscription]
        require(request.next <= reader.cursor, NOT_IN_FLIGHT, "next", f"{reader.cursor} at most for now")
        reader.committed = max(reader.committed, request.next)
        reader.in_flight = {at: size for at, size in reader.in_flight.items() if at >= reader.committed}
        return struct.pack("<Q", reader.committed)

    def ping(self, request: Request) -> bytes:
        """Says the same again."""
        return struct.pack("<Q", request.value)

    def close(self, _request: object = None) -> None:
        """Ends all subscriptions, and the connection. What has been answered is still sent."""
        self.subscriptions, self.done = {}, True
        self.wake.set()


# --- The program --------------------------------------------------------------------------------------------


async def serve(listener: Listener[SocketStream], now_us: Callable[[], int], broker: Broker) -> None:
    """Serves all clients of a listener, until it is cancelled."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, lambda stream: Connection(broker, stream, now_us).run())
        while True:
            await anyio.sleep(1)
            broker.sweep(now_us())


async def main(port: int) -> None:
    """Serves this machine only."""
    # Unlike the clock on the wall, the sum of the two is never set back.
    start_ns = time.time_ns() - time.monotonic_ns()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener:
        print("listening on", *listener.extra_attributes[SocketAttribute.local_address](), flush=True)
        await serve(listener, lambda: (start_ns + time.monotonic_ns()) // 1000, Broker())


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 8889)
