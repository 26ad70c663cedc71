"""Memory of decisions is bounded, and counted; nothing is remembered of what is simply stored
(EXP-1, EXP-2).
"""

import pytest
from conversation import Conversation, batch, broker_with

from zaichik.core.decisions import (
    COMPACTED,
    DUPLICATE,
    KEYS_BYTES,
    MOVES,
    REMEMBERED_BATCHES,
    REMEMBERED_BYTES,
    STEP_BYTES,
    WHOLE_BYTES,
    Decisions,
    note,
)
from zaichik.core.settings import TopicSettings
from zaichik.core.sharing import prices
from zaichik.core.sharing.budget import Budget
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER, Batch, ErrorCode, Publish, Published, Refused, Subscribe

FULL = Refused(ErrorCode.TOPIC_FULL, "full", "topic")


def stored(compacted=0, *, duplicate=False):
    return Published(1, 7, 1, compacted, 0, b"\1" if compacted else b"", duplicate=duplicate)


def size(decisions):
    return sum(prices.DECISION + len(data) for *_, data, _ in decisions.known)


def keys_in(data):
    return Batch(data, int.from_bytes(data[:4], "little")).keys()


def test_a_batch_that_was_stored_whole_leaves_nothing():
    decisions = Decisions(lambda: None)
    decisions.answered(1, batch(b"x"), stored())
    assert (decisions.known, decisions.bytes) == ([], 0)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (stored(1), (COMPACTED, 7, "", "", 0, b"\1")),
        (stored(duplicate=True), (DUPLICATE, 7, "", "ana", 3, b"")),
        (stored(1, duplicate=True), (DUPLICATE, 7, "", "ana", 3, b"")),
        (FULL, (ErrorCode.TOPIC_FULL, 0, "full", "ana", 3, b"")),
    ],
)
def test_what_is_remembered(outcome, told):
    """Of what compaction has dropped, the sender is not remembered."""
    decisions = Decisions(lambda: None)
    sent = batch((b"k", b"x"), b"y")
    decisions.answered(5, sent, outcome, "ana", 3)
    assert decisions.known == [(5, *told[:5], sent.data, told[5])]


def test_64_batches_are_remembered_and_when_the_last_forgotten_one_was():
    """EXP-1."""
    assert REMEMBERED_BATCHES == 64
    decisions = Decisions(lambda: None)
    for number in range(REMEMBERED_BATCHES + 5):
        decisions.answered(number, batch(b"x"), FULL)
    assert [decision[0] for decision in decisions.known] == [*range(5, REMEMBERED_BATCHES + 5)]
    assert decisions.forgotten_us == 4
    assert decisions.bytes == size(decisions)


def test_what_is_remembered_is_counted_with_600_bytes_each():
    """RET-10."""
    decisions = Decisions(lambda: None)
    for number in (1, 2):
        decisions.answered(1, batch(b"x"), FULL)
        assert decisions.bytes == number * (600 + len(batch(b"x").data))


@pytest.mark.parametrize(("size", "whole"), [(500, True), (5_000, False)])
def test_the_payload_of_a_small_batch_is_remembered_because_that_is_quicker(size, whole):
    decisions = Decisions(lambda: None)
    decisions.answered(1, batch(b"x" * size), FULL)
    assert (b"x" in decisions.known[0][6]) is whole


@pytest.mark.parametrize(("more", "whole"), [(-1, True), (0, True), (1, False)])
def test_a_batch_is_remembered_whole_up_to_a_size(more, whole):
    decisions = Decisions(lambda: None)
    sent = batch(b"x" * (WHOLE_BYTES - len(batch(b"").data) + more))
    assert len(sent.data) == WHOLE_BYTES + more
    decisions.answered(1, sent, FULL)
    assert (decisions.known[0][6] == sent.data) == whole


def test_growth_is_told_in_steps():
    """To account for a topic takes longer than to remember a batch."""
    told = []
    decisions = Decisions(lambda: told.append(decisions.bytes // STEP_BYTES))
    steps = []
    for number in range(50):
        decisions.answered(number, batch(b"x"), FULL)
        if decisions.bytes // STEP_BYTES not in [0, *steps]:
            steps.append(decisions.bytes // STEP_BYTES)
    assert told == steps
    assert 20 < len(told) < 40, "of 50 that take 600 bytes and more"


def test_what_is_forgotten_later_may_be_older():
    """EXP-4: what was forgotten before it stays forgotten."""
    decisions = Decisions(lambda: None)
    decisions.answered(1, batch(b"x"), FULL)
    for now_us in (5, 6):  # the second takes the place of the first
        decisions.answered(now_us, batch(b"x"), Refused(ErrorCode.FORBIDDEN, "no", ""))
    for now_us in range(10, 10 + REMEMBERED_BATCHES):
        decisions.answered(now_us, batch(b"x"), FULL)
        assert decisions.forgotten_us >= 5
    assert decisions.forgotten_us == 6


def test_64_kib_are_remembered():
    """EXP-1."""
    assert REMEMBERED_BYTES == 64 * 1024
    decisions = Decisions(lambda: None)
    keys = [b"%05d" % number for number in range(1000)]
    for number in range(REMEMBERED_BATCHES):
        decisions.answered(number, Batch.of((key, bytes(100)) for key in keys), FULL)
        assert decisions.bytes == size(decisions) <= REMEMBERED_BYTES
    assert 3 <= len(decisions.known) < REMEMBERED_BATCHES
    *_, data, _ = decisions.known[-1]
    assert keys_in(data) == keys
    assert len(data) == 4 + 8 * 1001 + 5 * 1000


def test_too_many_keys_are_not_remembered():
    decisions = Decisions(lambda: None)
    decisions.answered(1, Batch.of((b"%08d" % number, b"") for number in range(1100)), FULL)
    assert decisions.known[0][-2] == b""
    decisions.answered(1, batch((b"k", bytes(2 * KEYS_BYTES))), FULL)
    assert keys_in(decisions.known[1][-2]) == [b"k"]


@pytest.mark.parametrize(("more", "known"), [(-1, True), (0, True), (1, False)])
def test_16_kib_of_keys_are_remembered(more, known):
    """EXP-1: with their places in the batch."""
    decisions = Decisions(lambda: None)
    key = b"k" * (16 * 1024 - len(batch(b"").data) + more)
    decisions.answered(1, batch((key, bytes(WHOLE_BYTES))), FULL)
    data = decisions.known[0][6]
    assert len(data) == (KEYS_BYTES + more if known else 0)
    assert decisions.bytes == 600 + len(data)


def test_payloads_are_not_kept_unless_they_are_tiny():
    decisions = Decisions(lambda: None)
    for payload in (b"x", bytes(WHOLE_BYTES)):
        decisions.answered(1, batch((b"k", payload)), FULL)
    assert [len(data) for *_, data, _ in decisions.known] == [
        len(batch((b"k", b"x")).data),
        len(batch((b"k", b"")).data),
    ]


def test_the_head_s_moves_are_noted_where_the_cause_changes_and_only_the_latest():
    assert MOVES == 16, "EXP-2"
    moves = []
    for head in range(3 * MOVES):
        note(moves, head, head, head // 2 % 2)
    assert moves == [(head, head, head // 2 % 2) for head in range(0, 3 * MOVES, 2)][-MOVES:]


def test_decisions_count_as_the_topic_s_memory():
    """RET-10."""
    budget = Budget()
    topic = TopicController("t", TopicSettings(FOREVER, FOREVER), 1, explicit=True, budget=budget)
    topic.publish(batch((b"k", b"x"), (b"k", b"x")), 5)
    before = topic.memory
    topic.publish(batch((b"k", b"x"), (b"k", b"x")), 6)
    assert topic.memory - before == prices.DECISION + len(batch((b"k", b"x"), (b"k", b"x")).data)
    assert budget.used == topic.memory


def test_decisions_go_before_windows_when_memory_is_short():
    """RET-10: a window keeps a promise, and a decision only explains."""
    topic = TopicController("t", TopicSettings(FOREVER, FOREVER), 1, explicit=True)
    topic.publish(batch((b"k", b"x"), (b"k", b"x")), 5)
    assert topic.can_evict(leaving=1)
    states = []
    while topic.can_evict(leaving=0):
        topic.evict_oldest(leaving=0)
        states.append((topic.retained.ring.batches, len(topic.window), len(topic.decisions.known)))
    assert states == [(0, 1, 1), (0, 1, 0), (0, 0, 0)]
    assert topic.decisions.bytes == 0


def test_a_full_ring_that_goes_on_as_it_does_remembers_one_point():
    """EXP-2: the usual case costs a comparison."""
    client = Conversation(broker_with(topic=TopicSettings(FOREVER, capacity=2)))
    client.ask(Subscribe(3, "t", credit=100), *[Publish(0, "t", batch(b"x"))] * 50)
    topic = client.broker.registry.find("t")
    assert len(topic.retained.ring.moves) == 1
    assert topic.decisions.known == []


def test_refusals_without_a_topic_are_not_remembered():
    client = Conversation(broker_with(auto_create=False))
    client.ask(Publish(0, "nothing", batch(b"x")), Publish(0, "$broker", batch(b"x")))
    assert len(client.broker.registry) == 0


def test_what_is_not_counted_is_not_kept():
    """Of a batch with too many keys, not which of them were dropped either."""
    decisions = Decisions(lambda: None)
    decisions.remember(
        1, batch(*[(b"%04d" % number, b"") for number in range(8192)]), COMPACTED, 0, bytes(1024)
    )
    *_, data, dropped = decisions.known[0]
    assert (data, dropped) == (b"", b"")


def test_whoever_has_no_right_cannot_fill_the_memory_of_a_topic():
    """What is remembered of others stays, and it is reported that something was forgotten."""
    decisions = Decisions(lambda: None)
    decisions.answered(1, batch(b"x"), FULL, "ana", 3)
    for now_us in range(2, 2 + REMEMBERED_BATCHES):
        code = ErrorCode.FORBIDDEN if now_us % 2 else ErrorCode.TOO_MANY_CONNECTIONS
        decisions.answered(now_us, batch(b"x"), Refused(code, "no", ""), "eve", 4)
    decisions.answered(100, batch(b"x"), FULL, "ana", 3)
    assert [it[0] for it in decisions.known] == [1, 1 + REMEMBERED_BATCHES, 100]
    assert (decisions.forgotten_us, decisions.bytes) == (REMEMBERED_BATCHES, size(decisions))
