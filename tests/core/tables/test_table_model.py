"""A table of the real core beside a naive one: the same requests to both, everything observable
compared after every step.

Parts of a table are four rows here, so that a few messages fill several, and leave them.
"""

import json
from hashlib import blake2b
from struct import unpack

import pytest
from conversation import Conversation, broker_with
from fuzz.kept_rows import check_rows
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from model_table import (
    DELIVERED,
    EVICTED,
    EXPIRED,
    LIVE,
    OVER,
    PASSED,
    SKIPPED,
    SUPERSEDED,
    ModelPosition,
    ModelTable,
    ModelTableReader,
)

from zaichik.core.report.describe import describe
from zaichik.core.rights import ANYBODY
from zaichik.core.tables import keep_last, key_index
from zaichik_protocol import (
    EVENTS,
    FOREVER,
    TABLES,
    Batch,
    Commit,
    Committed,
    CreateTopic,
    Describe,
    Error,
    ErrorCode,
    Hello,
    Kind,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    Unsubscribe,
)

EXAMPLES = 6  # of 50 steps each, from one seed
MILLISECOND_US = 1000
MOST_READERS = 3

small = st.integers(0, 11)
moments = st.sampled_from([0, 0, 0, 1, 999, 1000, 1001, 2000])
keys = st.sampled_from([b"a", b"b", b"c", b"dd", b"e", b"f", b""])
sizes = st.sampled_from([0, 1, 1, 2, 5])
meant = st.sampled_from([True, True, True, True, False])
batches = st.lists(st.tuples(keys, sizes), min_size=1, max_size=5)


def frozen(value):
    return float("inf") if value == FOREVER else value * MILLISECOND_US


class TableBesideModel(RuleBasedStateMachine):
    @initialize(
        capacity=st.sampled_from([3, 5, 1000]),
        max_bytes=st.sampled_from([60, 10_000]),
        ttl_ms=st.sampled_from([2, FOREVER, FOREVER]),
        tombstones_ms=st.sampled_from([0, 1, 2, FOREVER]),
    )
    def begin(self, capacity, max_bytes, ttl_ms, tombstones_ms):
        self.client = Conversation(broker_with(), greeted=False)
        self.clock = self.client.broker.clock
        self.client.ask(Hello(1, features=TABLES))
        self.number = 1
        self.published = 0
        self.readers = {}
        self.names = {}
        wanted = {
            Setting.TABLE: 1,
            Setting.CAPACITY: capacity,
            Setting.MAX_BYTES: max_bytes,
            Setting.RETENTION_TTL_MS: ttl_ms,
            Setting.TOMBSTONES_MS: tombstones_ms,
            Setting.JOURNAL_BYTES: 2**30,
        }
        self.client.ask(CreateTopic(self.next_id(), "t", tuple(wanted.items())))
        self.model = ModelTable(capacity, max_bytes, frozen(ttl_ms), frozen(tombstones_ms))
        self.subscribe(Start.EARLIEST, 0, None, 2, 1000, "", then=True)

    def next_id(self):
        self.number += 1
        return self.number

    @property
    def topic(self):
        return self.client.broker.registry.find("t")

    # -- what clients do -------------------------------------------------------------------------

    def ask(self, request):
        """Returns the reply to a request; events are heard on the way."""
        self.client.tell(request)
        frames = self.client.turn()
        self.hear(frames[1:])
        return frames[0]

    def hear(self, frames):
        for frame in frames:
            assert isinstance(frame, EVENTS)
            self.model.expire(self.clock.now_us())
            self.readers[frame.id].hear(frame)
        for reader in self.readers.values():
            if not reader.ended:
                reader.passes(self.client.manager.readers[reader.id].cursor)
                reader.may_be_stuck = reader.may_be_stuck or reader.is_stuck

    def silence(self, *, then=True):
        """If so, turns until there is nothing more to send."""
        while then:
            frames = self.client.turn()
            self.hear(frames)
            then = bool(frames)

    @rule(
        pairs=batches,
        passed=moments,
        tombstones=st.sampled_from([True] * 4 + [False]),
        then=st.booleans(),
    )
    def publish(self, pairs, passed, tombstones, then):
        self.clock.move_to(self.clock.now_us() + passed)
        messages = []
        for key, size in pairs:
            self.published += 1
            messages.append((key, bytes([self.published % 251]) * size))
        request = Publish(self.next_id(), "t", Batch.of(messages), tombstones=tombstones)
        told = self.model.publish(messages, self.clock.now_us(), tombstones=tombstones)
        count = len([reader for reader in self.readers.values() if not reader.ended])
        reply = self.ask(request)
        if isinstance(told, ErrorCode):
            assert isinstance(reply, Error)
            assert (reply.code, reply.field, reply.retryable) == (told, "batch", False)
        else:
            assert reply == Published(request.id, told, len(messages), 0, count)
        self.silence(then=then)

    @rule(
        start=st.sampled_from([*Start, Start.EARLIEST, Start.EARLIEST]),
        back=small,
        until=st.sampled_from([None, None, 0, 1, 2, 4]),
        credit=st.sampled_from([1, 2, 3, 50]),
        credit_bytes=st.sampled_from([1, 6, 9, 1000, 1000]),
        name=st.sampled_from(["", "", "n"]),
        then=st.booleans(),
    )
    def subscribe(self, start, back, until, credit, credit_bytes, name, then):
        if len(self.readers) == MOST_READERS:
            self.unsubscribe(back, forget=False)
        for reader in list(self.readers.values()):
            if name and reader.position.name == name:
                self.leave(reader, forget=False)
        model = self.model
        model.expire(self.clock.now_us())
        value = max(model.end - back, 0)
        until = FOREVER if until is None else until + value
        if start == Start.TIME and model.end:
            value = max(0, model.messages[min(value, model.end - 1)].accepted_us + back % 3 - 1)
        request = Subscribe(self.next_id(), "t", name, start, value, 0, until, credit, credit_bytes)
        position = self.names.get(name)
        is_resumed = position is not None
        if position is None:
            begin = self.position(start, value)
            position = ModelPosition(begin, begin, start != Start.EARLIEST, name)
        if name:
            self.names[name] = position
        reader = ModelTableReader(request.id, model, position, until, credit, credit_bytes)
        self.readers[request.id] = reader
        expected = Subscribed(
            request.id,
            self.topic.epoch,
            position.committed,
            model.end,
            position.committed,
            named=bool(name),
            resumed=is_resumed,
            table=True,
        )
        assert self.ask(request) == expected
        self.silence(then=then)

    def position(self, start, value):
        model = self.model
        match start:
            case Start.EARLIEST:
                return model.head
            case Start.LATEST:
                return model.end
            case Start.OFFSET:
                return value
        return min([m.offset for m in model.live if m.accepted_us >= value] + [model.end])

    @rule(which=small, where=small, then=st.booleans())
    def commit(self, which, where, then):
        if not self.readers:
            return
        reader = [*self.readers.values()][which % len(self.readers)]
        cursor, committed = reader.cursor, reader.committed
        choices = [cursor, cursor, committed + 1, (cursor + committed) // 2, cursor + 1, cursor - 1]
        wanted = max(choices[where % len(choices)], 0)
        request = Commit(self.next_id(), reader.id, wanted)
        may = reader.commit(wanted)
        reply = self.ask(request)
        if may:
            assert reply == Committed(request.id, reader.committed)
        else:
            assert (reply.code, reply.field) == (ErrorCode.NOT_IN_FLIGHT, "next")
        self.silence(then=then)

    @rule(which=small, forget=st.booleans())
    def unsubscribe(self, which, forget):
        if self.readers:
            self.leave([*self.readers.values()][which % len(self.readers)], forget=forget)

    def leave(self, reader, *, forget):
        del self.readers[reader.id]
        if reader in self.model.readers:
            self.model.readers.remove(reader)
        if forget:
            self.names.pop(reader.position.name, None)
        self.ask(Unsubscribe(self.next_id(), reader.id, forget=forget))

    @rule(passed=moments, is_swept=st.booleans(), then=st.booleans())
    def time_passes(self, passed, is_swept, then):
        self.clock.move_to(self.clock.now_us() + passed)
        if is_swept:
            now_us = self.clock.now_us()
            self.topic.sweep(now_us)
            self.model.sweep(now_us)
        self.silence(then=then)

    @rule()
    def turn(self):
        self.hear(self.client.turn())

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def nobody_waits_in_vain(self):
        self.model.expire(self.clock.now_us())
        if not self.client.manager.has_output:
            for reader in self.readers.values():
                assert reader.owed() is None or reader.may_be_stuck

    @invariant()
    def tables_agree(self):
        model = self.model
        topics = self.described(Kind.TOPICS)["topics"]
        (state,) = (topic for topic in topics if topic["name"] == "t")
        assert set(state["left_over"].values()) == {0}
        assert state["stored"] == state["published"] == model.end
        assert state["head"] == model.head
        assert state["resident"] == model.fates(LIVE)
        assert state["expired"] == model.fates(EXPIRED, OVER)
        assert state["evicted"] == model.fates(EVICTED)
        assert state["superseded"] == model.fates(SUPERSEDED)
        there = [message for message in model.live if message.is_tombstone]
        assert state["tombstones"] == len(there)
        kept = [message for message in model.live if not message.is_tombstone]
        assert state["keys"] == sum(bool(message.key) for message in kept)
        assert state["bytes"] == sum(message.size + 8 for message in model.live)
        assert state["deleted_below"] == model.deleted_below
        assert len(kept) <= model.capacity
        first = model.live[0].accepted_us if model.live else None
        assert state["head_us"] == first
        check_rows(self.topic.retained.kept)
        for offset, message in enumerate(model.messages):
            if message.fate == SUPERSEDED:
                self.check_successor(offset)

    @invariant()
    def the_journal_says_which_message_superseded_which(self):
        """TAB-7."""
        journal = self.client.broker.registry.find("$journal/t").retained.ring
        told = []
        while len(told) < journal.next_offset:
            batch = journal.entry(len(told)).batch
            for key, record in zip(batch.keys(), batch.payloads(), strict=True):
                told.append((key, *unpack("<qqq8sIB3x", record)))
        assert told == [
            (
                message.key,
                message.accepted_us,
                message.offset,
                message.superseded,
                blake2b(message.payload, digest_size=8).digest(),
                len(message.payload),
                0,
            )
            for message in self.model.messages
        ]

    def check_successor(self, offset):
        by = self.topic.retained.successor(offset)
        if by >= 0:
            assert self.model.messages[by].fate == LIVE
            assert self.model.messages[by].key == self.model.messages[offset].key

    @invariant()
    def readers_agree(self):
        states = self.described(Kind.SUBSCRIPTIONS)["subscriptions"]
        described = {state["id"]: state for state in states if state["connection"]}
        assert described.keys() == self.readers.keys()
        for number, reader in self.readers.items():
            state = described[number]
            assert set(state["left_over"].values()) == {0}
            fates = list(reader.fates.values())
            assert state["delivered"] == fates.count(DELIVERED)
            assert state["skipped"] == fates.count(SKIPPED)
            assert state["passed"] == fates.count(PASSED)
            for name in ("start", "cursor", "committed", "in_flight", "in_flight_bytes"):
                assert state[name] == getattr(reader, name), name
            assert state["in_flight"] <= reader.credit

    def described(self, kind):
        broker = self.client.broker
        _, page = describe(broker, Describe(1, kind, limit=500), ANYBODY, self.clock.now_us())
        return json.loads(page)


def run_tables(monkeypatch, runs, first=0):
    """Let the machine run so many times, the same on every day; raises what it finds."""
    monkeypatch.setattr(keep_last, "ROWS", 4)
    monkeypatch.setattr(keep_last, "PART_BYTES", 30)
    monkeypatch.setattr(keep_last, "PARTS_AT_ONCE", 1)
    monkeypatch.setattr(key_index, "MANY_KEYS", 4)
    for number in range(first, first + runs):
        run_state_machine_as_test(
            seed(number)(TableBesideModel),
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


@pytest.mark.unmeasured  # the parts have tests of their own
@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize("first", [0, 6])
def test_table_and_model_agree(first, monkeypatch):
    """TAB-1 to TAB-6, TAB-8: whatever clients do and whenever."""
    run_tables(monkeypatch, 6, first)
