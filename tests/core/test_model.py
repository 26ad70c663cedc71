"""The real core beside the model: the same requests to both, everything observable compared after
every step.

The machine plays all clients and the network at once. What it does is here, what is compared in
`beside_model`.
"""

import pytest
from beside_model import LIMITS, BesideModel
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from model import SETTINGS

from zaichik_protocol import (
    FOREVER,
    Batch,
    Close,
    Closed,
    Commit,
    CreateTopic,
    Publish,
    Start,
    Subscribe,
    Unsubscribe,
)

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
# (key, bytes of payload) of the messages of a batch: alone and together, with keys that repeat and
# without any.
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
moments = st.sampled_from(
    [0, 0, 1, 999, 1000, 1000, 1001, 2000]
)  # µs: the edges of all durations above


def nothing(machine):
    """What comes after a request: the next one."""


def silence(machine):
    """What comes after a request: turns of all clients, until there is nothing more to send."""
    machine.turn_until_silent()


def sweep(machine):
    """What comes after a request: the second is over."""
    machine.sweep()


afterwards = st.sampled_from([nothing, silence, silence, sweep])


class BrokerBesideModel(BesideModel):
    @initialize(defaults=all_settings, settings=all_settings, step=st.sampled_from([0, 1_000_000]))
    def start(self, defaults, settings, step):
        self.begin(step, {**defaults, "overflow": 0})  # it cannot be a default
        self.published = 0  # so that every payload is another one
        self.create(0, "a", settings)
        for client, credit, credit_bytes in ((0, 1, 1_000), (1, 3, 9)):
            self.subscribe(
                client,
                "a",
                "",
                Start.EARLIEST,
                0,
                None,
                credit,
                credit_bytes,
                known=False,
                then=silence,
            )

    # -- what clients do -------------------------------------------------------------------------

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
                self.ask(
                    client,
                    request,
                    lambda now, r=request, p=pairs: self.model.publish(r.id, name, p, now),
                )
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
        request = Subscribe(
            next(client.model.ids), name, own, start, value, epoch, until, credit, credit_bytes
        )
        self.ask(client, request, lambda now: self.model.subscribe(client.model, request, now))
        then(self)

    @rule(client=clients, which=small, where=small, then=afterwards)
    def commit(self, client, which, where, then):
        client = self.clients[client]
        known = list(client.model.subscriptions.values())
        if known:
            subscription = known[which % len(known)]
            cursor, committed = subscription.cursor, subscription.committed
            choices = [
                cursor,
                cursor,
                committed,
                committed + 1,
                (cursor + committed) // 2,
                cursor + 1,
                cursor - 1,
                0,
            ]
            wanted = max(0, choices[where % len(choices)])
            request = Commit(0 if where == 0 else next(client.model.ids), subscription.id, wanted)
            self.ask(
                client,
                request,
                lambda _: self.model.commit(client.model, request.id, subscription.id, wanted),
            )
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
            self.ask(
                client,
                request,
                lambda _: self.model.unsubscribe(client.model, request.id, number, forget=forget),
            )

    @rule(
        client=clients,
        what=st.sampled_from(["create", "leave", "close", "nonsense"]),
        name=names,
        pairs=some_settings,
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
        for pairs in (
            [(b"", b"p" * 31)],
            [(b"", b"p" * 16)] * 2,
            [(b"", b"")] * 6,
            [(b"long", b"")],
        ):
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
            self.subscribe(
                index, "a", "", Start.LATEST, 0, None, 1, 1_000, known=True, then=nothing
            )
        request = Subscribe(next(model.ids), "a")
        self.ask(client, request, lambda now: self.model.subscribe(model, request, now))
        request = Subscribe(model.last_subscribe, "a")
        self.ask(client, request, lambda now: self.model.subscribe(model, request, now))
        self.ask(
            client, Commit(next_id, 999, 0), lambda _: self.model.commit(model, next_id, 999, 0)
        )
        self.ask(
            client, Unsubscribe(next_id, 999), lambda _: self.model.unsubscribe(model, next_id, 999)
        )

    def leave(self, client, politely):
        index, client = client, self.clients[client]
        while self.one_turn(client):
            pass
        if politely:
            client.manager.apply(Close(77), self.clock.now_us())
            assert self.frames(client, client.manager.next_output(self.clock.now_us())) == [
                Closed(77)
            ]
        self.model.close(client.model)
        self.core.disconnect(client.manager, "GONE")
        assert self.frames(client, client.manager.next_output(self.clock.now_us())) == []
        self.clients[index] = self.connected()

    # -- what time and the network do ------------------------------------------------------------

    @rule(client=clients)
    def turn(self, client):
        self.one_turn(self.clients[client])

    @rule(passed=moments, then=afterwards)
    def time_passes(self, passed, then):
        self.clock.move_to(self.clock.now_us() + passed)
        then(self)


def run_model(runs, first=0, machine=BrokerBesideModel):
    """Let the machine run so many times, differently each time and the same on every day; raises
    what it finds.

    Each run has its own seed, because hypothesis makes most examples out of earlier ones, and the
    ones that agree have shown already what they can.
    """
    for number in range(first, first + runs):
        run_state_machine_as_test(
            seed(number)(machine),
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=50,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
                print_blob=False,
            ),
        )


@pytest.mark.unmeasured  # the core's parts have tests of their own
@pytest.mark.parametrize("first", [0, 6])
def test_core_and_model_agree(first):
    """P1, P2, P4: whatever clients do and whenever, the broker does what its semantics say."""
    run_model(6, first)
