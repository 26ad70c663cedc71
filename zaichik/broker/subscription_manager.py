"""The state of one connection, without its socket: requests are applied, subscriptions take turns (round robin).

`apply` carries out a request at once and queues its reply. `next_output` returns the bytes to send next: the replies
first, then one frame from each ready subscription in turn, up to a limit. Both are synchronous, and are called in a
connection's turn. The only thing that is ever waited for is "there may be output" (`on_output`). Waiting and taking are
separate steps, so cancelling a wait loses nothing.

Why requests never wait for the socket: a client that publishes a lot to a topic it also reads, and reads
nothing in the meantime, fills its receive buffer. If the broker waited for a send before the next request,
each side would wait for the other, forever.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from zaichik.broker.checks import check_memory, check_publish, check_subscribe
from zaichik.broker.operating import operate
from zaichik.broker.pending import Pending
from zaichik.broker.position import Position, key_of
from zaichik.broker.reader import Reader
from zaichik.broker.replies import Replies, error
from zaichik.broker.rights import ANYBODY, User, check, topic_of
from zaichik.broker.state import State
from zaichik.broker.topic_controller import TopicController
from zaichik.broker.welcome import welcome
from zaichik.sharing import prices
from zaichik_protocol import (
    DURABLE,
    HEARTBEAT,
    Close,
    Closed,
    Commit,
    Committed,
    CreateTopic,
    Delete,
    Describe,
    Disconnect,
    EndCode,
    ErrorCode,
    Frame,
    GoAway,
    GoAwayCode,
    Hello,
    Ping,
    Pong,
    Publish,
    Published,
    Refused,
    Subscribe,
    Subscribed,
    TopicCreated,
    Unsubscribe,
    Unsubscribed,
    Welcome,
    encode_pieces,
)

MESSAGES_A_TURN = 8  # frames of messages; each costs some 8 µs to cut and encode
OPERATORS_REQUESTS = (Hello, Describe, Disconnect, Delete, Close)
MAX_CLIENT_NAME = 100  # characters of a client's name that are kept, for the log and `describe`


class SubscriptionManager:
    """The state of one connection, apart from its socket.

    Args:
        broker: what all connections share.
        number: the connection's number, assigned by the broker.
        on_output: called whenever `next_output` may have something to send.
        peer: the client's address, for `describe`.
        share: the client that the connection is charged to, for quotas and turns: an address without the port.

    Attributes:
        user: the user who has logged in.
        client: the name the client gave in its Hello, "" before.
        greeted: whether the Hello was accepted.
        heartbeat: whether the client promised one (TIM-3).
        is_restricted: whether only an operator's requests are carried out (CLO-5).
        is_open: whether requests are still carried out: not once it is closing, or the broker is stopping.
        closing: whether it is ending; once `is_finished`, the socket can be closed.
        reason: why it ends, for the log.
        readers: its subscriptions, by their ids.
        replies: the replies that wait to be sent.
        ready: the subscriptions that have asked for a turn, the next one first.
        unsent: bytes of what was taken that the socket has not accepted yet.
        requests: how many requests came, the refused included.
        since_us: when it was made, by the broker's clock.
    """

    def __init__(
        self, broker: State, number: int, on_output: Callable[[], None], peer: str = "", share: str = ""
    ) -> None:
        self.number = number
        self.share = share
        self.peer = peer
        self.user: User = ANYBODY
        self.client = ""
        self.greeted = self.heartbeat = self.is_restricted = self.closing = False
        self.is_open = True
        self.reason = "CLOSED"
        self.readers: dict[int, Reader] = {}
        self.requests = self.unsent = self.since_us = self._last_subscription = 0
        self.replies = Replies(on_output)
        self._broker = broker
        self._on_output = on_output
        self._is_stopping = False  # the broker is stopping: a GoAway follows the last message
        self.ready: deque[Reader] = deque()

    # -- requests --------------------------------------------------------------------------------------------

    def apply(self, request: Frame, now_us: int) -> None:
        """Carry out a request and queue its reply, or an Error. Does nothing once the connection is closing.

        The decoder guarantees that the first request is a Hello.
        """
        if not self.is_open:
            return
        self.requests += 1
        try:
            # A publish is checked in `_store`: a refusal uses up its number (PUB-4). A call here for each costs time.
            if self.is_restricted or not (self.user is ANYBODY or isinstance(request, Publish)):
                self._check(request)
            reply = self._carry_out(request, now_us)
        except Refused as refusal:
            self._broker.registry.remember(request, refusal, self.user.name, self.number, now_us)
            self.refuse(refusal, request.id, request.TYPE)
            return
        if isinstance(reply, Pending):
            self.replies.owe(request, reply)
        elif request.id != 0:  # id 0 asks for no reply
            (self.replies.add_last if isinstance(reply, Closed) else self.replies.add)(reply)

    def refuse(self, refusal: Refused, request_id: int, request_type: int) -> None:
        """Queue an Error. If it is fatal, or comes before the Hello was accepted, it is the last frame."""
        fatal = refusal.code.fatal or not self.greeted
        answer = error(refusal, request_id, request_type, fatal=fatal)
        if fatal:
            self.replies.add_last(answer)
            self.end(f"{refusal.code.name}: {refusal.message}")
        else:
            self.replies.add(answer)

    def restrict(self) -> None:
        """Carry out only an operator's requests from now on (CLO-5)."""
        self.is_restricted = True

    def _check(self, request: Frame) -> None:
        """Refuse what this connection, or its user, may not do; nothing has been looked up yet (ACC-2)."""
        if self.is_restricted and not isinstance(request, OPERATORS_REQUESTS):
            problem = (
                "the broker is full: this connection is for Describe, Disconnect, Delete and Close only. Try later."
            )
            raise Refused(ErrorCode.TOO_MANY_CONNECTIONS, problem)
        check(self.user, request)

    def _carry_out(self, request: Frame, now_us: int) -> Frame | Pending:
        match request:
            case Hello():
                return self._hello(request)
            case CreateTopic():
                registry = self._broker.registry
                topic, created = registry.create(request.topic, request.settings, now_us, self.share)
                reply = TopicCreated(request.id, int(created), topic.epoch, topic.settings.pairs())
                return registry.when_written(topic, reply)
            case Publish(producer=0):
                return self._store(request, now_us)
            case Publish():
                scope, producers = self._broker.registry.scope(request.topic), self._broker.producers
                if self.user is not ANYBODY:
                    request, scope = producers.owned(self.user, request, scope)
                durable = bool(scope) and self.replies.tells_durable
                answer = producers.once(request, now_us, self._store, self.share, scope, durable=durable)
                if isinstance(answer, Published) and answer.duplicate:
                    self._broker.registry.remember(request, answer, self.user.name, self.number, now_us)
                return answer
            case Subscribe():
                return self._subscribe(request, now_us)
            case Unsubscribe():
                self._unsubscribe(request)
                return Unsubscribed(request.id)
            case Commit():
                return Committed(request.id, self._reader(request.subscription).commit(request.next))
            case Ping():
                return Pong(request.id, request.value)
            case Close():
                self.close()
                return Closed(request.id)
            case _:
                return operate(self._broker, self.number, self.user, request, now_us)

    def _hello(self, request: Hello) -> Welcome:
        if self.greeted:
            raise Refused(ErrorCode.UNSUPPORTED, "this connection has sent a Hello already")
        reply = welcome(self._broker, request)
        self.greeted = True
        self.heartbeat = bool(reply.features & HEARTBEAT)
        self.replies.tells_durable = bool(reply.features & DURABLE)
        self.client = request.client[:MAX_CLIENT_NAME]
        return reply

    def _store(self, request: Publish, now_us: int) -> Published | Pending:
        producer, sequence, registry = request.producer, request.sequence, self._broker.registry
        if self.user is not ANYBODY and request.topic not in self.user.publishable:
            check(self.user, request)
        try:
            check_publish(request.topic, request.batch, self._broker.settings)
            topic = registry.get_or_create(request.topic, now_us, self.share, self.user)
            return topic.publish(request.batch, now_us, request.id, producer, sequence)
        except Refused as refusal:
            known = registry.durable(request.topic)
            if known is None or known.durable is None or not producer or not known.durable.remembers(refusal):
                raise
            registry.remember(request, refusal, self.user.name, self.number, now_us)
            return known.durable.refuse(refusal, now_us, producer, sequence)

    # -- subscriptions ---------------------------------------------------------------------------------------

    def _subscribe(self, request: Subscribe, now_us: int) -> Subscribed | Pending:
        broker = self._broker
        check_subscribe(request, self._last_subscription, len(self.readers), broker.settings)
        check_memory(request, broker.memory, self.share)
        name, epoch, registry = request.topic, request.epoch, broker.registry
        topic = registry.get(name, epoch) if epoch else registry.get_or_create(name, now_us, self.share, self.user)
        if key_of(self.user.name, request.name) in topic.names:
            return self._begin(request, topic, 0)
        start = topic.position(request.start, request.value, now_us)
        if isinstance(start, Pending):
            return start.followed_by(partial(self._begin_later, request, topic))
        return self._begin(request, topic, start)

    def _begin_later(self, request: Subscribe, topic: TopicController, start: int) -> Subscribed | Refused:
        """Begin a subscription whose offset the disk has found. Much may have happened meanwhile."""
        if not self.is_open:
            return Refused(ErrorCode.NO_SUCH_SUBSCRIPTION, "the connection is closing")
        try:
            check(self.user, request)
            return self._begin(request, self._broker.registry.get(topic.name, topic.epoch), start)
        except Refused as refusal:
            return refusal

    def _begin(self, request: Subscribe, topic: TopicController, start: int) -> Subscribed:
        """Begin a subscription at that offset, or at the position of its name."""
        broker, name, key = self._broker, request.name, key_of(self.user.name, request.name)
        position = topic.names.get(key) if name else None
        is_resumed = position is not None
        if position is None:
            position = broker.named_positions.open(topic, key, start, self.share) if name else Position(start)
        if name:
            position.claim(request.owner, request.attempt)
        whose = f"subscription {request.id} of connection {self.number} (client {self.client!r})"
        description = whose if self.user is ANYBODY else "a subscription"  # other users must not learn whose it is
        reader = Reader(request, topic, position, self._queue, description, self.number)
        broker.memory.take(self.share, prices.SUBSCRIPTION)
        self._last_subscription = request.id
        self.readers[request.id] = reader
        broker.readers.add(reader.name, (self, reader))
        reader.make_ready()
        start = reader.cursor
        return Subscribed(request.id, topic.epoch, start, topic.end, start, named=bool(name), resumed=is_resumed)

    def _reader(self, subscription_id: int) -> Reader:
        reader = self.readers.get(subscription_id)
        if reader is None:
            problem = f"this connection has no subscription {subscription_id}"
            raise Refused(ErrorCode.NO_SUCH_SUBSCRIPTION, problem, "subscription")
        return reader

    def _unsubscribe(self, request: Unsubscribe) -> None:
        reader = self._reader(request.subscription)
        self._drop(reader)
        if request.forget:
            self._broker.named_positions.forget(reader.topic, reader.position)

    def recheck(self, now_us: int, *, rights: bool) -> None:
        """End what the user may no longer do (ACC-4).

        Args:
            now_us: the clock's reading.
            rights: whether rights may have changed, too, and not only the login.
        """
        if self.user.is_ended(now_us):
            self.go_away(GoAwayCode.CREDENTIALS_ENDED, GoAwayCode.CREDENTIALS_ENDED.name)
        elif rights:
            for reader in self.readers.values():
                if not reader.ended and not self.user.may("subscribe", topic_of(reader.topic.name)):
                    reader.cut_off(EndCode.FORBIDDEN)

    def _drop(self, reader: Reader) -> None:
        """Remove every trace of a subscription, here and at the topic (CLO-3)."""
        del self.readers[reader.id]
        self._broker.readers.remove(reader.name)
        self._broker.memory.take(self.share, -prices.SUBSCRIPTION)
        reader.leave()

    # -- output ----------------------------------------------------------------------------------------------

    def next_output(self, now_us: int) -> list[bytes]:
        """Returns the frames to send next, in order and in pieces; an empty list if there are none.

        Replies go first. Then the ready subscriptions take turns, one frame each, up to `soft_output` or
        `MESSAGES_A_TURN`: a busy topic cannot starve a quiet one (LAG-4), the messages for a peer that reads slowly
        stay in the ring (LAG-3), and other connections get their turn (LAG-5).
        """
        pieces = self.replies.take()
        size = sum(map(len, pieces))
        for _ in range(MESSAGES_A_TURN):
            if not self.ready or size >= self._broker.settings.soft_output:
                break
            reader = self.ready.popleft()
            if reader.id not in self.readers:
                continue  # unsubscribed while it was in the queue (UNS-1)
            if (frame := reader.take(now_us)) is not None:
                encoded = encode_pieces(frame)
                pieces.extend(encoded)
                size += sum(map(len, encoded))
            if reader.is_ready:
                self.ready.append(reader)
        if self._is_stopping and self._may_say_goodbye and not self.ready:
            self.go_away(GoAwayCode.STOPPING, "STOPPED")
        return pieces

    def drop_replies(self) -> None:
        """Drop what waits to be sent: the peer is gone."""
        self.unsent = 0
        self.replies.clear()

    def note_unsent(self, size: int) -> None:
        """Note how many bytes of what was taken the socket has not accepted yet; an explanation reports them."""
        self.unsent = size

    @property
    def has_output(self) -> bool:
        """Whether `next_output` may return something."""
        return bool(self.replies.waiting or self.ready) or self._may_say_goodbye

    @property
    def _may_say_goodbye(self) -> bool:
        if not self._is_stopping or self.replies.owed or self.closing:
            return False
        return not any(reader.waits_for_disk for reader in self.readers.values())

    @property
    def is_finished(self) -> bool:
        """Whether the connection is closing and every reply has been taken, those that are owed included."""
        return self.closing and not self.replies.waiting and not self.replies.owed

    def _queue(self, reader: Reader) -> None:
        self.ready.append(reader)
        self._on_output()

    # -- the end ---------------------------------------------------------------------------------------------

    def accept_no_more(self) -> None:
        """Carry out no more requests: the broker is about to stop (CLO-2)."""
        self.is_open = False

    def stop(self) -> None:
        """Send every message that the client has credit for, then a GoAway, and close: the broker stops (CLO-2)."""
        self.is_open, self._is_stopping = False, True
        self._on_output()

    def give_up(self) -> None:
        """Send a GoAway and close, without the replies that wait for the disk: it has failed."""
        if self.replies.owed or not self.closing:
            self.replies.write_off(GoAway(0, GoAwayCode.STORAGE, GoAwayCode.STORAGE.meaning))
            self.end(GoAwayCode.STORAGE.name)

    def go_away(self, code: GoAwayCode, reason: str) -> None:
        """Queue a GoAway and close."""
        if not self.closing:
            self.replies.add_last(GoAway(0, code, code.meaning))
            self.end(reason)

    def end(self, reason: str) -> None:
        """Close for that reason: a word for the counters, optionally followed by a colon and a sentence."""
        self.reason = reason
        self.close()

    def close(self) -> None:
        """End all subscriptions and accept no more requests. Queued replies are still sent."""
        self.is_open = False
        self.closing = True
        for reader in list(self.readers.values()):
            self._drop(reader)
        self._on_output()
