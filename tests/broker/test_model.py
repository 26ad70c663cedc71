"""The real core beside the model: the same requests to both, everything observable compared after every step.

The machine plays all clients and the network at once. A client's turn is taken only when the core asked for
it (`on_output`), as a connection does it; so a wake that is forgotten shows as a message that never comes.
"""

import json

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from model import SETTINGS, Limits, ModelBroker, ModelConnection
from model_topic import EVICTED, EXPIRED, RESIDENT, ModelError

from zaichik.broker.broker import Broker
from zaichik.broker.clock import ManualClock
from zaichik.broker.describe import describe
from zaichik.broker.settings import BrokerSettings, TopicSettings
from zaichik_protocol import (
    EVENTS,
    FOREVER,
    NEED_DATA,
    Batch,
    Close,
    Closed,
    Commit,
    CreateTopic,
    Describe,
    Error,
    FrameDecoder,
    Hello,
    Kind,
    Publish,
    Start,
    Subscribe,
    Unsubscribe,
    encode,
)

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
EXAMPLES = 6  # of 50 steps each, from one seed; see `run_model`

names = st.sampled_from(["a", "a", "a", "b"])
clients = st.integers(0, 1)
values = {
    "retention_ttl_ms": st.sampled_from([0, 2, FOREVER, FOREVER]),
    "compaction_window_ms": st.sampled_from([0, 1, 1, 2, FOREVER]),
    "capacity": st.sampled_from([4, 5, 1000]),
    "max_bytes": st.sampled_from([120, 10_000]),
    "max_keys": st.sampled_from([2, 1000, 1000]),
    "journal_bytes": st.just(0),
    "overflow": st.sampled_from([0, 0, 1]),
}
all_settings = st.fixed_dictionaries(values)
some_settings = st.fixed_dictionaries({}, optional=values)
# (key, bytes of payload) of the messages of a batch: alone and together, with keys that repeat and without any.
batches = st.sampled_from(
    [
        [(b"", 3)],
        [(b"k", 1)],
        [(b"l", 6)],
        [(b"", 0), (b"", 5)],
        [(b"k", 2), (b"k", 1)],
        [(b"k", 1), (b"", 1), (b"l", 1)],
        [(b"l", 0), (b"k", 2), (b"m", 4)],
        [(b"", 1), (b"", 2), (b"", 3), (b"", 4)],
        [(b"k", 6), (b"l", 0), (b"k", 6), (b"", 6)],
        [(b"k", LIMITS["max_message"])],  # with its key, it is one byte too many
    ]
)
small = st.integers(0, 11)
moments = st.sampled_from([0, 0, 1, 999, 1000, 1000, 1001, 2000])  # µs: the edges of all durations above


def nothing(machine):
    """What comes after a request: the next one."""


def silence(machine):
    """What comes after a request: everybody's turns, until there is nothing more to say."""
    machine.turn_until_silent()


def sweep(machine):
    """What comes after a request: the second is over."""
    machine.sweep()


afterwards = st.sampled_from([nothing, silence, silence, sweep])


class Client:
    """One connection: the real manager, its counterpart in the model, and what is still to be answered."""

    def __init__(self, broker):
        self.woken = True
        self.manager = broker.connect(self.on_output)
        self.model = ModelConnection()
        self.decoder = FrameDecoder.for_client()
        self.replies = []

    def on_output(self):
        self.woken = True


class BrokerBesideModel(RuleBasedStateMachine):
    @initialize(defaults=all_settings, settings=all_settings, step=st.sampled_from([0, 1_000_000]))
    def start(self, defaults, settings, step):
        self.clock = ManualClock(step)
        defaults = {**defaults, "overflow": 0}  # it cannot be a default
        topic = TopicSettings(**defaults)
        self.core = Broker(BrokerSettings(**LIMITS, soft_output=SOFT_OUTPUT, topic=topic), self.clock)
        self.model = ModelBroker(Limits(**LIMITS, defaults=defaults))
        self.published = 0  # so that every payload is another one
        self.clients = [self.connected(), self.connected()]
        self.create(0, "a", settings)
        for client, credit, credit_bytes in ((0, 1, 1_000), (1, 3, 9)):
            self.subscribe(client, "a", "", Start.EARLIEST, 0, None, credit, credit_bytes, known=False, then=silence)

    def connected(self):
        client = Client(self.core)
        client.manager.apply(Hello(1, client="model"), self.clock.now_us())
        (welcome,) = self.frames(client, client.manager.turn(self.clock.now_us()))
        assert welcome.max_credit == LIMITS["max_credit"]
        return client

    # -- both sides --------------------------------------------------------------------------------------------

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
        pieces = client.manager.turn(self.clock.now_us())
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

    # -- what clients do ---------------------------------------------------------------------------------------

    def create(self, client, name, pairs):
        client = self.clients[client]
        wire = tuple((SETTINGS.index(key) + 1, value) for key, value in pairs.items())
        request = CreateTopic(next(client.model.ids), name, wire)
        self.ask(client, request, lambda now: self.model.create(request.id, name, pairs, now))

    @rule(
        client=clients,
        name=names,
        several=st.lists(st.tuples(moments, batches), min_size=1, max_size=3),
        silent=st.booleans(),
        producer=st.sampled_from([0, 0, 0, 1, 2, 3]),
        step=st.sampled_from([0, 0, 0, -1, -1, 1]),
        then=afterwards,
    )
    def publish(self, client, name, several, silent, producer, step, then):
        client = self.clients[client]
        for passed, messages in several:
            self.clock.move_to(self.clock.now_us() + passed)
            pairs = []
            for key, size in messages:
                self.published += 1
                pairs.append((key, bytes([self.published % 251]) * size))
            request_id = 0 if silent else next(client.model.ids)
            if producer:
                self.publish_numbered(client, request_id, name, pairs, producer, step)
            else:
                request = Publish(request_id, name, Batch.of(pairs))
                self.ask(client, request, lambda now, r=request, p=pairs: self.model.publish(r.id, name, p, now))
        then(self)

    def publish_numbered(self, client, request_id, name, pairs, producer, step):
        """With the next number, one that was there, or one too far."""
        known = self.model.producers.get(producer)
        sequence = max((len(known.answers) if known else 0) + step, 0)
        request = Publish(request_id, name, Batch.of(pairs), producer=producer, sequence=sequence)
        self.ask(client, request, lambda now: self.model.publish_numbered(request, pairs, now))

    @rule(
        client=clients,
        name=names,
        own=st.sampled_from(["", "", "n", "m"]),
        start=st.sampled_from([*Start, Start.OFFSET, Start.TIME, Start.TIME]),
        back=small,
        until=st.sampled_from([None, None, 0, 1, 2, 3, 4]),
        credit=st.sampled_from([1, 2, 3, 6]),
        credit_bytes=st.sampled_from([1, 5, 9, 1_000, 1_000]),
        known=st.booleans(),
        then=afterwards,
    )
    def subscribe(self, client, name, own, start, back, until, credit, credit_bytes, known, then):
        if len(self.clients[client].model.subscriptions) == LIMITS["max_subscriptions"]:
            self.unsubscribe(client, back, forget=False)
        client = self.clients[client]
        topic = self.model.topics.get(name)
        end = topic.next_offset if topic else 0
        value = max(end - back, 0)
        until = FOREVER if until is None else until + (value if start == Start.OFFSET else end)
        if start == Start.TIME and end:
            value = max(0, topic.messages[min(value, end - 1)].accepted_us + back % 3 - 1)
        epoch = topic.epoch if known and topic else 0
        request = Subscribe(next(client.model.ids), name, own, start, value, epoch, until, credit, credit_bytes)
        self.ask(client, request, lambda now: self.model.subscribe(client.model, request, now))
        then(self)

    @rule(client=clients, which=small, where=small, then=afterwards)
    def commit(self, client, which, where, then):
        client = self.clients[client]
        known = list(client.model.subscriptions.values())
        if known:
            subscription = known[which % len(known)]
            cursor, committed = subscription.cursor, subscription.committed
            choices = [cursor, cursor, committed, committed + 1, (cursor + committed) // 2, cursor + 1, cursor - 1, 0]
            wanted = max(0, choices[where % len(choices)])
            request = Commit(0 if where == 0 else next(client.model.ids), subscription.id, wanted)
            self.ask(client, request, lambda _: self.model.commit(client.model, request.id, subscription.id, wanted))
        then(self)

    @rule()
    def commit_everything(self):
        for client in self.clients:
            for subscription in client.model.subscriptions.values():
                request = Commit(0, subscription.id, subscription.cursor)
                self.ask(client, request, lambda _, s=subscription: s.commit(0, s.cursor))
        self.turn_until_silent()

    @rule(client=clients, which=small, forget=st.booleans())
    def unsubscribe(self, client, which, forget):
        client = self.clients[client]
        known = list(client.model.subscriptions)
        if known:
            number = known[which % len(known)]
            request = Unsubscribe(next(client.model.ids), number, forget=forget)
            self.ask(client, request, lambda _: self.model.unsubscribe(client.model, request.id, number, forget=forget))

    @rule(
        client=clients, what=st.sampled_from(["create", "leave", "close", "nonsense"]), name=names, pairs=some_settings
    )
    def do_something_rare(self, client, what, name, pairs):
        match what:
            case "create":
                self.create(client, name, pairs)
            case "nonsense":
                self.ask_for_what_cannot_be(client, silent=bool(pairs))
            case _:
                self.leave(client, politely=what == "close")

    def ask_for_what_cannot_be(self, client, silent):
        """One of each request that must be refused, and must change nothing else."""
        client, model = self.clients[client], self.clients[client].model
        a = self.model.topics["a"]
        too_far = a.next_offset + 1
        next_id = 0 if silent else next(model.ids)
        for pairs in ([(b"", b"p" * 31)], [(b"", b"p" * 16)] * 2, [(b"", b"")] * 6, [(b"long", b"")]):
            request = Publish(next_id, "a", Batch.of(pairs))
            self.ask(client, request, lambda now, p=pairs: self.model.publish(next_id, "a", p, now))
        for name in ("", "$d", "n" * 201, "b", "c", "d"):  # with the last, there are too many
            request = CreateTopic(next_id, name)
            self.ask(client, request, lambda now, n=name: self.model.create(next_id, n, {}, now))
        for wrong in (
            {"name": "n" * 201},
            {"name": "\n"},
            {"credit": 0},
            {"credit": 7},
            {"credit_bytes": 0},
            {"epoch": 5},
            {"start": 2, "value": too_far},
        ):
            request = Subscribe(next(model.ids), "a", **wrong)
            self.ask(client, request, lambda now, r=request: self.model.subscribe(model, r, now))
        while len(model.subscriptions) < LIMITS["max_subscriptions"]:
            index = self.clients.index(client)
            self.subscribe(index, "a", "", Start.LATEST, 0, None, 1, 1_000, known=True, then=nothing)
        request = Subscribe(next(model.ids), "a")
        self.ask(client, request, lambda now: self.model.subscribe(model, request, now))
        request = Subscribe(model.last_subscribe, "a")
        self.ask(client, request, lambda now: self.model.subscribe(model, request, now))
        self.ask(client, Commit(next_id, 999, 0), lambda _: self.model.commit(model, next_id, 999, 0))
        self.ask(client, Unsubscribe(next_id, 999), lambda _: self.model.unsubscribe(model, next_id, 999))

    def leave(self, client, politely):
        index, client = client, self.clients[client]
        while self.one_turn(client):
            pass
        if politely:
            client.manager.apply(Close(77), self.clock.now_us())
            assert self.frames(client, client.manager.turn(self.clock.now_us())) == [Closed(77)]
        self.model.close(client.model)
        self.core.disconnect(client.manager, "GONE")
        assert self.frames(client, client.manager.turn(self.clock.now_us())) == []
        self.clients[index] = self.connected()

    # -- what time and the network do --------------------------------------------------------------------------

    @rule(client=clients)
    def turn(self, client):
        self.one_turn(self.clients[client])

    def turn_until_silent(self):
        for client in self.clients:
            while self.one_turn(client):
                pass

    @rule(passed=moments, then=afterwards)
    def time_passes(self, passed, then):
        self.clock.move_to(self.clock.now_us() + passed)
        then(self)

    def sweep(self):
        self.core.sweep()
        self.model.sweep(self.clock.now_us())
        for topic in self.model.topics.values():
            real = next(known for known in self.core.registry if known.name == topic.name)
            assert real.ring.head == topic.head
            assert real.ring.expired == topic.fates(EXPIRED)
            assert real.ring.bytes == topic.bytes

    # -- what always holds -------------------------------------------------------------------------------------

    @invariant()
    def nobody_waits_in_vain(self):
        """Whoever is not asked to take a turn has nothing to be told."""
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
        described = {
            (state["connection"], state["id"]): state for state in self.described(Kind.SUBSCRIPTIONS)["subscriptions"]
        }
        known = {(c.manager.number, s.id): s for c in self.clients for s in c.model.subscriptions.values()}
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
    def nothing_is_left_behind(self):
        state = self.described(Kind.BROKER)
        assert state["producers"] == len(self.model.producers)
        assert state["sessions"] == sum(len(topic.sessions) for topic in self.model.topics.values())
        for topic in self.core.registry:
            assert len(topic.readers) == len(self.model.topics[topic.name].live)
            assert set(topic.ring._waiting) <= set(topic.readers)
            assert len(topic.ring._entries) <= 2 * len([entry for entry in topic.ring._entries if entry]) + 1
        for client in self.clients:
            assert client.manager.reply_bytes == sum(map(len, client.manager._out))

    def described(self, kind):
        more, page = describe(self.core, Describe(1, kind, limit=500), self.core.clock.now_us())
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


def run_model(runs, first=0):
    """Let the machine run so many times, differently each time and the same on every day; raises what it finds.

    Each run has its own seed, because hypothesis makes most examples out of earlier ones, and the ones that
    agree have shown already what they can.
    """
    for number in range(first, first + runs):
        run_state_machine_as_test(
            seed(number)(BrokerBesideModel),
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=50,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
                print_blob=False,
            ),
        )


def test_core_and_model_agree():
    """P1, P2, P4: whatever clients do and whenever, the broker does what its semantics say."""
    run_model(12)
