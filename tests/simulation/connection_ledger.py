"""The book of one connection: what the client asked, what the broker said, and what the client
heard of it.

The broker's words are read where they enter its socket, at the moment it says them. What they must
not be is decided there and then: a message that arrives after its time may have been sent before
it. What the client hears, however late and in whatever pieces, must be just those words, in their
order.
"""

from collections import deque
from dataclasses import dataclass

from zaichik.server.foreign import ANSWERS
from zaichik_protocol import (
    DURABLE,
    NEED_DATA,
    Closed,
    Commit,
    Committed,
    Error,
    ErrorCode,
    FrameDecoder,
    GoAway,
    Lagged,
    Messages,
    ProtocolError,
    Publish,
    Published,
    Settle,
    Settled,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    TopicCreated,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)

from .share_ledger import ShareLedger
from .subscription_ledger import SubscriptionLedger
from .trace import Anomaly


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was not answered yet.

    Attributes:
        request: the frame.
        expects: errors that may be the answer.
        batch: what it publishes, if it does.
        acked_end: what was known of the topic's end when it was asked, if it subscribes.
        claim: which of those it is that asked for the name, if it has one.
    """

    request: object
    expects: frozenset
    batch: object = None
    acked_end: int = 0
    claim: int = 0


class ConnectionLedger:
    """One connection.

    Args:
        world: where it takes place.
        name: the client's, for the trace.
        is_good: whether the client behaves: then it must never be cut off, and no request of it
            fails unexpectedly.

    Attributes:
        subscriptions: their books, by id.
        told: the last thing the broker said of why it closes: an error's name, "STOPPED", "CLOSED",
            or nothing.
        events: how many frames of subscriptions it was told.
    """

    def __init__(self, world, name, *, is_good=True):
        self.world = world
        self.life = world.life
        self.name = name
        self.is_good = is_good
        self.subscriptions = {}
        self.told = ""
        self.events = 0
        self._asked = deque()
        self._knows_durable = False
        self._ears = FrameDecoder.for_client()
        self._said = bytearray()  # and not heard yet
        self._spoken = deque()  # the frames that these bytes are, each with where it ends
        self._bytes_said = self._bytes_heard = 0

    # -- the client ------------------------------------------------------------------------------

    def ask(self, request, *, expects=(), batch=None):
        """The client is about to send this."""
        world = self.world
        world.trace.add(world.time(), self.name, "asks", request)
        acked_end = claim = 0
        match request:
            case Publish():
                world.topics[request.topic].sent(batch, world.now_us())
            case Subscribe():
                acked_end = world.topics[request.topic].acked_end
                if request.name and not request.shared:
                    claim = world.session(request).claims = world.session(request).claims + 1
            case Commit():
                self._commits(request)
            case Settle():
                self.subscriptions[request.subscription].asks(request, world.now_us())
            case Unsubscribe(forget=True) if session := self.subscriptions[
                request.subscription
            ].session:
                session.is_forgotten()
        if request.id:
            self._asked.append(Asked(request, frozenset(expects), batch, acked_end, claim))

    def _commits(self, request):
        if request.subscription in self.subscriptions:
            self.subscriptions[request.subscription].commits(request)
            return
        for asked in self._asked:  # right behind the Subscribe: carried out with it, if anything is
            if (
                isinstance(asked.request, Subscribe)
                and asked.request.id == request.subscription
                and asked.claim
            ):
                self.world.session(asked.request).asks(request.next)

    def hear(self, data):
        """These bytes have reached the client; the frames they complete."""
        if not self._said.startswith(data):
            if not self._bytes_said and not self.is_good:
                return  # an answer in a protocol of their own
            raise Anomaly(
                "P2",
                f"after {self._bytes_heard} bytes {self.name} hears what was not said: "
                f"{data[:40]!r}",
            )
        del self._said[: len(data)]
        self._bytes_heard += len(data)
        while self._spoken and self._spoken[0][0] <= self._bytes_heard:
            yield self._spoken.popleft()[1]

    def hear_the_end(self):
        """The broker has ended its side.

        If it had the time, all it said has come before (CLO-1).
        """
        if self._said and self.is_good and not self.life.is_stopping:
            raise Anomaly(
                "P2",
                f"{self.name} hears the end, and not the last {len(self._said)} bytes that were "
                "said",
            )

    # -- the broker ------------------------------------------------------------------------------

    def say(self, pieces):
        """The broker says this, now."""
        world, data = self.world, b"".join(pieces)
        if (
            data in ANSWERS.values() or self.life.is_dead
        ):  # to a client that speaks another protocol, or to nobody
            return
        self._said += data
        self._bytes_said += len(data)
        self._ears.receive_data(data)
        try:
            self._check_size(len(data))
            while (frame := self._ears.next_frame()) is not NEED_DATA:
                world.trace.add(world.time(), self.name, "is told", frame)
                self._spoken.append((self._bytes_said - self._ears.buffered, frame))
                self._judge(frame)
        except Anomaly as anomaly:
            world.fail(
                anomaly
            )  # this is called by the broker, which would take an exception for a bug of its own
        except ProtocolError as error:
            world.fail(Anomaly("ERR", f"{self.name} is told what nobody understands: {error}"))

    def _check_size(self, size):
        most = self.world.settings.soft_output + self.world.settings.max_frame
        if (
            size > most and not self.life.is_stopping
        ):  # when it stops, it answers all it has read at once (CLO-2)
            raise Anomaly(
                "P6", f"{self.name} is sent {size} bytes in one turn, and {most} are enough"
            )

    def _judge(self, frame):
        now_us = self.world.now_us()
        match frame:
            case Messages():
                subscription = self._subscription(frame)
                subscription.messages(frame, now_us)
                self._check_echo(subscription.topic, frame.base)
            case Lagged():
                subscription = self._subscription(frame)
                subscription.lagged(frame, self.world.next_offset(subscription.topic.name), now_us)
            case SubscriptionEnded():
                self._subscription(frame).ended(frame)
            case GoAway():
                self.told = "STOPPED"
            case Error() if frame.fatal:
                self._cut_off(frame)
            case Error(id=0):
                if frame.code == ErrorCode.INTERNAL:
                    raise Anomaly("BUG", frame.message)
            case _:
                self._answer(frame, now_us)

    def _subscription(self, frame):
        self.events += 1
        if frame.id not in self.subscriptions:
            raise Anomaly(
                "ERR",
                f"{self.name} has no subscription {frame.id}, and is told {type(frame).__name__} "
                "of it",
            )
        return self.subscriptions[frame.id]

    def _check_echo(self, topic, base):
        batch = topic.batch(base)
        if (
            batch.sender is self
            and batch.acked_us is None
            and any(asked.batch is batch for asked in self._asked)
        ):
            raise Anomaly(
                "ERR",
                f"{self.name} is sent its own message {base} of {topic.name} before the answer",
            )

    def _cut_off(self, error):
        self.told = ErrorCode(error.code).name
        if self.is_good and error.code != ErrorCode.TOO_MANY_CONNECTIONS:
            raise Anomaly(
                "P5", f"{self.name} did nothing wrong, and is told {self.told}: {error.message}"
            )

    def _answer(self, reply, now_us):
        asked = self._answered_now(reply)
        request = asked.request
        if isinstance(reply, Error):
            if asked.batch is not None and not request.producer:
                asked.batch.is_refused = True
            if self.is_good and not self._may_fail(asked, reply.code):
                raise Anomaly(
                    "ERR",
                    f"{self.name}: {type(request).__name__} fails: {reply.code} {reply.message}",
                )
            return
        if reply.TYPE != request.TYPE | 0x80:
            raise Anomaly(
                "ERR", f"{self.name}: a {type(request).__name__} is answered {type(reply).__name__}"
            )
        self._is_done(asked, reply, now_us)

    def _may_fail(self, asked, code):
        """Whether the answer may be that: its client expects it, or somebody has asked for the name
        since (CMT-3).
        """
        is_replaced = (
            asked.claim
            and asked.request.owned
            and asked.claim < self.world.session(asked.request).claims
        )
        return code in asked.expects or (is_replaced and code == ErrorCode.TAKEN_OVER)

    def _answered_now(self, reply):
        """What that answers: the oldest request, but for publishes that wait for a disk (DUR-2)."""
        for index, asked in enumerate(self._asked):
            if asked.request.id == reply.id:
                del self._asked[index]
                return asked
            if not self._waits_for_disk(asked) or isinstance(reply, Closed):
                break
            is_stored = isinstance(reply, Published) and not reply.duplicate
            if is_stored and self._topic_of(reply.id) == asked.request.topic:
                break
        wanted = self._asked[0].request.id if self._asked else None
        raise Anomaly(
            "ERR",
            f"{self.name} is answered {reply.id} ({type(reply).__name__}) instead of {wanted}",
        )

    def _waits_for_disk(self, asked):
        return (
            isinstance(asked.request, Publish) and self.world.topics[asked.request.topic].is_durable
        )

    def _topic_of(self, number):
        return next(
            (asked.request.topic for asked in self._asked if asked.request.id == number), None
        )

    def _is_done(self, asked, reply, now_us):
        request, world = asked.request, self.world
        match reply:
            case Published():
                topic = world.topics[request.topic]
                if reply.durable != (topic.is_durable and self._knows_durable):
                    raise Anomaly(
                        "ERR",
                        f"{self.name} publishes to {topic.name}, and durable is {reply.durable}",
                    )
                topic.published(asked.batch, reply, now_us)
            case Welcome():
                if reply.boot != self.life.boot:
                    raise Anomaly(
                        "ERR", f"{self.name} is told boot {reply.boot}, and it is {self.life.boot}"
                    )
                self._knows_durable = bool(request.features & DURABLE)
            case Subscribed():
                self._subscribed(asked, reply, now_us)
            case Committed():
                self.subscriptions[request.subscription].settled(reply.committed, now_us)
            case Settled():
                self.subscriptions[request.subscription].settled(request, reply, now_us)
            case Unsubscribed() if isinstance(request, Unsubscribe):
                self.subscriptions[request.subscription].is_over = "Unsubscribed"
            case TopicCreated():
                topic = world.topics[request.topic]
                topic.created(reply)
            case Closed():
                self.told = "CLOSED"

    def _subscribed(self, asked, reply, now_us):
        request, world = asked.request, self.world
        topic = world.topics[request.topic]
        if request.shared:
            book = world.shared[request.topic, request.name]
            book.begins(now_us)
            self.subscriptions[request.id] = ShareLedger(book, request)
            return
        session = world.session(request) if request.name else None
        if bool(reply.named) != bool(session):
            raise Anomaly(
                "ERR",
                f"{self.name}: a subscription's name is {request.name!r}, and named is "
                f"{reply.named}",
            )
        if reply.epoch != topic.epoch:
            raise Anomaly(
                "P1",
                f"{self.name} is told that {topic.name} has epoch {reply.epoch}, not {topic.epoch}",
            )
        subscription = self.subscriptions[request.id] = SubscriptionLedger(
            topic, request, reply, session, asked.claim
        )
        if session is not None:
            settings = world.settings
            ttl = settings.disk_session_ttl if topic.is_durable else settings.session_ttl
            session.begins(subscription, reply, now_us, ttl * 1_000_000)
        subscription.check_start(world.next_offset(topic.name), asked.acked_end, now_us)
        for behind in self._asked:
            if isinstance(behind.request, Commit) and behind.request.subscription == request.id:
                subscription.commits(behind.request)
