"""One client's conversation: its requests are applied, its subscriptions take turns.

The manager is the select of the broker. `apply` carries out a request at once and puts the reply into `out`;
`next_output` gives the bytes to send next: the replies first, then a frame from each subscription that has something,
one after the other, until enough is on its way. Both are synchronous, and a connection's turn calls them. The only
thing that is ever waited for is "there may be output" (`on_output`). Waiting and taking are separate steps, so whatever
is cancelled while waiting, nothing has been taken that could be lost.

Why commands never wait for the socket: a client that publishes much to a topic it also reads, and reads
nothing in the meantime, fills its receive buffer. If the broker then waited for a send before taking the next
command, both sides would wait for each other for ever.
"""

from collections import deque
from collections.abc import Callable

from zaichik.broker.checks import OWN_TOPICS, check_batch, check_subscribe
from zaichik.broker.replies import Replies
from zaichik.broker.session import Session
from zaichik.broker.settings import out_of_range
from zaichik.broker.state import State
from zaichik.broker.subscription import Subscription
from zaichik.sharing import prices
from zaichik_protocol import (
    HEARTBEAT,
    OWNER,
    PROTOCOL_VERSION,
    Close,
    Closed,
    Commit,
    Committed,
    CreateTopic,
    Delete,
    Deleted,
    Describe,
    Described,
    Disconnect,
    Disconnected,
    Error,
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

MESSAGES_A_TURN = 16  # frames of messages; each costs some 10 µs to cut and encode
OPERATORS_REQUESTS = (Hello, Describe, Disconnect, Delete, Close)
MAX_CLIENT_NAME = 100  # letters of it that are kept, for the log and `describe`
# How soon to try again: readers read on at any time, what is remembered is forgotten by a sweep, once a second.
RETRY_AFTER_MS = {ErrorCode.TOPIC_FULL: 50, ErrorCode.NO_MEMORY: 1000}


class SubscriptionManager:
    """The state of one connection, apart from its socket.

    Args:
        broker: what all connections share.
        number: of the connection, counted by the broker.
        on_output: called whenever `next_output` may have something to send.
        peer: the client's address, for `describe`.
        share: whose connection it is, for quotas and turns: an address without the port.

    Attributes:
        client: the name the client gave in its Hello, "" before.
        greeted: whether the Hello was accepted.
        heartbeat: whether the client promised one (TIM-3).
        is_restricted: whether only an operator's requests are carried out (CLO-5).
        hears: whether requests are still carried out.
        closing: the conversation ends; once `is_finished`, the connection is done.
        reason: why it ends, for the log.
        subscriptions: by their id.
        replies: those that wait to be sent.
        requests: how many came, those that failed included.
    """

    def __init__(
        self, broker: State, number: int, on_output: Callable[[], None], peer: str = "", share: str = ""
    ) -> None:
        self.number = number
        self.share = share
        self.peer = peer
        self.client = ""
        self.greeted = False
        self.heartbeat = False
        self.is_restricted = False
        self.hears = True
        self.closing = False
        self.reason = "CLOSED"
        self.subscriptions: dict[int, Subscription] = {}
        self.requests = 0
        self.replies = Replies(on_output)
        self._broker = broker
        self._on_output = on_output
        self._is_stopping = False  # the broker stops: a GoAway follows the last message
        self._ready: deque[Subscription] = deque()
        self._last_subscription = 0

    # -- requests --------------------------------------------------------------------------------------------

    def apply(self, request: Frame, now_us: int) -> None:
        """Carry out a request; its reply, or an Error, goes to the output. Ignored after a Close.

        The decoder has seen to it that the first one is a Hello.
        """
        if not self.hears:
            return
        self.requests += 1
        try:
            reply = self._carry_out(request, now_us)
        except Refused as refusal:
            self.refuse(refusal, request.id, request.TYPE)
            return
        if request.id != 0:  # id 0 asks for silence
            self.replies.add(reply)

    def refuse(self, refusal: Refused, request_id: int, request_type: int) -> None:
        """Answer with an Error. If it is fatal, or the client is not in yet, it is the last thing said."""
        code = refusal.code
        fatal = code.fatal or not self.greeted
        error = Error(
            request_id,
            code,
            request_type,
            refusal.field,
            RETRY_AFTER_MS.get(code, 0),
            refusal.message,
            retryable=code.retryable,
            fatal=fatal,
        )
        self.replies.add(error)
        if fatal:
            self.end(f"{code.name}: {refusal.message}")

    def _carry_out(self, request: Frame, now_us: int) -> Frame:
        if self.is_restricted and not isinstance(request, OPERATORS_REQUESTS):
            problem = (
                "the broker is full: this connection is for Describe, Disconnect and Delete only. Try again later."
            )
            raise Refused(ErrorCode.TOO_MANY_CONNECTIONS, problem)
        match request:
            case Hello():
                return self._hello(request)
            case CreateTopic():
                topic, created = self._broker.registry.create(request.topic, request.settings, now_us, self.share)
                return TopicCreated(request.id, int(created), topic.epoch, topic.settings.pairs())
            case Publish(producer=0):
                return self._store(request, now_us)
            case Publish():
                return self._broker.producers.once(request, now_us, self._store, self.share)
            case Subscribe():
                return self._subscribe(request, now_us)
            case Unsubscribe():
                self._unsubscribe(request)
                return Unsubscribed(request.id)
            case Commit():
                subscription = self._subscription(request.subscription)
                return Committed(request.id, subscription.commit(request.next))
            case Ping():
                return Pong(request.id, request.value)
            case Close():
                self.close()
                return Closed(request.id)
            case Describe() | Delete() | Disconnect():
                return self._operate(request, now_us)
            case _:
                raise Refused(ErrorCode.UNSUPPORTED, f"this broker does not do {type(request).__name__}", "type")

    def _hello(self, request: Hello) -> Welcome:
        if self.greeted:
            raise Refused(ErrorCode.UNSUPPORTED, "Hello was said already")
        if not request.version_min <= PROTOCOL_VERSION <= request.version_max:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"this broker speaks version {PROTOCOL_VERSION} only; "
                f"the client speaks {request.version_min} to {request.version_max}",
                "version_max",
            )
        if request.auth > 2:
            raise out_of_range("auth", request.auth, "0 to 2")
        self.greeted = True
        self.heartbeat = bool(request.features & HEARTBEAT)
        self.client = request.client[:MAX_CLIENT_NAME]
        limits = self._broker.settings
        return Welcome(
            request.id,
            version=PROTOCOL_VERSION,
            features=request.features & (HEARTBEAT | OWNER),
            boot=self._broker.boot,
            max_frame=limits.max_frame,
            max_batch=limits.max_batch,
            max_message=limits.max_message,
            max_credit=limits.max_credit,
            idle_ms=round(limits.idle_timeout * 1000) if self.heartbeat else 0,
            broker=self._broker.name,
        )

    def _operate(self, request: Describe | Delete | Disconnect, now_us: int) -> Frame:
        """Carry out what an operator asks for: requests about the broker, not about messages."""
        match request:
            case Describe():
                more, page = self._broker.describe(request, now_us)
                return Described(request.id, int(more), page)
            case Delete():
                self._broker.registry.delete(request.topic, request.epoch, now_us, if_empty=request.if_empty)
                return Deleted(request.id)
            case Disconnect():
                self._disconnect(request.connection)
                return Disconnected(request.id)

    def _disconnect(self, number: int) -> None:
        """Have another connection end; requests of it that were not carried out yet are dropped (CLO-4)."""
        if number == self.number:
            raise Refused(ErrorCode.INVALID_FIELD, f"connection {number} is this one: end it with Close", "connection")
        if not self._broker.send_away(number):
            problem = f"connection {number} does not exist: it may have ended by itself"
            raise Refused(ErrorCode.INVALID_FIELD, problem, "connection")

    def _store(self, request: Publish, now_us: int) -> Published:
        check_batch(request.batch, self._broker.settings)
        topic = self._broker.registry.get_or_create(request.topic, now_us, self.share)
        if topic.name.startswith(OWN_TOPICS):
            raise Refused(ErrorCode.INVALID_FIELD, f"only the broker publishes to {topic.name!r}", "topic")
        return topic.publish(request.batch, now_us, request.id)

    # -- subscriptions ---------------------------------------------------------------------------------------

    def _subscribe(self, request: Subscribe, now_us: int) -> Subscribed:
        broker = self._broker
        check_subscribe(request, self._last_subscription, len(self.subscriptions), broker.settings)
        if not broker.memory.has_room(self.share, prices.SUBSCRIPTION):
            problem = "this client holds as much as it may have of max_client_bytes. Unsubscribe from something."
            raise Refused(ErrorCode.NO_MEMORY, problem)
        if request.epoch:
            topic = broker.registry.get(request.topic, request.epoch)
        else:
            topic = broker.registry.get_or_create(request.topic, now_us, self.share)
        position = topic.names.get(request.name)
        is_resumed = position is not None
        if position is None:
            cursor = topic.position(request.start, request.value, now_us)
            if request.name:
                position = broker.sessions.open(topic, request.name, cursor, self.share)
            else:
                position = Session(cursor)
        if request.name:
            position.claim(request.owner, request.attempt)
        description = f"subscription {request.id} of connection {self.number} (client {self.client!r})"
        subscription = Subscription(request, topic, position, self._queue, description)
        broker.memory.take(self.share, prices.SUBSCRIPTION)
        self._last_subscription = request.id
        self.subscriptions[request.id] = subscription
        broker.readers.add(self.name_of(subscription), (self, subscription))
        subscription.make_ready()
        cursor = subscription.cursor
        return Subscribed(
            request.id, topic.epoch, cursor, topic.end, cursor, named=bool(request.name), resumed=is_resumed
        )

    def name_of(self, subscription: Subscription) -> str:
        """Returns the name of a subscription for `describe`: it begins with the topic's, and sorts by its numbers."""
        return f"{subscription.topic.name}#{self.number:08}.{subscription.id:010}"

    def _subscription(self, subscription_id: int) -> Subscription:
        subscription = self.subscriptions.get(subscription_id)
        if subscription is None:
            raise Refused(
                ErrorCode.NO_SUCH_SUBSCRIPTION,
                f"this connection has no subscription {subscription_id}",
                "subscription",
            )
        return subscription

    def _unsubscribe(self, request: Unsubscribe) -> None:
        subscription = self._subscription(request.subscription)
        self._drop(subscription)
        if request.forget:
            self._broker.sessions.forget(subscription.topic, subscription.position)

    def _drop(self, subscription: Subscription) -> None:
        """No trace is left, neither here nor at the topic (CLO-3)."""
        del self.subscriptions[subscription.id]
        self._broker.readers.remove(self.name_of(subscription))
        self._broker.memory.take(self.share, -prices.SUBSCRIPTION)
        subscription.leave()

    # -- output ----------------------------------------------------------------------------------------------

    def next_output(self, now_us: int) -> list[bytes]:
        """Returns the frames to send next, in order and in pieces; none if there is nothing to say.

        Replies go first, up to one that is not known yet. Then each ready subscription has one frame, again and again,
        until the soft mark or the number of frames is reached: a busy topic cannot starve a quiet one (LAG-4), a peer
        that is slow in reading leaves its messages in the ring (LAG-3), and other connections have their turn (LAG-5).
        """
        pieces = self.replies.take()
        if self.replies.waiting:
            return pieces
        size = sum(map(len, pieces))
        for _ in range(MESSAGES_A_TURN):
            if not self._ready or size >= self._broker.settings.soft_output:
                break
            subscription = self._ready.popleft()
            if subscription.id not in self.subscriptions:
                continue  # unsubscribed while it was in the queue (UNS-1)
            frame = subscription.take(now_us)
            if frame is not None:
                encoded = encode_pieces(frame)
                pieces.extend(encoded)
                size += sum(map(len, encoded))
                self._ready.append(subscription)
        if self._is_stopping and not self._ready and not self.closing:
            self.go_away(GoAwayCode.STOPPING, "STOPPED")
        return pieces

    @property
    def has_output(self) -> bool:
        """Whether `next_output` may return something."""
        if self.replies.waiting:
            return not self.replies.is_blocked
        return bool(self._ready) or (self._is_stopping and not self.closing)

    @property
    def is_finished(self) -> bool:
        """Whether the conversation has ended and everything was taken from the output, what was reserved included."""
        return self.closing and not self.replies.waiting

    def _queue(self, subscription: Subscription) -> None:
        self._ready.append(subscription)
        self._on_output()

    # -- the end ---------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The broker stops: say so after all that the client has credit for is sent, and close (CLO-2)."""
        self.hears = False
        self._is_stopping = True
        self._on_output()

    def go_away(self, code: GoAwayCode, reason: str) -> None:
        """Tell the client that the connection ends now, and close."""
        if not self.closing:
            self.replies.add(GoAway(0, code, code.meaning))
            self.end(reason)

    def end(self, reason: str) -> None:
        """Close, for that reason: a word for the counters, then perhaps a colon and a sentence."""
        self.reason = reason
        self.close()

    def close(self) -> None:
        """End all subscriptions and take no more requests. What is in the output will still be sent."""
        self.hears = False
        self.closing = True
        for subscription in list(self.subscriptions.values()):
            self._drop(subscription)
        self._on_output()
