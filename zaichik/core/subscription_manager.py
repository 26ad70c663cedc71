"""The state of one connection, without its socket: requests, replies and subscriptions.

Requests are applied, and subscriptions take turns (round robin).

`apply` carries out a request at once and queues its reply. `next_output` returns the bytes to send
next: the replies first, then one frame from each ready subscription in turn, up to a limit. Both
are synchronous, and are called in a connection's turn. The only thing that is ever waited for is
"there may be output" (`on_output`). Waiting and taking are separate steps, so cancelling a wait
loses nothing.

Why requests never wait for the socket: a client that publishes a lot to a topic it also reads, and
reads nothing in the meantime, fills its receive buffer. If the broker waited for a send before the
next request, each side would wait for the other, forever.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zaichik.core.checks import check_list, check_memory, check_publish, check_subscribe
from zaichik.core.following.following import check_follower
from zaichik.core.opening import Side, new_subscriber
from zaichik.core.operating import operate
from zaichik.core.pending import Pending
from zaichik.core.phase import Phase
from zaichik.core.position import key_of
from zaichik.core.replies import Replies, error
from zaichik.core.rights import ANYBODY, User, check, may_subscribe
from zaichik.core.sharing import prices
from zaichik.core.subscriber import Subscriber
from zaichik.core.topic_controller import TopicController
from zaichik.core.welcome import welcome
from zaichik.core.work_queue.worker import Hand
from zaichik_protocol import (
    DURABLE,
    HEARTBEAT,
    TABLES,
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
    Settle,
    Settled,
    Subscribe,
    Subscribed,
    TopicCreated,
    Unsubscribe,
    Unsubscribed,
    Welcome,
    encode_pieces,
)

if TYPE_CHECKING:
    from zaichik.core.broker import Broker

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
        client: the client that the connection is charged to, for quotas and turns: an address
            without the port.

    Attributes:
        user: the user who has logged in.
        client_name: the name the client gave in its Hello, "" before.
        phase: what the conversation is about; see `Phase`.
        is_open: whether requests are still carried out: the phase is `NEW` or `OPEN`.
        closing: whether the phase is `CLOSING`; once `is_finished`, the socket can be closed.
        greeted: whether the Hello was accepted, whatever came after it.
        heartbeat: whether the client promised one (TIM-3).
        knows_tables: whether the client does not take holes for lag (TAB-3).
        is_restricted: whether only an operator's requests are carried out (CLO-5).
        reason: why it ends, for the log.
        readers: its subscriptions, by their ids.
        replies: the replies that wait to be sent.
        ready: the subscriptions that have asked for a turn, the next one first.
        unsent: bytes of what was taken that the socket has not accepted yet.
        requests: how many requests came, the refused included.
        since_us: when it was made, by the broker's clock.
    """

    def __init__(
        self,
        broker: "Broker",
        number: int,
        on_output: Callable[[], None],
        peer: str = "",
        client: str = "",
    ) -> None:
        self.number = number
        self.client = client
        self.peer = peer
        self.user: User = ANYBODY
        self.client_name = ""
        self.phase = Phase.NEW
        self.is_open = True
        self.closing = False
        self.greeted = False
        self.heartbeat = False
        self.knows_tables = False
        self.is_restricted = False
        self.reason = "CLOSED"
        self.readers: dict[int, Subscriber] = {}
        # What its subscriptions to shared names have together (SHR-6).
        self._hand: Hand | None = None
        self.requests = 0
        self.unsent = 0
        self.since_us = 0
        self._last_subscription = 0
        self.replies = Replies(on_output)
        self._broker = broker
        self._on_output = on_output
        self.ready: deque[Subscriber] = deque()

    # -- requests --------------------------------------------------------------------------------

    def apply(self, request: Frame, now_us: int) -> None:
        """Carry out a request and queue its reply, or an Error.

        Does nothing once the connection is closing.

        The decoder guarantees that the first request is a Hello.
        """
        if not self.is_open:
            return
        self.requests += 1
        try:
            # A publish is checked in `_store`: a refusal uses up its number (PUB-4). A call here
            # for each costs time.
            needs_right = self.user is not ANYBODY and not isinstance(request, Publish)
            if self.is_restricted or needs_right:
                self._check(request)
            reply = self._carry_out(request, now_us)
        except Refused as refusal:
            registry = self._broker.registry
            registry.remember(request, refusal, self.user.name, self.number, now_us)
            self.refuse(refusal, request.id, request.TYPE)
            return
        if isinstance(reply, Pending):
            self.replies.owe(request, reply)
        # Id 0 asks for no reply.
        elif request.id != 0:
            if isinstance(reply, Closed):
                self.replies.add_last(reply)
            else:
                self.replies.add(reply)

    def refuse(self, refusal: Refused, request_id: int, request_type: int) -> None:
        """Queue an Error.

        If it is fatal, or comes before the Hello was accepted, it is the last frame.
        """
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
        """Refuse what this connection, or its user, may not do.

        Nothing has been looked up yet (ACC-2).
        """
        if self.is_restricted and not isinstance(request, OPERATORS_REQUESTS):
            problem = (
                "the broker is full: this connection is for Describe, Disconnect, Delete "
                "and Close only. Try later."
            )
            raise Refused(ErrorCode.TOO_MANY_CONNECTIONS, problem)
        check(self.user, request)

    def _carry_out(self, request: Frame, now_us: int) -> Frame | Pending:
        match request:
            case Hello():
                return self._hello(request)
            case CreateTopic():
                registry = self._broker.registry
                topic, created = registry.create(
                    request.topic, request.settings, now_us, self.client
                )
                settings = topic.settings.pairs()
                reply = TopicCreated(request.id, int(created), topic.epoch, settings)
                return registry.when_written(topic, reply)
            case Publish(producer=0):
                return self._store(request, now_us)
            case Publish():
                return self._store_once(request, now_us)
            case Subscribe():
                return self._subscribe(request, now_us)
            case Unsubscribe():
                self._unsubscribe(request)
                return Unsubscribed(request.id)
            case Commit():
                reader = self._reader(request.subscription)
                committed = reader.commit(request.next)
                return Committed(request.id, committed)
            case Settle():
                reader = self._reader(request.subscription)
                check_list(request.tickets, "tickets", self._broker.settings)
                late = reader.settle(request, now_us)
                return Settled(request.id, tuple(late))
            case Ping():
                return Pong(request.id, request.value)
            case Close():
                self._leave_all()
                self.close()
                return Closed(request.id)
            case _:
                return operate(self._broker, self.number, self.user, request, now_us)

    def _hello(self, request: Hello) -> Welcome:
        if self.greeted:
            raise Refused(ErrorCode.UNSUPPORTED, "this connection has sent a Hello already")
        reply = welcome(self._broker, request)
        self._become(Phase.OPEN)
        self.greeted = True
        self.heartbeat = bool(reply.features & HEARTBEAT)
        self.knows_tables = bool(reply.features & TABLES)
        self.replies.tells_durable = bool(reply.features & DURABLE)
        self.client_name = request.client[:MAX_CLIENT_NAME]
        return reply

    def _store_once(self, request: Publish, now_us: int) -> Published | Pending:
        """Store a numbered batch, unless it was answered before (PUB-4)."""
        registry = self._broker.registry
        producers = self._broker.producers
        scope = registry.scope(request.topic)
        if self.user is not ANYBODY:
            request, scope = producers.owned(self.user, request, scope)
        durable = bool(scope) and self.replies.tells_durable
        answer = producers.answered(request, scope, now_us, self.client, durable=durable)
        if answer is not None:
            if isinstance(answer, Published):
                registry.remember(request, answer, self.user.name, self.number, now_us)
            return answer
        try:
            answer = self._store(request, now_us)
        except Refused as refusal:
            producers.remember(request, scope, refusal)
            raise
        producers.remember(request, scope, answer)
        return answer

    def _store(self, request: Publish, now_us: int) -> Published | Pending:
        registry = self._broker.registry
        name = request.topic
        batch = request.batch
        user = self.user
        if user is not ANYBODY and name not in user.publishable:
            check(user, request)
        try:
            check_publish(name, batch, self._broker.settings)
            topic = registry.get_or_create(name, now_us, self.client, user)
            return topic.publish(
                batch,
                now_us,
                request.id,
                request.producer,
                request.sequence,
                tombstones=request.tombstones,
            )
        except Refused as refusal:
            answer = registry.record_refusal(request, refusal, now_us)
            if answer is None:
                raise
            registry.remember(request, refusal, user.name, self.number, now_us)
            return answer

    # -- subscriptions ---------------------------------------------------------------------------

    def _subscribe(self, request: Subscribe, now_us: int) -> Subscribed | Pending:
        broker = self._broker
        count = len(self.readers)
        check_subscribe(request, self._last_subscription, count, broker.settings)
        check_follower(request)
        check_memory(request, broker.memory, self.client)
        name = request.topic
        registry = broker.registry
        # A client that gives an epoch knows offsets, which mean nothing in any other topic.
        if request.epoch:
            topic = registry.get(name, request.epoch)
        else:
            topic = registry.get_or_create(name, now_us, self.client, self.user)
        if topic.retained.has_holes and not self.knows_tables:
            problem = (
                f"topic {name!r} is a table, and this client does not know tables: it would take "
                "holes for lag. Use a newer client."
            )
            raise Refused(ErrorCode.UNSUPPORTED, problem, "topic")
        key = key_of(self.user.name, request.name)
        broker.shared_names.note_time(now_us)
        if key in topic.names:
            return self._begin(request, topic, 0)
        start = topic.position(request.start, request.value, now_us)
        if isinstance(start, Pending):
            return start.followed_by(partial(self._begin_later, request, topic))
        return self._begin(request, topic, start)

    def _begin_later(
        self, request: Subscribe, topic: TopicController, start: int
    ) -> Subscribed | Refused:
        """Begin a subscription whose offset the disk has found.

        Much may have happened meanwhile.
        """
        if not self.is_open:
            return Refused(ErrorCode.NO_SUCH_SUBSCRIPTION, "the connection is closing")
        try:
            check(self.user, request)
            topic = self._broker.registry.get(topic.name, topic.epoch)
            return self._begin(request, topic, start)
        except Refused as refusal:
            return refusal

    def _begin(self, request: Subscribe, topic: TopicController, start: int) -> Subscribed:
        """Begin a subscription at that offset, or at the position of its name."""
        description = "a subscription"
        # With access control, other users must not learn whose it is.
        if self.user is ANYBODY:
            description = (
                f"subscription {request.id} of connection {self.number} "
                f"(client {self.client_name!r})"
            )
        key = key_of(self.user.name, request.name)
        is_resumed = key in topic.names
        if request.shared and self._hand is None:
            self._hand = Hand()
        side = Side(self.user, self.client, self.number, description, self._queue, self._hand)
        reader = new_subscriber(self._broker, side, request, topic, start)
        self._enter(reader)
        reader.make_ready()
        start, committed = reader.stands_at()
        return Subscribed(
            request.id,
            topic.epoch,
            start,
            topic.end,
            committed,
            named=bool(request.name),
            resumed=is_resumed,
            table=bool(topic.settings.table),
        )

    def _enter(self, reader: Subscriber) -> None:
        """Enter a new subscription everywhere: at its topic and position, here, at the broker."""
        # First, because it may be refused: then it is nowhere.
        reader.join()
        self._last_subscription = reader.id
        self.readers[reader.id] = reader
        self._broker.readers.add(reader.name, (self, reader))
        self._broker.memory.take(self.client, prices.SUBSCRIPTION)

    def _remove(self, reader: Subscriber) -> None:
        """Remove a subscription from all of these (CLO-3), but from its topic and position."""
        del self.readers[reader.id]
        self._broker.readers.remove(reader.name)
        self._broker.memory.take(self.client, -prices.SUBSCRIPTION)

    def _reader(self, subscription_id: int) -> Subscriber:
        reader = self.readers.get(subscription_id)
        if reader is None:
            problem = f"this connection has no subscription {subscription_id}"
            raise Refused(ErrorCode.NO_SUCH_SUBSCRIPTION, problem, "subscription")
        return reader

    def _unsubscribe(self, request: Unsubscribe) -> None:
        reader = self._reader(request.subscription)
        # If it was cut off, the name is another's by now, or gone.
        forgets = request.forget and reader.why_cut_off is None
        if forgets:
            reader.check_forget()
        self._remove(reader)
        reader.leave()
        if forgets:
            self._broker.named_positions.forget(reader.topic, reader.stand)

    def recheck(self, now_us: int, *, rights: bool) -> None:
        """End what the user may no longer do (ACC-4).

        Args:
            now_us: the clock's reading.
            rights: whether rights may have changed, too, and not only the login.
        """
        if self.user.is_ended(now_us):
            code = GoAwayCode.CREDENTIALS_ENDED
            self.go_away(code, code.name)
            return
        if not rights:
            return
        for reader in self.readers.values():
            if reader.ended:
                continue
            if not may_subscribe(self.user, reader.topic.name):
                reader.cut_off(EndCode.FORBIDDEN)

    # -- output ----------------------------------------------------------------------------------

    def next_output(self, now_us: int) -> list[bytes]:
        """Returns the frames to send next, in order and in pieces; an empty list if there are none.

        Replies go first. Then the ready subscriptions take turns, one frame each, up to
        `soft_output` or `MESSAGES_A_TURN`: a busy topic cannot starve a quiet one (LAG-4), the
        messages for a peer that reads slowly stay in the ring (LAG-3), and other connections get
        their turn (LAG-5).
        """
        pieces = self.replies.take()
        size = sum(map(len, pieces))
        most = self._broker.settings.soft_output
        for _ in range(MESSAGES_A_TURN):
            if not self.ready or size >= most:
                break
            reader = self.ready.popleft()
            if reader.id not in self.readers:
                # It was unsubscribed while it was in the queue (UNS-1).
                continue
            frame = reader.take(now_us)
            if frame is not None:
                for piece in encode_pieces(frame):
                    pieces.append(piece)
                    size += len(piece)
            if reader.is_ready:
                self.ready.append(reader)
        is_stopping = self.phase is Phase.STOPPING
        if is_stopping and self._may_say_goodbye and not self.ready:
            self.go_away(GoAwayCode.STOPPING, "STOPPED")
        return pieces

    def drop_replies(self) -> None:
        """Drop what waits to be sent: the peer is gone."""
        self.unsent = 0
        self.replies.clear()

    def note_unsent(self, size: int) -> None:
        """Note how many bytes of what was taken the socket has not accepted yet.

        An explanation reports them.
        """
        self.unsent = size

    @property
    def has_output(self) -> bool:
        """Whether `next_output` may return something."""
        return bool(self.replies.waiting or self.ready) or self._may_say_goodbye

    @property
    def _may_say_goodbye(self) -> bool:
        if self.phase is not Phase.STOPPING or self.replies.owed:
            return False
        return not any(reader.waits_for_disk for reader in self.readers.values())

    @property
    def is_finished(self) -> bool:
        """Whether the connection is closing and every reply has been taken.

        Those that are owed count.
        """
        replies = self.replies
        return self.closing and not replies.waiting and not replies.owed

    def _queue(self, reader: Subscriber) -> None:
        self.ready.append(reader)
        self._on_output()

    # -- the end ---------------------------------------------------------------------------------

    def accept_no_more(self) -> None:
        """Carry out no more requests: the broker is about to stop (CLO-2)."""
        if self.is_open:
            self._become(Phase.DRAINING)

    def stop(self) -> None:
        """Send every message that the client has credit for, then a GoAway, and close (CLO-2)."""
        if self.phase is not Phase.CLOSING:
            self._become(Phase.STOPPING)
            for reader in self.readers.values():
                reader.stop()
        self._on_output()

    def give_up(self) -> None:
        """Send a GoAway and close, without the replies that wait for the disk: it has failed."""
        if self.replies.owed or not self.closing:
            code = GoAwayCode.STORAGE
            last = GoAway(0, code, code.meaning)
            self.replies.write_off(last)
            self.end(code.name)

    def go_away(self, code: GoAwayCode, reason: str) -> None:
        """Queue a GoAway and close."""
        if not self.closing:
            self.replies.add_last(GoAway(0, code, code.meaning))
            self._leave_all()
            self.end(reason)

    def end(self, reason: str) -> None:
        """Close for that reason: a word for the counters, and perhaps a colon and a sentence."""
        self.reason = reason
        self.close()

    def close(self) -> None:
        """End all subscriptions and accept no more requests. Queued replies are still sent.

        The peer has not said that it leaves them: its connection counts as lost.
        """
        self._become(Phase.CLOSING)
        for reader in list(self.readers.values()):
            self._remove(reader)
            reader.lose()
        self._on_output()

    def _leave_all(self) -> None:
        """End all subscriptions in good order: the peer, or the broker, has said so."""
        for reader in list(self.readers.values()):
            self._remove(reader)
            reader.leave()

    def _become(self, phase: Phase) -> None:
        """Enter a phase. What every request asks about it is worked out here, once."""
        self.phase = phase
        self.is_open = phase in (Phase.NEW, Phase.OPEN)
        self.closing = phase is Phase.CLOSING
