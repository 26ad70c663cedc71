"""The requests, one method each: takes the fields apart, judges them, and returns the reply's flags and body."""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import describe
import wire
from shared_requests import SharedRequests, Wish
from subscription import Subscription
from topic import Session, Topic, check_settings
from wire import Body, Fault

if TYPE_CHECKING:
    from broker import Producer
    from connection import Connection

MAX_SUBSCRIPTIONS = 10_000
MAX_SESSIONS = 10_000
EARLIEST, LATEST, AT_OFFSET, AT_TIME = range(4)


class Requests(SharedRequests):
    """Of one connection."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.broker = connection.broker

    def table(self) -> dict[int, Callable[[int, int, Body], bytes | None]]:
        return {
            wire.HELLO: self.hello,
            wire.CREATE: self.create,
            wire.PUBLISH: self.publish,
            wire.SUBSCRIBE: self.subscribe,
            wire.UNSUBSCRIBE: self.unsubscribe,
            wire.COMMIT: self.commit,
            wire.PING: self.ping,
            wire.CLOSE: self.close,
            wire.DESCRIBE: self.describe,
            wire.DELETE: self.delete,
            wire.DISCONNECT: self.disconnect,
            wire.SETTLE: self.settle,
            wire.DEAD: self.about_dead,
        }

    def hello(self, _number: int, _flags: int, body: Body) -> bytes:
        magic = body.raw(4)
        oldest, newest, features = body.u16(), body.u16(), body.u64()
        client, auth, user, secret = body.string(), body.u8(), body.string(), body.string()
        body.end()
        if magic != b"ZAIK":
            raise Fault(wire.MALFORMED, text="this is no zaichik client")
        name = wire.text(client, "client")
        wire.text(user, "user")
        wire.text(secret, "secret")
        if auth > 2:
            raise Fault(wire.INVALID_FIELD, "auth", "auth is 0, 1 or 2")
        if not oldest <= 1 <= newest:
            raise Fault(wire.UNSUPPORTED_VERSION, "", "this broker speaks version 1 only")
        connection = self.connection
        if connection.greeted:
            raise Fault(wire.UNSUPPORTED, "", "one Hello is enough")
        connection.greeted, connection.client = True, name
        connection.features = features & wire.FEATURES
        idle_ms = wire.IDLE_MS if connection.features & wire.HEARTBEAT else 0
        limits = (wire.MAX_FRAME, wire.MAX_BATCH, wire.MAX_MESSAGE, wire.MAX_CREDIT, idle_ms)
        head = struct.pack("<BHQQ5I", 0, 1, connection.features, self.broker.boot, *limits)
        return head + wire.string(wire.BROKER_NAME)

    def create(self, _number: int, _flags: int, body: Body) -> bytes:
        raw, pairs = body.string(), body.settings()
        body.end()
        name, named = wire.topic_name(raw), check_settings(pairs)
        topic = self.broker.topics.get(name)
        created = topic is None
        if topic is None:
            topic = self.broker.make_topic(name, named, explicit=True)
        else:
            self.broker.check_reserve(topic, named)
            topic.adopt(named)
        return struct.pack("<BBQ", 0, created, topic.epoch) + wire.settings(topic.settings)

    # Publishing.

    def publish(self, _number: int, flags: int, body: Body) -> bytes:
        producer, sequence, raw, columns = body.u64(), body.u64(), body.string(), body.rest()
        wire.text(raw, "topic")
        batch = wire.decode_batch(columns)
        if producer == 0:
            return b"\0" + self.store(raw, batch, flags)
        known = self.broker.producer(producer, sequence)
        if sequence < known.next:
            return known.again(sequence)
        if sequence > known.next:
            raise Fault(wire.SEQUENCE_GAP, "sequence", f"the next is {known.next}")
        return self.store_numbered(known, raw, batch, flags)

    def store_numbered(self, known: "Producer", raw: bytes, batch: wire.Batch, flags: int) -> bytes:
        try:
            reply = self.store(raw, batch, flags)
        except Fault as fault:
            if fault.code not in wire.MAY_RETRY:
                known.keep(fault)
            raise
        known.keep(reply)
        return b"\0" + reply

    def store(self, raw: bytes, batch: wire.Batch, flags: int) -> bytes:
        name = wire.topic_name(raw)
        wire.check_batch_limits(batch)
        topic = self.broker.topic(name)
        accepted = topic.publish(batch, self.broker.now(), tombstones=bool(flags & wire.TOMBSTONES))
        for reader in topic.readers:
            reader.wake.set()
        compacted = sum(accepted.dropped)
        bits = b""
        if compacted:
            number = sum(1 << i for i, out in enumerate(accepted.dropped) if out)
            bits = number.to_bytes((len(accepted.dropped) + 7) // 8, "little")
        return struct.pack("<QIII", accepted.first_offset, accepted.stored, compacted, len(topic.readers)) + bits

    # Subscribing.

    def subscribe(self, number: int, flags: int, body: Body) -> bytes:
        raw, raw_name, start, value = body.string(), body.string(), body.u8(), body.u64()
        epoch, until, credit, credit_bytes = body.u64(), body.u64(), body.u32(), body.u32()
        owned = bool(flags & wire.OWNED)
        owner, attempt = (body.u64(), body.u32()) if owned else (None, 0)
        sharing = self.sharing(flags, body)
        body.end()
        topic_name, name = wire.topic_name(raw), wire.session_name(raw_name)
        connection = self.connection
        if number <= connection.last_subscription:
            raise Fault(wire.INVALID_FIELD, "id", "a subscription's id is greater than those before")
        if start > AT_TIME:
            raise Fault(wire.INVALID_FIELD, "start", "start is 0 to 3")
        if not 1 <= credit <= wire.MAX_CREDIT:
            raise Fault(wire.INVALID_FIELD, "credit", f"credit is 1 to {wire.MAX_CREDIT}")
        if credit_bytes == 0:
            raise Fault(wire.INVALID_FIELD, "credit_bytes", "credit_bytes is at least 1")
        if owner == 0:
            raise Fault(wire.INVALID_FIELD, "owner", "an owner is not 0")
        wish = Wish(number, name, start, value, until, owner, attempt, sharing)
        self.check_sharing(wish, flags)
        if len(connection.subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Fault(wire.TOO_MANY_SUBSCRIPTIONS, "", "the connection has as many as it may")
        topic = self.readable_topic(topic_name, epoch)
        if topic.table is not None and not connection.features & wire.TABLES:
            raise Fault(wire.UNSUPPORTED, "topic", "it is a table, and this client does not know tables")
        subscription, flags = self.worker(topic, wish) if sharing else self.reader(topic, wish)
        subscription.credit, subscription.credit_bytes = credit, credit_bytes
        connection.last_subscription = number
        connection.subscriptions[number] = subscription
        topic.readers[subscription] = None
        subscription.task = self.broker.spawn(subscription.run())
        if topic.table is not None:
            flags |= wire.OF_TABLE
        place, committed = subscription.start, subscription.committed
        return struct.pack("<BQQQQ", flags, topic.epoch, place, topic.next, committed)

    def reader(self, topic: Topic, wish: Wish) -> tuple[Subscription, int]:
        """A subscription that shares nothing, and the flags of its Subscribed."""
        name, start, owner, attempt = wish.name, wish.start, wish.owner, wish.attempt
        if name in topic.queues:
            raise Fault(wire.INVALID_FIELD, "name", "this name is shared")
        session = topic.sessions.get(name)
        resumed = session is not None
        if session is not None:
            session.judge(owner, attempt)
            place = session.committed
        else:
            place = self.starting_place(topic, start, wish.value)
            if name:
                session = self.new_session(topic, name, place)
                session.begins_empty = start == EARLIEST
        subscription = Subscription(self.connection, wish.number, topic, place, wish.until)
        subscription.told = None if start == EARLIEST else 0
        if session is not None:
            self.take_name(subscription, session, owner, attempt)
        flags = (wire.NAMED if name else 0) | (wire.RESUMED if resumed else 0)
        return subscription, flags

    def readable_topic(self, name: str, epoch: int) -> Topic:
        topic = self.broker.topics.get(name)
        if epoch and (topic is None or topic.epoch != epoch):
            raise Fault(wire.EPOCH_CHANGED, "epoch", "the topic is not the one you know")
        topic = self.broker.topic(name)
        topic.expire(self.broker.now())
        return topic

    def starting_place(self, topic: Topic, start: int, value: int) -> int:
        if start == EARLIEST:
            return topic.earliest()
        if start == LATEST:
            return topic.next
        if start == AT_TIME:
            return topic.offset_at(value)
        if value > topic.next:
            raise Fault(wire.OFFSET_AHEAD, "value", f"the topic ends at {topic.next}")
        return value

    def new_session(self, topic: Topic, name: str, place: int) -> Session:
        if sum(len(t.sessions) for t in self.broker.topics.values()) >= MAX_SESSIONS:
            raise Fault(wire.TOO_MANY_SUBSCRIPTIONS, "name", "the broker holds as many names as it may")
        session = topic.sessions[name] = Session(place, place)
        return session

    def take_name(self, subscription: Subscription, session: Session, owner: int | None, attempt: int) -> None:
        before = session.reader
        if before is not None:
            before.end_with(wire.NAME_TAKEN, "another one has the name now")
        session.hand_over(owner, attempt)
        session.reader = subscription
        subscription.session = session
        subscription.delivered_before = session.delivered
        subscription.told = session.told if session.begins_empty else 0

    def of_connection(self, number: int) -> Subscription:
        subscription = self.connection.subscriptions.get(number)
        if subscription is None:
            raise Fault(wire.NO_SUCH_SUBSCRIPTION, "subscription", f"there is no subscription {number}")
        return subscription

    def unsubscribe(self, _number: int, flags: int, body: Body) -> bytes:
        number = body.u32()
        body.end()
        subscription = self.of_connection(number)
        if flags & wire.FORGET:
            subscription.forget()
        subscription.end()
        self.connection.leave_name(subscription)
        del self.connection.subscriptions[number]
        return b"\0"

    def commit(self, _number: int, _flags: int, body: Body) -> bytes:
        number, upto = body.u32(), body.u64()
        body.end()
        return struct.pack("<BQ", 0, self.of_connection(number).commit(upto))

    # The rest.

    def ping(self, _number: int, _flags: int, body: Body) -> bytes:
        value = body.u64()
        body.end()
        return struct.pack("<BQ", 0, value)

    def close(self, _number: int, _flags: int, body: Body) -> bytes:
        body.end()
        self.connection.end_subscriptions()
        return b"\0"

    def describe(self, _number: int, _flags: int, body: Body) -> bytes:
        kind, prefix, after, limit = body.u8(), body.string(), body.string(), body.u16()
        body.end()
        first, last = wire.text(prefix, "prefix"), wire.text(after, "after")
        if kind > describe.CONNECTIONS:
            raise Fault(wire.INVALID_FIELD, "kind", "kind is 0 to 3")
        if limit == 0:
            raise Fault(wire.INVALID_FIELD, "limit", "limit is at least 1")
        return b"\0" + describe.page(self.broker, kind, first, last, limit)

    def delete(self, _number: int, flags: int, body: Body) -> bytes:
        raw, epoch = body.string(), body.u64()
        body.end()
        name = wire.topic_name(raw)
        topic = self.broker.topics.get(name)
        if topic is None:
            raise Fault(wire.NO_SUCH_TOPIC, "topic", "there is no such topic")
        if epoch not in (0, topic.epoch):
            raise Fault(wire.EPOCH_CHANGED, "epoch", "the topic is not the one you know")
        if flags & wire.IF_EMPTY:
            topic.expire(self.broker.now())
            if topic.head < topic.next or topic.readers or topic.sessions or topic.queues:
                raise Fault(wire.NOT_EMPTY, "", "it has messages, readers or positions")
        self.broker.delete(topic)
        return b"\0"

    def disconnect(self, _number: int, _flags: int, body: Body) -> bytes:
        number = body.u64()
        body.end()
        other = self.broker.connections.get(number)
        if other is None or other is self.connection or other.done:
            raise Fault(wire.INVALID_FIELD, "connection", "no other connection has this number")
        other.go_away(wire.DISCONNECTED, "an operator ended this connection")
        return b"\0"
