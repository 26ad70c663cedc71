"""What all topics of a broker may hold together (RET-10)."""

import pytest
from conversation import Conversation, batch, broker_with
from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.decisions import STEP_BYTES
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.sharing.budget import Budget
from zaichik.core.sharing.prices import ENTRY, KEY, TOPIC
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import (
    FOREVER,
    CreateTopic,
    ErrorCode,
    Lagged,
    Messages,
    Overflow,
    Publish,
    Published,
    Refused,
    Setting,
    Start,
    Subscribe,
    Subscribed,
)

HEADER = 20  # bytes of count and offsets of a batch of one message
BYTES = len(batch(b"x" * 88).data)
COST = ENTRY + BYTES  # of a message of 88 bytes
TOO_MUCH = Refused(ErrorCode.BATCH_TOO_LARGE, "too large", "batch")
KEEP = ((Setting.RETENTION_TTL_MS, FOREVER),)


def topics_in(count, limit):
    """So many topics, and a budget of that limit besides what empty topics cost."""
    budget = Budget(limit + count * TOPIC)
    return budget, [topic_in(budget) for _ in range(count)]


def topic_in(budget, **settings):
    return TopicController("t", TopicSettings(FOREVER, **settings), 1, explicit=True, budget=budget)


def store(topic, times=1, size=88):
    for _ in range(times):
        topic.publish(batch(b"x" * size), 0)


def held(topic):
    return topic.retained.ring.batches


# -- what is counted -----------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "stays"), [(5 * COST - 1, 4), (5 * COST, 5), (5 * COST + 1, 5)])
def test_the_limit_is_exact(limit, stays):
    """P6: at the limit less one, at it, and at one more."""
    budget, (topic,) = topics_in(1, limit)
    store(topic, 5)
    assert (held(topic), topic.retained.ring.evicted, budget.used) == (
        stays,
        5 - stays,
        TOPIC + stays * COST,
    )


def test_a_batch_of_one_empty_message_is_counted_at_what_it_costs():
    """RET-10: not at its 20 bytes."""
    budget, (topic,) = topics_in(1, 10 * (ENTRY + HEADER))
    store(topic, 1000, size=0)
    assert (held(topic), budget.used) == (10, budget.limit)


def test_an_empty_topic_is_counted():
    budget, _ = topics_in(3, 0)
    assert budget.used == 3 * TOPIC


def test_open_windows_are_charged_and_forgotten_if_memory_is_short():
    """RET-10, COM-6: a million keys of a KiB each are a GiB; here they are scaled down."""
    budget = Budget(TOPIC + 500 * (KEY + 1024))
    topic = topic_in(budget, compaction_window_ms=FOREVER, capacity=1, max_keys=10**6)
    for number in range(5_000):
        topic.publish(batch((b"%01024d" % number, b"")), 0)
        assert budget.used == topic.memory <= budget.limit
        assert held(topic) == 1, "what was just published stays"
    assert topic.memory == TOPIC + topic.retained.ring.bytes + ENTRY + len(topic.window) * (
        KEY + 1024
    )
    assert topic.window.forgotten == 5_000 - len(topic.window) > 4_000


def test_of_many_windows_a_part_is_forgotten_in_one_step():
    """RET-10: neither all of them, nor one at a time."""
    topic = topic_in(Budget(), compaction_window_ms=FOREVER, capacity=1, max_keys=10**6)
    for number in range(5_000):
        topic.publish(batch((b"%d" % number, b"")), 0)
    topic.evict_oldest(leaving=0)
    assert (held(topic), len(topic.window)) == (0, 5_000), "messages go first"
    topic.evict_oldest(leaving=0)
    assert 500 <= topic.window.forgotten < 5_000


def test_what_is_remembered_of_refused_batches_is_charged_and_evicts():
    """EXP-1, RET-10: at once, and not only at the next publish."""
    budget, (topic,) = topics_in(1, 20 * COST)
    store(topic, 20)
    assert (held(topic), budget.used) == (20, budget.limit)
    for number in range(10):
        topic.decisions.answered(number, batch(b"x" * 900), TOO_MUCH)
        assert budget.used <= budget.limit + STEP_BYTES
    assert held(topic) < 20


def test_windows_known_to_a_journal_are_charged_twice():
    client = Conversation(broker_with())
    settings = ((Setting.COMPACTION_WINDOW_MS, FOREVER), (Setting.JOURNAL_BYTES, 10_000))
    client.ask(CreateTopic(2, "t", settings), Publish(3, "t", batch((b"key", b"x"))))
    topic = client.broker.registry.get_or_create("t", 0)
    assert topic.memory == TOPIC + ENTRY + topic.retained.ring.bytes + 2 * (KEY + 3)


def test_ended_windows_are_released_by_the_sweep():
    """RET-7."""
    budget = Budget()
    topic = topic_in(budget, compaction_window_ms=1)
    topic.publish(batch((b"k", b"")), 0)
    before = budget.used
    topic.sweep(1_000)
    assert budget.used == before - KEY - 1


def test_expired_messages_are_released_at_once():
    """RET-7: without waiting for the sweep."""
    budget = Budget()
    topic = TopicController("t", TopicSettings(1), 1, explicit=True, budget=budget)
    for now_us in (0, 1):
        topic.publish(batch(b"x" * 88), now_us)
    for now_us, entries in ((1_000, 1), (1_001, 0)):
        topic.expire(now_us)
        assert budget.used == TOPIC + entries * COST


def test_a_journal_is_charged():
    client = Conversation(broker_with())
    client.ask(
        CreateTopic(2, "a", ((Setting.JOURNAL_BYTES, 10_000),)), Publish(3, "a", batch(b"x" * 88))
    )
    topics = {topic.name: topic for topic in client.broker.registry}
    journal = topics["$journal/a"]
    assert journal.memory == TOPIC + ENTRY + journal.retained.ring.bytes > TOPIC + ENTRY
    assert client.broker.registry.budget.used == sum(topic.memory for topic in topics.values())


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), max_size=60), st.integers(750, 4000)
)
def test_the_sum_is_always_what_the_topics_hold_and_never_above_the_limit(publishes, limit):
    budget, topics = topics_in(4, limit)
    for number, size in publishes:
        topic = topics[number]
        store(topic, size=size)
        assert topic.end > topic.head, "what was just published can be read"
        assert budget.used == sum(topic.memory for topic in topics) <= budget.limit
        for one in topics:
            assert one.memory == TOPIC + one.retained.ring.bytes + ENTRY * held(one)
            assert one.head == one.retained.ring.evicted + one.retained.ring.expired
        if size % 2:
            topic.sweep(0)


# -- which topic loses ---------------------------------------------------------------------------


def test_the_largest_topic_is_evicted_from_whichever_is_published_to():
    budget, (small, large, newcomer) = topics_in(3, 6 * COST)
    store(small, 2)
    store(large, 4)
    store(newcomer)
    assert (held(small), held(large), held(newcomer)) == (2, 3, 1)
    store(small)
    assert (held(small), held(large), held(newcomer)) == (3, 2, 1)
    assert budget.used == budget.limit


def test_a_publisher_to_a_small_topic_does_not_pay_for_a_large_one():
    """RET-10: though it is always the small one that would need room."""
    _, (small, large) = topics_in(2, 10 * COST)
    store(large, 10)
    store(small, 4)
    assert (held(small), held(large)) == (4, 6)
    assert (small.retained.ring.evicted, large.retained.ring.evicted) == (0, 4)


def test_the_batch_just_published_stays():
    """PUB-1, though its topic holds most."""
    _, (one, other) = topics_in(2, 3 * COST)
    store(other, 2)
    store(one, size=3 * COST - ENTRY - HEADER)
    assert (held(one), held(other), other.retained.ring.evicted) == (1, 0, 2)


def test_when_the_largest_topic_is_drained_the_next_is_evicted_from():
    """The one that holds most is searched for again when half of it is gone."""
    _, (first, second, newcomer) = topics_in(3, 160 * COST)
    store(first, 90)
    store(second, 70)
    store(newcomer, 70)
    assert held(first) + held(second) == 90
    assert held(first) >= 40
    assert held(second) >= 40


class Pile:
    """A holder of so many bytes, which loses one at a time."""

    def __init__(self, budget, size):
        self.budget, self.unreserved = budget, size
        budget.add(self)
        budget.used += size

    def can_evict(self, *, leaving):
        return self.unreserved > leaving

    def evict_oldest(self, *, leaving):
        self.unreserved -= 1
        self.budget.used -= 1


def test_a_topic_loses_down_to_half_of_what_it_held_when_it_was_found():
    """And not a byte more while another one holds more."""
    budget = Budget(10)
    large, other = Pile(budget, 10), Pile(budget, 6)
    budget.evict_over_limit(None)
    assert (large.unreserved, other.unreserved) == (5, 5)


def test_beside_a_topic_that_fills_the_budget_messages_to_a_new_one_are_all_kept():
    """RET-10: two hundred of them."""
    client = Conversation(broker_with(max_bytes=1_000 * COST))
    client.ask(CreateTopic(0, "hog", KEEP), CreateTopic(0, "new", KEEP))
    client.ask(*[Publish(0, "hog", batch(b"x" * 88)) for _ in range(2_000)])
    for _ in range(200):
        client.ask(Publish(0, "new", batch(b"x" * 88)), Publish(0, "hog", batch(b"x" * 88)))
    new = client.broker.registry.get_or_create("new", 0)
    assert (new.head, new.end) == (0, 200)


def test_of_two_topics_that_both_want_everything_each_gets_about_half():
    _, (one, other) = topics_in(2, 100 * COST)
    store(one, 100)
    for _ in range(300):
        store(one)
        store(other)
    assert held(one) + held(other) == 100
    assert min(held(one), held(other)) >= 33, "it loses until half of what it held is gone"


@pytest.mark.parametrize("hogs", [1, 3])
def test_reserved_bytes_are_never_taken(hogs):
    """RET-9, RET-10."""
    limit = 100_000
    budget = Budget(limit)
    lossless = topic_in(budget, overflow=Overflow.REJECT, capacity=10, max_bytes=10 * BYTES)
    store(lossless, 10)
    topics = [topic_in(budget) for _ in range(hogs)]
    for _ in range(500):
        for topic in topics:
            store(topic)
    assert (held(lossless), lossless.retained.ring.evicted) == (10, 0)
    assert budget.used + budget.reserved <= limit
    assert budget.used == TOPIC + sum(topic.memory for topic in topics)


def test_windows_of_a_lossless_topic_count_and_may_be_forgotten():
    """RET-9 promises messages, and COM-6 no windows."""
    budget = Budget(2_000_000)
    settings = {
        "overflow": Overflow.REJECT,
        "capacity": 10,
        "max_bytes": 100_000,
        "compaction_window_ms": FOREVER,
    }
    topic, other = topic_in(budget, **settings), topic_in(budget)
    store(other, 10)
    for number in range(5_000):
        topic.publish(batch((b"%01024d" % number, b"")), 0)
        assert budget.used <= budget.limit
        assert held(topic) == min(number + 1, 10)
    assert held(other) == 10, "that is cheaper than the windows"
    assert topic.window.forgotten > 3_000


def test_many_batches_of_a_lossless_topic_cost_no_more_than_is_reserved():
    """RET-10: each costs more than its bytes."""
    budget = Budget(1_000_000)
    topic = topic_in(budget, overflow=Overflow.REJECT, capacity=10**8, max_bytes=20_000)
    store(topic, 5_000, size=0)
    assert topic.memory <= budget.reserved + TOPIC
    assert budget.used <= TOPIC


# -- what users see ------------------------------------------------------------------------------


def test_a_reader_gets_a_lag_report_for_messages_evicted_for_another_topic():
    """LAG-1."""
    client = Conversation(broker_with(max_bytes=2 * TOPIC + 4 * COST))
    client.tell(*[Publish(0, "a", batch(b"x" * 88)) for _ in range(4)])
    client.tell(Publish(0, "b", batch(b"x" * 88)))
    subscribed, lagged, messages, *_ = client.ask(
        Subscribe(2, "a", start=Start.OFFSET, value=0, credit=9)
    )
    assert isinstance(subscribed, Subscribed)
    assert lagged == Lagged(2, 0, 1)
    assert isinstance(messages, Messages)
    assert messages.base == 1


def test_a_journal_never_evicts_the_message_it_records():
    """PUB-1: though that holds most, and there is nothing older in the journal."""
    client = Conversation(broker_with(max_bytes=2 * TOPIC + ENTRY + 300))
    client.ask(
        CreateTopic(2, "a", ((Setting.JOURNAL_BYTES, 10_000),)), Publish(3, "a", batch(b"x" * 250))
    )
    sizes = {topic.name: topic.retained.ring.bytes for topic in client.broker.registry}
    assert sizes == {"a": len(batch(b"x" * 250).data), "$journal/a": 0}


@pytest.mark.parametrize(("size", "fits"), [(499, True), (500, True), (501, False)])
def test_a_batch_larger_than_the_budget_is_refused(size, fits):
    """RET-10: one below the limit, at it, beyond; also if there are topics that hold nothing."""
    client = Conversation(broker_with(max_bytes=500))
    (reply,) = client.ask(CreateTopic(0, "empty"), Publish(3, "t", batch(b"x" * (size - HEADER))))
    assert isinstance(reply, Published) if fits else reply.code == ErrorCode.BATCH_TOO_LARGE
    assert client.broker.registry.get_or_create("t", 0).retained.ring.bytes == (size if fits else 0)


# -- what is reserved ----------------------------------------------------------------------------


def test_a_topic_that_becomes_lossless_after_first_use_is_charged_once():
    """TOP-3, RET-9: and not at all when it is deleted."""
    budget = Budget(1_000_000)
    topic = TopicController("t", TopicSettings(), 1, explicit=False, budget=budget)
    assert budget.used == TOPIC
    topic.create_again(((Setting.OVERFLOW, Overflow.REJECT), (Setting.MAX_BYTES, 10_000)))
    assert (budget.used, budget.limit + budget.reserved) == (0, 1_000_000)
    topic.delete()
    assert (budget.used, budget.reserved, budget.limit) == (0, 0, 1_000_000)


def test_a_topic_that_could_not_become_lossless_is_still_evicted_from_for_others():
    """RET-9, RET-10: or what it holds was there for good."""
    budget = Budget(10 * COST + 2 * TOPIC)
    topic, other = (
        TopicController("t", TopicSettings(), 1, explicit=False, budget=budget),
        topic_in(budget),
    )
    with pytest.raises(Exception, match="a lossless topic reserves"):
        topic.create_again(((Setting.OVERFLOW, Overflow.REJECT),))
    store(topic, 10)
    store(other, 3)
    assert (held(topic), held(other)) == (7, 3)


@pytest.mark.parametrize(("capacity", "batches"), [(10, 10), (10**8, 10_000 // HEADER)])
def test_what_a_lossless_ring_may_cost_is_reserved(capacity, batches):
    """RET-9: no more batches can be there than messages, and than the smallest batches that fit."""
    budget = Budget(10**6)
    topic_in(budget, overflow=Overflow.REJECT, capacity=capacity, max_bytes=10_000)
    assert budget.reserved == 10_000 + batches * ENTRY


def test_there_is_room_for_three_lossless_topics_by_default():
    """RET-9: half of the bytes stays with the topics that evict."""
    budget, defaults = Budget(BrokerSettings().max_bytes), BrokerSettings().topic
    for _ in range(3):
        TopicController(
            "t", defaults.merged(((Setting.OVERFLOW, 1),)), 1, explicit=True, budget=budget
        )
    with pytest.raises(Exception, match="a smaller max_bytes or capacity"):
        TopicController(
            "t", defaults.merged(((Setting.OVERFLOW, 1),)), 1, explicit=True, budget=budget
        )


def test_a_deleted_topic_releases_everything():
    """TOP-6: messages, windows, what is reserved, and itself."""
    budget = Budget(10**6)
    for overflow in Overflow:
        topic = topic_in(
            budget, overflow=overflow, max_bytes=10_000, capacity=10, compaction_window_ms=FOREVER
        )
        topic.publish(batch((b"k" * 1000, b"x")), 0)
        assert budget.used or budget.reserved
        topic.delete()
        assert (budget.used, budget.reserved, budget.limit) == (0, 0, 10**6)


# -- what it costs -------------------------------------------------------------------------------


class Watched(dict):
    """A dict that counts how often it is iterated over."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


def test_many_small_batches_are_evicted_without_a_search_for_each():
    """P5: one large publish must not stop the broker."""
    budget, many = topics_in(100, 100 * 20 * COST)
    for topic in many:
        store(topic, 20)
    newcomer = topic_in(budget)
    budget._holders = Watched(budget._holders)
    store(newcomer, size=1000 * COST - TOPIC - ENTRY - HEADER)
    evicted = 2000 - sum(map(held, many))
    assert evicted == 1000
    assert budget._holders.looks <= evicted / 5
