"""A worker's subscription: what it is sent, in which frames, and what ends it."""

from types import SimpleNamespace

import pytest
from conversation import batch
from sharing_clients import Sharing, offsets, seconds, work

from zaichik.core.shared_names.shared_reader import MOST_IN_FRAME, MOST_OFFERS
from zaichik_protocol import (
    Commit,
    CreateTopic,
    EndCode,
    Error,
    ErrorCode,
    GoAway,
    Lagged,
    Messages,
    Outcome,
    Publish,
    Setting,
    Settled,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Unsubscribed,
)


def test_a_frame_has_so_many_messages_that_a_turn_stays_short():
    _, client = work(3 * MOST_IN_FRAME)
    _, events = client.share(credit=1000)
    assert [event.batch.count for event in events] == [MOST_IN_FRAME] * 3


def test_a_frame_has_messages_of_one_batch():
    _, client = work(2)
    client.publish(b"2")
    _, events = client.share(credit=10)
    assert [(event.base, event.batch.count) for event in events] == [(0, 2), (2, 1)]


def test_messages_of_a_busy_key_take_turns_of_their_own():
    """Opening them brings nothing to send; others have their turns in between (LAG-4)."""
    broker, client = work()
    subscription, _ = client.share(credit=10, by_key=True)
    busy = [(b"k", b"%d" % number) for number in range(3 * MOST_OFFERS)]
    client.tell(Publish(client.next_id(), "t", batch(*busy, (b"l", b"x"))))
    reader = client.manager.readers[subscription]
    (position,) = broker.shared_names.positions
    opened = []
    while reader.is_ready:
        reader.take(broker.clock.now_us())
        opened.append(position.queue.ledger.open)
    assert opened == [1, 1 + MOST_OFFERS, 1 + 2 * MOST_OFFERS, 1 + 3 * MOST_OFFERS, opened[-1]]
    assert reader.in_flight == 2


def test_a_message_is_marked_with_which_delivery_it_is():
    _, client = work(1)
    subscription, (first,) = client.share()
    assert (first.number, first.redelivered) == (1, False)
    _, second = client.settle(subscription, Outcome.RETRY, 0, delay_s=0)
    assert (second.number, second.redelivered) == (2, True)


def test_a_count_that_the_frame_cannot_say_is_the_most_it_can():
    broker, client = work(1)
    subscription, _ = client.share(max_deliveries=0)
    (position,) = broker.shared_names.positions
    (message,) = position.queue.ledger.open_messages()
    message.count = 100_000
    _, again = client.settle(subscription, Outcome.RETRY, 0, delay_s=0)
    assert again.number == 65_535


def test_what_settles_something_makes_room_for_as_much():
    _, client = work(5)
    subscription, events = client.share(credit=2)
    assert offsets(events) == [0, 1]
    reply, *events = client.done(subscription, 1)
    assert reply == Settled(reply.id, ())
    assert offsets(events) == [2]


def test_a_message_comes_to_a_worker_that_waits():
    _, client = work()
    subscription, events = client.share()
    assert events == []
    _, event = client.publish(b"0")
    assert isinstance(event, Messages)
    assert client.done(subscription, 0)[1:] == []
    _, event = client.publish(b"1")
    assert event.base == 1


def test_a_publish_is_not_told_to_who_does_not_wait():
    """Without credit, a publish costs the topic nothing for the name."""
    broker, client = work(1)
    client.share()
    topic = broker.registry.find("t")
    assert topic.retained.ring._waiting == {}


def test_lag_is_told_once_to_whose_turn_it_was():
    """SHR-7."""
    broker, client = work()
    client.ask(CreateTopic(client.next_id(), "u", ((Setting.CAPACITY, 2),)))
    subscription, _ = client.share("u")
    client.publish(b"0", topic="u")
    for number in range(1, 5):
        client.publish(b"%d" % number, topic="u")
    _, lagged, event = client.done(subscription, 0)
    assert (lagged.from_offset, lagged.to_offset, event.base) == (1, 3, 3)
    other = Sharing(broker)
    _, events = other.share("u")
    assert [type(each) for each in events] == [Messages]
    (row,) = [row for row in client.rows() if row["connection"] == 0]
    assert row["skipped"] == 2
    assert not any(row["left_over"].values())


def test_a_message_that_expired_in_a_workers_hands_can_be_done():
    broker, client = work()
    client.ask(CreateTopic(client.next_id(), "u", ((Setting.RETENTION_TTL_MS, 1000),)))
    subscription, _ = client.share("u")
    client.publish(b"0", topic="u")
    seconds(broker, 2)
    (reply,) = client.done(subscription, 0)
    assert reply.late == ()
    (position,) = broker.shared_names.positions
    assert (position.queue.ledger.done, position.queue.ledger.skipped) == (1, 0)


def test_without_retention_a_topic_keeps_what_a_shared_name_needs():
    """RET-1: also while nobody reads, and what is dead."""
    broker, client = work()
    subscription, _ = client.share("u")
    client.publish(b"0", b"1", topic="u")
    topic = broker.registry.find("u")
    client.settle(subscription, Outcome.REJECT, 0)
    client.done(subscription, 1)
    client.ask(Unsubscribe(client.next_id(), subscription))
    client.publish(b"2", topic="u")
    seconds(broker)
    assert topic.head == 0
    client.dead("u", action=2)
    seconds(broker)
    assert topic.head == 2


def test_the_hand_of_a_connection_is_what_all_its_workers_have():
    """SHR-6: of every name. What was lost in company is suspect, and not counted."""
    broker, _ = work(1)
    worker = Sharing(broker)
    worker.share(name="a", max_deliveries=1)
    worker.share(name="b", max_deliveries=1)
    watcher = Sharing(broker)
    broker.disconnect(worker.manager, "GONE")
    assert watcher.dead(name="a") == []
    for name in ("a", "b"):
        subscription, (event,) = watcher.share(name=name, max_deliveries=1)
        assert event.redelivered
        # The next name's is suspect as well, and goes to an empty hand only.
        watcher.done(subscription, 0)


def test_a_worker_that_may_take_again_because_of_another_name_is_woken_by_its_topic():
    """SHR-6: its hand had a suspect, which is done; there is nothing for it, and then there is."""
    broker, _ = work(1)
    for _ in range(2):
        lost = Sharing(broker)
        lost.share(name="a")
        lost.share("u", name="b")
        broker.disconnect(lost.manager, "GONE")
    client = Sharing(broker)
    suspect, events = client.share(name="a")
    assert offsets(events) == [0]
    client.share("u", name="b")
    client.done(suspect, 0)
    *_, event = client.publish(b"x", topic="u")
    assert isinstance(event, Messages)


def test_a_suspect_waits_for_an_empty_hand():
    broker, _ = work(2)
    worker = Sharing(broker)
    worker.share(credit=2)
    broker.disconnect(worker.manager, "GONE")
    watcher = Sharing(broker)
    subscription, events = watcher.share(credit=2)
    assert offsets(events) == [0]
    _, event = watcher.done(subscription, 0)
    assert event.base == 1


@pytest.mark.parametrize("how", ["unsubscribe", "close"])
def test_leaving_in_good_order_releases(how):
    """SHR-4a: it was not delivered, as far as counts go."""
    broker, client = work(1)
    worker = Sharing(broker)
    subscription, _ = worker.share(max_deliveries=1)
    _, _ = client.share(max_deliveries=1)
    if how == "unsubscribe":
        worker.ask(Unsubscribe(worker.next_id(), subscription))
    else:
        worker.manager._leave_all()
        worker.manager.close()
    (event,) = client.heard()
    assert (event.number, event.redelivered) == (1, True)


def test_who_is_sent_away_releases():
    broker, client = work(1)
    worker = Sharing(broker)
    worker.share(max_deliveries=1)
    broker.send_away(worker.manager.number)
    assert isinstance(worker.heard()[-1], GoAway)
    _, (event,) = client.share(max_deliveries=1)
    assert event.number == 1


def test_a_worker_without_an_owner_is_lost_at_once():
    broker, client = work(1)
    worker = Sharing(broker)
    worker.share(max_deliveries=1)
    broker.disconnect(worker.manager, "GONE")
    (row,) = client.dead()
    assert row["deliveries"] == 1


def test_an_owner_has_two_seconds_by_the_broker_that_can_listen():
    """They are counted in sweeps: while the broker is stalled, there are none."""
    broker, client = work(1)
    worker = Sharing(broker)
    worker.share(max_deliveries=1, owner=7)
    broker.disconnect(worker.manager, "GONE")
    broker.clock.advance(3600)
    for _ in range(2):
        broker.sweep()
        assert client.dead() == []
    broker.sweep()
    assert len(client.dead()) == 1


def test_a_broker_that_stops_hands_out_nothing_more():
    """CLO-2: what would come back at once is not sent."""
    broker, client = work(2)
    request = Subscribe(client.next_id(), "t", "n", shared=True)
    client.tell(request)
    client.manager.accept_no_more()
    client.manager.stop()
    assert [type(frame) for frame in client.heard()] == [Subscribed, GoAway]
    (position,) = broker.shared_names.positions
    assert position.queue.ledger.next == 0


def test_a_broker_that_stops_longer_than_owners_may_stay_away_counts_nothing():
    broker, client = work(1)
    client.share(owner=7, max_deliveries=1)
    client.manager.stop()
    seconds(broker, 12)
    (position,) = broker.shared_names.positions
    ledger = position.queue.ledger
    assert (len(ledger.dead), len(ledger.ready)) == (0, 1)


def test_a_commit_is_not_how_a_shared_name_settles():
    _, client = work(1)
    subscription, _ = client.share()
    (refused,) = client.ask(Commit(client.next_id(), subscription, 1))
    assert (refused.code, refused.field) == (ErrorCode.INVALID_FIELD, "subscription")


def test_what_is_settled_after_the_end_is_late():
    broker, client = work(2)
    _, _ = client.share()
    other = Sharing(broker)
    other.share(owner=7)
    taker = Sharing(broker)
    taker.share(owner=7, attempt=2)
    (ended,) = other.heard()
    assert (type(ended), ended.code) == (SubscriptionEnded, EndCode.TAKEN_OVER)
    (reply,) = other.done(2, 1)
    assert reply.late == (other.tickets[1],)


@pytest.mark.parametrize("is_there", [True, False])
def test_forgetting_by_one_that_was_taken_over_forgets_nothing(is_there):
    """The name is the later one's, whether or not that reads."""
    broker, client = work(2)
    subscription, _ = client.share(owner=7)
    taker = Sharing(broker)
    its_own, _ = taker.share(owner=7, attempt=2)
    if not is_there:
        taker.ask(Unsubscribe(taker.next_id(), its_own))
    *_, reply = client.ask(Unsubscribe(client.next_id(), subscription, forget=True))
    assert isinstance(reply, Unsubscribed)
    assert taker.dead() == []


def test_a_large_message_goes_alone():
    """CMT-1: any size is allowed while it has nothing; else it waits, and is not lost."""
    _, client = work()
    client.publish(b"x" * 10)
    client.publish(b"y" * 500)
    subscription, events = client.share(credit=5, credit_bytes=100)
    assert offsets(events) == [0]
    _, event = client.done(subscription, 0)
    assert event.base == 1


def test_a_message_that_does_not_fit_goes_to_another():
    """Who waits longest is called first, and cannot take it."""
    broker, client = work()
    client.publish(b"x" * 10)
    client.share(credit=5, credit_bytes=100)
    other = Sharing(broker)
    other.share(credit=5)
    client.publish(b"y" * 500)
    assert offsets(other.heard()) == [1]


def test_settings_that_come_later_do_not_lose_a_worker():
    """TOP-3: the topic retains anew, and the name waits there."""
    _, client = work()
    client.share("u")
    reply, *_ = client.ask(CreateTopic(client.next_id(), "u", ((Setting.CAPACITY, 5),)))
    assert not isinstance(reply, Error)
    _, event = client.ask(Publish(client.next_id(), "u", batch(b"0")))
    assert isinstance(event, Messages)


def test_nothing_is_told_of_what_is_lost_behind_a_message_that_comes_again():
    """It says nothing of what follows it (SHR-7)."""
    _, client = work()
    client.ask(CreateTopic(client.next_id(), "u", ((Setting.CAPACITY, 3),)))
    subscription, _ = client.share("u", credit=2)
    client.publish(b"0", b"1", topic="u")
    client.publish(b"2", b"3", b"4", topic="u")
    _, *events = client.settle(subscription, Outcome.RETRY, 0, delay_s=0)
    lags = [event for event in events if isinstance(event, Lagged)]
    assert [(lag.from_offset, lag.to_offset) for lag in lags] == [(0, 1)]
    assert client.done(subscription, 1)[0].late == ()


def test_a_right_that_is_withdrawn_releases():
    """ACC-4: nothing is kept for the name either, until its user may read again."""
    broker, _ = work(1)
    user = SimpleNamespace(
        name="ana",
        publishable=(),
        may=lambda action, topic: True,
        is_ended=lambda _: False,
        denied=lambda *_: None,
    )
    worker = Sharing(broker, user)
    worker.share(max_deliveries=1)
    other = Sharing(broker, SimpleNamespace(**(vars(user) | {"name": "boris"})))
    user.may = lambda action, topic: False
    broker.waive(lambda name, topic: name != "ana")
    worker.manager.recheck(5, rights=True)
    (ended,) = worker.heard()
    assert (type(ended), ended.code) == (SubscriptionEnded, EndCode.FORBIDDEN)
    (position,) = broker.shared_names.positions
    assert position.is_waived
    assert (len(position.queue.ledger.ready), len(position.queue.ledger.dead)) == (1, 0)
    assert broker.registry.find("t").needed() == 1
    user.may = lambda action, topic: True
    _, (event,) = Sharing(broker, user).share(max_deliveries=1)
    assert (event.number, event.redelivered) == (1, True)
    # The one that has ended, the new one, and the name.
    assert [row["session"] for row in other.rows()] == ["n"] * 3


def test_workers_of_two_users_have_two_names():
    """SHR-10: each gets everything."""
    broker, _ = work(1)
    users = [
        SimpleNamespace(
            name=name,
            publishable=(),
            may=lambda action, topic: action == "subscribe",
            is_ended=lambda _: False,
            denied=lambda *_: None,
        )
        for name in ("ana", "boris")
    ]
    for user in users:
        client = Sharing(broker, user)
        _, events = client.share()
        assert offsets(events) == [0]
        assert len(client.rows()) == 2
