"""What all rings of a broker may hold together (RET-10)."""

import pytest
from conversation import Conversation, batch, broker_with
from hypothesis import given
from hypothesis import strategies as st

from zaichik.broker.budget import Budget
from zaichik.broker.ring import BroadcastRing
from zaichik_protocol import (
    CreateTopic,
    ErrorCode,
    Lagged,
    Messages,
    Publish,
    Published,
    Setting,
    Subscribe,
    Subscribed,
)

SIZE = len(batch(b"x" * 88).data)  # 20 bytes of count and offsets, and the payload


def rings(count, limit):
    budget = Budget(limit)
    return budget, [ring_in(budget) for _ in range(count)]


def ring_in(budget):
    ring = BroadcastRing(10**6, 10**9, budget)
    budget.add(ring)
    return ring


def store(ring, times=1):
    for _ in range(times):
        ring.append(batch(b"x" * 88), 0)


def held(ring):
    return ring.bytes // SIZE


@pytest.mark.parametrize(("limit", "stays"), [(5 * SIZE - 1, 4), (5 * SIZE, 5), (5 * SIZE + 1, 5)])
def test_the_limit_is_exact(limit, stays):
    """P6: at the limit less one, at it, and at one more."""
    budget, (ring,) = rings(1, limit)
    store(ring, 5)
    assert (held(ring), ring.evicted, budget.used) == (stays, 5 - stays, stays * SIZE)


def test_who_publishes_pays_first():
    _, (one, other) = rings(2, 6 * SIZE)
    store(one, 3)
    store(other, 3)
    store(one, 2)
    assert (held(one), held(other)) == (3, 3)
    assert (one.evicted, other.evicted) == (2, 0)


def test_when_there_is_nothing_older_the_largest_pays():
    _, (small, large, newcomer) = rings(3, 6 * SIZE)
    store(small, 2)
    store(large, 4)
    store(newcomer)
    assert (held(small), held(large), held(newcomer)) == (2, 3, 1)


def test_the_batch_just_published_stays():
    """PUB-1, though its topic holds most."""
    _, (one, other) = rings(2, 3 * SIZE)
    store(other, 2)
    one.append(batch(b"x" * (3 * SIZE - 20)), 0)
    assert one.bytes == 3 * SIZE
    assert (held(other), other.evicted) == (0, 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), max_size=60), st.integers(400, 1500))
def test_the_sum_is_always_what_the_rings_hold_and_never_above_the_limit(publishes, limit):
    budget, all_of_them = rings(4, limit)
    for number, size in publishes:
        ring = all_of_them[number]
        ring.append(batch(b"x" * size), 0)
        assert ring.next_offset > ring.head, "what was just published can be read"
        assert budget.used == sum(ring.bytes for ring in all_of_them) <= limit
        assert all(ring.head == ring.evicted + ring.expired for ring in all_of_them)
        ring.expire_below(ring.next_offset - size % 2)


def test_a_reader_whose_messages_went_for_another_topic_is_told():
    """LAG-1."""
    client = Conversation(broker_with(max_bytes=4 * SIZE))
    client.tell(*[Publish(0, "a", batch(b"x" * 88)) for _ in range(4)])
    client.tell(Publish(0, "b", batch(b"x" * 88)))
    subscribed, lagged, messages, *_ = client.ask(Subscribe(2, "a", start=2, value=0, credit=9))
    assert isinstance(subscribed, Subscribed)
    assert lagged == Lagged(2, 0, 1)
    assert isinstance(messages, Messages)
    assert messages.base == 1


def test_a_journal_counts():
    client = Conversation(broker_with())
    client.ask(CreateTopic(2, "a", ((Setting.JOURNAL_BYTES, 10_000),)), Publish(3, "a", batch(b"x" * 88)))
    topics = {topic.name: topic.ring.bytes for topic in client.broker.registry}
    assert topics["$journal/a"] > 0
    assert client.broker.registry.budget.used == sum(topics.values())


def test_a_journal_never_costs_the_message_it_tells_of():
    """PUB-1: though that holds most, and there is nothing older in the journal."""
    client = Conversation(broker_with(max_bytes=300))
    client.ask(CreateTopic(2, "a", ((Setting.JOURNAL_BYTES, 10_000),)), Publish(3, "a", batch(b"x" * 250)))
    sizes = {topic.name: topic.ring.bytes for topic in client.broker.registry}
    assert sizes == {"a": len(batch(b"x" * 250).data), "$journal/a": 0}


@pytest.mark.parametrize(("size", "fits"), [(499, True), (500, True), (501, False)])
def test_a_batch_of_more_than_all_may_hold_is_refused(size, fits):
    """RET-10: one below the limit, at it, beyond; also if there are topics that hold nothing."""
    client = Conversation(broker_with(max_bytes=500))
    (reply,) = client.ask(CreateTopic(0, "empty"), Publish(3, "t", batch(b"x" * (size - 20))))
    assert isinstance(reply, Published) if fits else reply.code == ErrorCode.BATCH_TOO_LARGE
    assert client.broker.registry.budget.used == (size if fits else 0)


def test_what_does_not_fit_at_all_is_not_held():
    """A ring without a topic before it, as a journal's, is not asked for its size: the newest goes, too."""
    budget, (one, _) = rings(2, SIZE - 1)
    store(one)
    assert (budget.used, held(one), one.evicted) == (0, 0, 1)


def test_who_was_the_one_that_pays_pays_no_more_when_its_bytes_are_set_aside():
    """RET-9: it was the first of those that hold nothing when a journal's batch was more than all may hold."""
    budget, (lossless, journal, other) = rings(3, 4 * SIZE)
    journal.append(batch(b"x" * (5 * SIZE)), 0)
    lossless.budget = budget.set_aside(lossless, 2 * SIZE)
    store(lossless, 2)
    store(journal, 2)
    store(other)
    assert (held(lossless), held(journal), held(other)) == (2, 1, 1)


class Watched(dict):
    """A dict that counts how often somebody goes through it."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


def test_many_small_batches_go_without_a_look_at_all_topics_for_each():
    """P5: one large publish must not stop the broker."""
    budget, many = rings(100, 100 * 20 * SIZE)
    for ring in many:
        store(ring, 20)
    newcomer = ring_in(budget)
    budget._holders = Watched(budget._holders)
    newcomer.append(batch(b"x" * (1000 * SIZE - 20)), 0)
    assert sum(map(held, many)) == 1000
    assert budget._holders.looks == 1000 / 10
