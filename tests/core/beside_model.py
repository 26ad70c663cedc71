"""A broker and its model side by side: the same requests to both, everything observable compared.

`test_model` has the machine that decides what is asked, and when. A client's turn is taken only
when the core asked for it (`on_output`), as a connection does it; so a wake that is forgotten shows
as a message that never comes.
"""

import json

from hypothesis.stateful import RuleBasedStateMachine, invariant
from model import Limits, ModelBroker, ModelConnection
from model_topic import EVICTED, EXPIRED, RESIDENT, ModelError

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.report.describe import describe
from zaichik.core.rights import ANYBODY
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik_protocol import EVENTS, NEED_DATA, Describe, Error, FrameDecoder, Hello, Kind, encode

LIMITS = {
    "max_message": 30,
    "max_batch": 5,
    "max_key": 3,
    "max_credit": 6,
    "max_topics": 3,
    "max_subscriptions": 3,
    "max_producers": 2,
    "producer_ttl": 0.002,
    "max_sessions": 2,
    "session_ttl": 0.002,
}
SOFT_OUTPUT = 60


class Client:
    """One connection: the real manager, its counterpart in the model, and what is still to be
    answered.
    """

    def __init__(self, broker):
        self.woken = True
        self.manager = broker.connect(self.on_output)
        self.model = ModelConnection()
        self.decoder = FrameDecoder.for_client()
        self.replies = []

    def on_output(self):
        self.woken = True


class BesideModel(RuleBasedStateMachine):
    """Both of them.

    Attributes:
        clock: of both.
        core, model: the real broker's state, and what it should be.
        clients: those that are there.
    """

    def begin(self, now_us, defaults):
        """Have a broker, a model of it, and two clients."""
        self.clock = ManualClock(now_us)
        topic = TopicSettings(**defaults)
        self.core = Broker(
            BrokerSettings(**LIMITS, soft_output=SOFT_OUTPUT, topic=topic), self.clock
        )
        self.model = ModelBroker(Limits(**LIMITS, defaults=defaults))
        self.clients = [self.connected(), self.connected()]

    def connected(self):
        client = Client(self.core)
        client.manager.apply(Hello(1, client="model"), self.clock.now_us())
        (welcome,) = self.frames(client, client.manager.next_output(self.clock.now_us()))
        assert welcome.max_credit == LIMITS["max_credit"]
        return client

    # -- both sides ------------------------------------------------------------------------------

    def ask(self, client, request, expected):
        """Apply a request to both; remember what the model answers."""
        try:
            reply = expected(self.clock.now_us())
        except ModelError as error:
            client.replies.append((request.id, request.TYPE, error))
        else:
            if request.id:
                client.replies.append(reply)
        client.manager.apply(request, self.clock.now_us())

    def frames(self, client, pieces):
        for piece in pieces:
            client.decoder.receive_data(piece)
        frames = list(iter(client.decoder.next_frame, NEED_DATA))
        assert client.decoder.buffered == 0, "a turn ends with a whole frame"
        return frames

    def one_turn(self, client):
        """Take a turn if the core asked for one; whether there was anything."""
        if not client.woken:
            return False
        pieces = client.manager.next_output(self.clock.now_us())
        for subscription in client.model.subscriptions.values():
            subscription.may_be_stuck = subscription.may_be_stuck or subscription.is_stuck
        client.woken = bool(pieces)
        frames = self.frames(client, pieces)
        replies, client.replies = client.replies, []
        assert len(frames) >= len(replies)
        for frame, reply in zip(frames, replies, strict=False):
            assert_reply(frame, reply)
        events = frames[len(replies) :]
        size = sum(len(encode(frame)) for frame in frames[: len(replies)])
        before = None
        for frame in events:
            assert isinstance(frame, EVENTS)
            assert size < SOFT_OUTPUT, "a turn ends at the soft mark"
            size += len(encode(frame))
            self.event(client, frame, before)
            before = frame.id
        return bool(frames)

    def event(self, client, frame, before):
        subscription = client.model.subscriptions[frame.id]
        if before == frame.id:
            for other in client.model.subscriptions.values():
                fair = other is subscription or other.owed() is None or other.may_be_stuck
                assert fair, "two frames in a row while another one waits"
        assert frame == subscription.say(self.clock.now_us())

    def turn_until_silent(self):
        for client in self.clients:
            while self.one_turn(client):
                pass

    def sweep(self):
        self.core.sweep()
        self.model.sweep(self.clock.now_us())
        for topic in self.model.topics.values():
            real = next(known for known in self.core.registry if known.name == topic.name)
            assert real.retained.ring.head == topic.head
            assert real.retained.ring.expired == topic.fates(EXPIRED)
            assert real.retained.ring.bytes == topic.bytes

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def nobody_waits_in_vain(self):
        """A client that is not asked to take a turn has nothing to receive."""
        for client in self.clients:
            if not client.woken:
                assert client.replies == []
                for subscription in client.model.subscriptions.values():
                    assert subscription.owed() is None or subscription.may_be_stuck

    @invariant()
    def topics_agree(self):
        described = self.described(Kind.TOPICS)["topics"]
        assert [state["name"] for state in described] == sorted(self.model.topics)
        for state in described:
            topic = self.model.topics[state["name"]]
            assert set(state["left_over"].values()) == {0}
            # The model expires no later than the core and the core no later than the next sweep.
            early = topic.fates(EXPIRED) - state["expired"]
            assert state["resident"] == topic.fates(RESIDENT) + early
            assert state["evicted"] == topic.fates(EVICTED)
            assert state["stored"] == state["next_offset"] == topic.next_offset
            assert state["published"] == topic.next_offset + topic.compacted
            assert state["compacted"] == topic.compacted
            assert state["subscriptions"] == len(topic.live)
            assert state["needed"] == topic.needed
            assert state["settings"] == topic.settings
            assert (state["epoch"], state["explicit"]) == (topic.epoch, topic.explicit)
            assert state["forgotten_windows"] == topic.forgotten
            assert state["open_windows"] >= len(topic.windows)
            assert state["resident"] <= topic.settings["capacity"]
            assert state["bytes"] <= topic.settings["max_bytes"]

    @invariant()
    def subscriptions_agree(self):
        states = self.described(Kind.SUBSCRIPTIONS)["subscriptions"]
        described = {
            (state["connection"], state["id"]): state for state in states if state["connection"]
        }
        known = {
            (c.manager.number, s.id): s
            for c in self.clients
            for s in c.model.subscriptions.values()
        }
        assert described.keys() == known.keys()
        for key, subscription in known.items():
            state = described[key]
            assert set(state["left_over"].values()) == {0}
            fates = list(subscription.fates.values())
            assert state["delivered"] == fates.count("delivered")
            assert state["skipped"] == fates.count("skipped")
            assert state["ahead"] == subscription.topic.next_offset - subscription.cursor
            assert state["delivered"] + state["skipped"] == subscription.cursor - subscription.start
            for name in ("start", "cursor", "committed", "in_flight", "in_flight_bytes"):
                assert state[name] == getattr(subscription, name), name
            assert state["in_flight"] <= subscription.credit
            known_sessions = subscription.topic.sessions
            assert known_sessions.get(state["session"]) is subscription.session

    @invariant()
    def names_whose_reader_is_away_agree(self):
        states = self.described(Kind.SUBSCRIPTIONS)["subscriptions"]
        described = {
            (state["topic"], state["session"]): (
                state["committed"],
                state["cursor"],
                state["ahead"],
            )
            for state in states
            if not state["connection"]
        }
        known = {}
        for topic in self.model.topics.values():
            for name, session in topic.sessions.items():
                if not session.reader:
                    cursor = max(session.committed, session.delivered)
                    known[topic.name, name] = session.committed, cursor, topic.next_offset - cursor
        assert described == known

    @invariant()
    def nothing_is_left_behind(self):
        state = self.described(Kind.BROKER)
        assert state["producers"] == len(self.model.producers)
        assert state["sessions"] == sum(len(topic.sessions) for topic in self.model.topics.values())
        for topic in self.core.registry:
            assert len(topic.readers) == len(self.model.topics[topic.name].live)
            assert set(topic.retained.ring._waiting) <= set(topic.readers)
            assert len(topic.retained.ring._batches) <= 2 * topic.retained.ring.batches
        for client in self.clients:
            assert client.manager.replies.bytes == sum(map(len, client.manager.replies.waiting))

    def described(self, kind):
        more, page = describe(
            self.core, Describe(1, kind, limit=500), ANYBODY, self.core.clock.now_us()
        )
        assert not more
        return json.loads(page)


def assert_reply(frame, reply):
    if isinstance(reply, tuple):
        request_id, request_type, error = reply
        assert isinstance(frame, Error)
        assert (frame.id, frame.request_type, frame.code, frame.field) == (
            request_id, request_type, error.code, error.field,
        )  # fmt: skip
        assert (frame.retryable, frame.fatal) == (error.code.retryable, error.code.fatal)
        assert frame.message
    else:
        assert frame == reply
