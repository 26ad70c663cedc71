"""One client's conversation with us: bytes in, bytes out, no socket."""

import secrets
from typing import Any

import anyio
from batches import Message, check_sizes, decode_batch
from clock import now_us
from construct import ConstructError, Container
from errors import (
    EPOCH_CHANGED,
    FIRST_HARMLESS,
    FRAME_TOO_LARGE,
    HELLO_REQUIRED,
    INVALID_FIELD,
    MALFORMED,
    NO_SUCH_SUBSCRIPTION,
    UNSUPPORTED,
    UNSUPPORTED_VERSION,
    Refused,
    require,
    require_text,
)
from frames import BadLength, FrameBuffer
from layouts import (
    COMMITTED,
    CREATED,
    DUPLICATE,
    ERROR,
    ERROR_TYPE,
    FATAL,
    FLAGS,
    GO_AWAY,
    GO_AWAY_TYPE,
    HEADER,
    PING,
    PUBLISHED,
    REPLY,
    REQUESTS,
    SUBSCRIBED,
    WELCOME,
    encode,
)
from limits import (
    ENOUGH,
    MAX_BATCH,
    MAX_CREDIT,
    MAX_FIRST_FRAME,
    MAX_FRAME,
    MAX_MESSAGE,
    MAX_REPLIES,
)
from readers import Reader
from settings import TABLE, check_settings
from tables import Table
from topics import Topic, Topics

BOOT = secrets.randbits(64) or 1  # each run of the broker has its own


class Conversation:
    """What one client has said so far, and what we answer."""

    def __init__(self, topics: Topics) -> None:
        self.is_over = False  # we carry out nothing more
        self.is_stopping = False  # the same, because the broker stops
        self.bell = anyio.Event()  # set when there may be more to send
        self._readers: dict[int, Reader] = {}
        self._last_id = 0
        self._replies = bytearray()
        self._taken = anyio.Event()  # set when replies go out
        self._topics = topics
        self._is_again = False  # whether we have answered this before
        self._is_welcome = False
        self._buffer = FrameBuffer(MAX_FIRST_FRAME)

    def receive(self, data: bytes) -> None:
        """Carry out what a read has brought."""
        if self.is_over or self.is_stopping:
            return
        self._buffer.feed(data)
        try:
            while not self.is_over and (frame := self._buffer.next_frame()):
                self._replies += self._answer(frame)
        except BadLength as bad:
            is_large = bad.length > self._buffer.largest
            code = FRAME_TOO_LARGE if is_large else MALFORMED
            refused = Refused(code, "length", str(bad))
            self._replies += self._error(0, 0, refused)
        self.bell.set()

    def output(self) -> bytes:
        """What to send now: all replies, then enough messages, in turns."""
        output, self._replies = self._replies, bytearray()
        self._taken.set()
        now, events = now_us(), True
        while events:
            events = False
            for reader in list(self._readers.values()):
                if len(output) >= ENOUGH:
                    return bytes(output)
                if event := reader.next_event(now):
                    output += event
                    events = True
                    # Now it stands behind all others.
                    self._readers[reader.id] = self._readers.pop(reader.id)
        return bytes(output)

    async def has_room(self) -> None:
        """Wait while too many replies are queued."""
        while len(self._replies) > MAX_REPLIES:
            self._taken = anyio.Event()
            await self._taken.wait()

    def _answer(self, frame: bytes) -> bytes:
        """The reply to one request; nothing if it asks for silence."""
        header = HEADER.parse(frame)
        try:
            name, fields = self._judge(header, frame[HEADER.sizeof() :])
            fields.id = header.id
            self._is_again = False
            reply = self._carry_out(name, fields)
        except Refused as refused:
            return self._error(header.type, header.id, refused)
        if header.id == 0:
            return b""
        flags = DUPLICATE if self._is_again else 0
        return encode(header.type | REPLY, header.id, reply, flags)

    def _error(self, kind: int, frame_id: int, refused: Refused) -> bytes:
        """An Error frame. A fatal one is the last that this client gets."""
        is_fatal = refused.code < FIRST_HARMLESS
        if is_fatal or not self._is_welcome:
            self.close()
        fields = {
            "code": refused.code,
            "request_type": kind,
            "field": refused.field.encode(),
            "retry_after_ms": 0,
            "message": refused.message.encode(),
        }
        flags = FATAL if self.is_over else 0
        return encode(ERROR_TYPE, frame_id, ERROR.build(fields), flags)

    def _judge(
        self, header: Container[Any], body: bytes
    ) -> tuple[str, Container[Any]]:
        """The request's name and fields, judged from outside to inside."""
        require(header.zero == 0, MALFORMED, "zero", "this must be 0")
        name, layout = REQUESTS.get(header.type, ("unknown", None))
        is_hello = name == "hello"
        good = is_hello or self._is_welcome
        require(good, HELLO_REQUIRED, "", "say Hello first")
        good = layout and not (is_hello and self._is_welcome)
        require(good, UNSUPPORTED, "type", "unknown request type")
        good = header.flags & ~FLAGS.get(name, 0) == 0
        require(good, UNSUPPORTED, "flags", "we know no such flag")
        try:
            return name, layout.parse(body)
        except ConstructError:
            raise Refused(MALFORMED, "", "fields and size differ") from None

    def _carry_out(self, name: str, fields: Container[Any]) -> bytes:
        """Do what was asked for. Returns the reply's body."""
        match name:
            case "hello":
                return self._hello(fields)
            case "ping":
                return PING.build(fields)
            case "create":
                return self._create(fields)
            case "publish":
                return self._publish(fields)
            case "subscribe":
                return self._subscribe(fields)
            case "unsubscribe":
                return self._unsubscribe(fields)
            case "commit":
                return self._commit(fields)
            case "close":
                self.close()
                return b""
            case _:
                raise NotImplementedError(name)

    def _hello(self, fields: Container[Any]) -> bytes:
        """Welcome the client, and tell it what it may do."""
        require(fields.magic == b"ZAIK", MALFORMED, "magic", "not ZAIK")
        good = fields.version_min <= 1 <= fields.version_max
        require(good, UNSUPPORTED_VERSION, "", "we speak version 1 only")
        require(fields.auth <= 2, INVALID_FIELD, "auth", "not 0, 1 or 2")
        for name in ("client", "user", "secret"):
            require_text(fields[name], name)
        self._is_welcome = True
        self._buffer.largest = MAX_FRAME
        limits = {
            "max_frame": MAX_FRAME,
            "max_batch": MAX_BATCH,
            "max_message": MAX_MESSAGE,
            "max_credit": MAX_CREDIT,
            "idle_ms": 0,
        }
        about = {"version": 1, "features": 0, "boot": BOOT, "broker": b"mine"}
        return WELCOME.build(about | limits)

    def _unsubscribe(self, fields: Container[Any]) -> bytes:
        """Forget a reader. There is nothing else to stop."""
        reader = self._reader(fields.subscription)
        reader.leave()
        del self._readers[reader.id]
        return b""

    def _commit(self, fields: Container[Any]) -> bytes:
        """A reader has worked up to here."""
        reader = self._reader(fields.subscription)
        return COMMITTED.build({"committed": reader.commit(fields.next)})

    def _reader(self, reader_id: int) -> Reader:
        """The reader of this client that has this id."""
        good = reader_id in self._readers
        require(good, NO_SUCH_SUBSCRIPTION, "subscription", "not yours")
        return self._readers[reader_id]

    def _publish(self, fields: Container[Any]) -> bytes:
        """Put a batch into its topic's row, unless it is there already."""
        require_text(fields.topic, "topic")
        batch = decode_batch(fields.batch)
        if fields.producer == 0:
            return self._store(fields, batch)
        number = fields.sequence
        producer = self._topics.producers.find(fields.producer, number)
        self._is_again = number < producer.next
        if self._is_again:
            return producer.again(number)
        try:
            answer = self._store(fields, batch)
        except Refused as refused:
            producer.keep(refused)
            raise
        producer.keep(answer)
        return answer

    def _store(self, fields: Container[Any], batch: list[Message]) -> bytes:
        """Put a batch into its topic's row. Returns what to answer."""
        check_sizes(batch)
        topic = self._topics.find(fields.topic)
        first, dropped = topic.publish(batch, now_us())
        size = (len(batch) + 7) // 8 if dropped else 0
        reply = {
            "first_offset": first,
            "stored": len(batch) - dropped.bit_count(),
            "compacted": dropped.bit_count(),
            "subscribers": len(topic.readers),
            "dropped": dropped.to_bytes(size, "little"),
        }
        return PUBLISHED.build(reply)

    def _create(self, fields: Container[Any]) -> bytes:
        """Make a topic, or agree that it is there already."""
        pairs = [(each.number, each.value) for each in fields.settings]
        named = check_settings(pairs)
        is_new = fields.topic not in self._topics
        kind = Table if named.get(TABLE) else Topic
        topic = self._topics.find(fields.topic, kind)
        topic.configure(named)
        settings = [
            {"number": number, "value": value}
            for number, value in topic.settings.items()
            if number != TABLE or value  # a plain topic has none
        ]
        reply = {"created": is_new, "epoch": topic.epoch}
        return CREATED.build({**reply, "settings": settings})

    def _subscribe(self, fields: Container[Any]) -> bytes:
        """Give the client a place at the end of a topic's row."""
        require_text(fields.name, "name")
        require(not fields.name, UNSUPPORTED, "name", "not supported here")
        good = fields.id > self._last_id
        require(good, INVALID_FIELD, "id", "it must be greater than before")
        good = 1 <= fields.credit <= MAX_CREDIT
        require(good, INVALID_FIELD, "credit", f"1 to {MAX_CREDIT}")
        good = fields.credit_bytes > 0
        require(good, INVALID_FIELD, "credit_bytes", "1 or more")
        known = self._topics.get(fields.topic)
        good = fields.epoch in (0, known.epoch if known else 0)
        require(good, EPOCH_CHANGED, "epoch", "it is another topic now")
        topic = self._topics.find(fields.topic)
        topic.expire(now_us())
        reader = Reader(topic, fields, lambda: self.bell.set())
        self._readers[fields.id] = reader
        self._last_id = fields.id
        start, live = reader.cursor, topic.next_offset
        places = {"start": start, "live": live, "committed": start}
        return SUBSCRIBED.build({"epoch": topic.epoch, **places})

    def stop(self) -> None:
        """The broker stops. What it has acknowledged still goes out."""
        self.is_stopping = True
        self.bell.set()

    def farewell(self) -> bytes:
        """The last frame, when the broker stops."""
        self.close()
        body = GO_AWAY.build({"code": 1, "text": b"the broker stops"})
        return encode(GO_AWAY_TYPE, 0, body)

    def close(self) -> None:
        """The client has gone, and its readers with it."""
        self.is_over = True
        for reader in self._readers.values():
            reader.leave()
        self._readers.clear()
        self.bell.set()
