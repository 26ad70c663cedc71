"""A shared name in its topic: what is kept for it, who pays, and when it goes."""

from sharing_clients import Sharing, offsets, seconds, work

from zaichik.core.work_queue.work_queue import MESSAGE_BYTES
from zaichik_protocol import (
    AdvanceClock,
    CreateTopic,
    Delete,
    Error,
    ErrorCode,
    Outcome,
    Overflow,
    Setting,
    Unsubscribe,
)

SECOND_US = 1_000_000


def used(broker, client):
    return broker.memory._held[client.manager.client]


def test_what_is_open_and_dead_is_charged_to_the_client_that_made_the_name():
    """SHR-10: with its reason; what is done costs nothing."""
    broker, client = work(3)
    before = used(broker, client)
    subscription, _ = client.share(credit=3)
    named = used(broker, client) - 3 * MESSAGE_BYTES
    assert named > before
    client.done(subscription, 0)
    assert used(broker, client) == named + 2 * MESSAGE_BYTES
    client.settle(subscription, Outcome.REJECT, 1, 2, reason="why")
    assert used(broker, client) == named + 2 * MESSAGE_BYTES + 2 * 3
    client.dead(action=2)
    assert used(broker, client) == named


def test_keys_are_charged_as_well():
    broker, client = work()
    client.publish((b"k" * 100, b""), (b"k" * 100, b""))
    before = used(broker, client)
    client.share(name="without", credit=2)
    plain = used(broker, client) - before
    client.share(name="with", credit=2, by_key=True)
    assert used(broker, client) - before == 2 * plain + 200


def test_a_name_that_is_forgotten_costs_nothing_more():
    broker, client = work(3)
    before = used(broker, client)
    subscription, _ = client.share(credit=3)
    client.ask(Unsubscribe(client.next_id(), subscription, forget=True))
    assert used(broker, client) == before
    assert not broker.shared_names.positions
    assert not broker.registry.find("t").retained.ring._waiting


def test_a_topic_that_is_deleted_takes_its_names_along():
    broker, client = work(3)
    before = used(broker, client)
    client.share(credit=2)
    client.ask(Delete(client.next_id(), "t"))
    seconds(broker, 3)
    assert not broker.shared_names.positions
    subscription = max(client.manager.readers)
    client.done(subscription, 0, 1)
    client.ask(Unsubscribe(client.next_id(), subscription))
    assert used(broker, client) == before


def test_a_lossless_topic_says_what_holds_it():
    """RET-9, SHR-9."""
    _, client = work()
    pairs = ((Setting.CAPACITY, 1), (Setting.OVERFLOW, Overflow.REJECT))
    client.ask(CreateTopic(client.next_id(), "u", pairs))
    subscription, _ = client.share("u")
    client.publish(b"0", topic="u")
    client.settle(subscription, Outcome.REJECT, 0)
    (refused,) = client.publish(b"1", topic="u")
    assert refused.code == ErrorCode.TOPIC_FULL
    assert "the shared name 'n' (1 worker, 0 open, 1 dead) still needs offset 0" in refused.message


def test_a_name_without_workers_holds_a_lossless_topic():
    broker, client = work()
    pairs = ((Setting.CAPACITY, 1), (Setting.OVERFLOW, Overflow.REJECT))
    client.ask(CreateTopic(client.next_id(), "u", pairs))
    subscription, _ = client.share("u")
    client.ask(Unsubscribe(client.next_id(), subscription))
    client.publish(b"0", topic="u")
    seconds(broker, 100)
    (refused,) = client.publish(b"1", topic="u")
    assert isinstance(refused, Error)


def test_a_topic_with_a_shared_name_is_in_use():
    """TOP-6, TOP-7: it is neither empty nor unused."""
    broker, client = work()
    subscription, _ = client.share("u")
    client.ask(Unsubscribe(client.next_id(), subscription))
    (refused,) = client.ask(Delete(client.next_id(), "u", if_empty=True))
    assert refused.code == ErrorCode.NOT_EMPTY
    seconds(broker, 700)
    assert broker.registry.find("u") is not None


def test_time_that_is_advanced_counts_in_full():
    """SHR-4, TIM-4: what has ended by then has ended when it is answered."""
    broker, client = work(1)
    client.share(timeout_ms=60_000, max_deliveries=1)
    (reply,) = client.ask(AdvanceClock(client.next_id(), broker.clock.now_us() + 60 * SECOND_US))
    assert not isinstance(reply, Error)
    assert len(client.dead()) == 1


def test_a_stall_takes_no_work_away():
    """Two seconds of it count."""
    broker, client = work(1)
    client.share(timeout_ms=4000, max_deliveries=1)
    seconds(broker)
    broker.clock.advance(3600)
    broker.sweep()
    assert client.dead() == []
    seconds(broker)
    assert len(client.dead()) == 1


def test_nothing_is_swept_where_no_name_is_shared():
    broker, _ = work()
    broker.sweep()
    assert broker.shared_names._patience is None


def test_tickets_are_the_brokers_and_grow():
    """SHR-3: whatever the name, and whatever was deleted meanwhile."""
    _, client = work(1)
    client.share(name="a")
    first = client.tickets[0]
    client.share(name="b")
    assert client.tickets[0] > first
    assert first >= 1000  # the clock's reading


def test_a_name_resumes_for_the_next_worker():
    broker, client = work(2)
    subscription, _ = client.share()
    client.done(subscription, 0)
    client.ask(Unsubscribe(client.next_id(), subscription))
    other = Sharing(broker)
    _, events = other.share(start=1)
    assert offsets(events) == [1]
