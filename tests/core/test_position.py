"""Named subscriptions: a position that outlives its connection (CMT-3)."""

import pytest
from conversation import Conversation, batch, broker_with
from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.sharing import prices
from zaichik.core.sharing.quota import SHARE
from zaichik_protocol import (
    FOREVER,
    Commit,
    Committed,
    CreateTopic,
    Delete,
    EndCode,
    Error,
    ErrorCode,
    Lagged,
    Messages,
    Publish,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Unsubscribed,
)

TTL = 60.0


@pytest.fixture
def broker():
    broker = broker_with(max_sessions=3, session_ttl=TTL)
    Conversation(broker).ask(
        CreateTopic(2, "t", ((Setting.RETENTION_TTL_MS, FOREVER), (Setting.CAPACITY, 100)))
    )
    return broker


def reader(broker, *, credit=100, number=1, name="worker", topic="t", **options):
    """A connection with a named subscription, and what it was answered."""
    client = Conversation(broker)
    client.number = number
    client.tell(Subscribe(number, topic, name, credit=credit, **options))
    client.answer, *client.events = client.heard()
    return client


def publish(broker, count, topic="t"):
    Conversation(broker).ask(*[Publish(0, topic, batch(b"")) for _ in range(count)])


def delivered(events):
    """(offset, whether it came before) of every message."""
    return [
        (offset, frame.redelivered)
        for frame in events
        if isinstance(frame, Messages)
        for offset in range(frame.base, frame.base + frame.batch.count)
    ]


def leave(client):
    client.broker.disconnect(client.manager, "GONE")


def test_the_first_reader_of_a_name_begins_where_it_asks_to(broker):
    publish(broker, 5)
    client = reader(broker, start=Start.OFFSET, value=3)
    epoch = client.answer.epoch
    assert client.answer == Subscribed(1, epoch, 3, 5, 3, named=True, resumed=False)
    assert delivered(client.events) == [(3, False), (4, False)]


def test_a_reader_that_returns_resumes_after_the_last_settled_message(broker):
    """What was delivered and not settled comes first, marked; what is new is not marked."""
    publish(broker, 4)
    client = reader(broker)
    client.ask(Commit(0, 1, 2))
    leave(client)
    publish(broker, 2)
    back = reader(broker, number=9, start=Start.LATEST)
    assert back.answer == Subscribed(9, back.answer.epoch, 2, 6, 2, named=True, resumed=True)
    assert delivered(back.events) == [(2, True), (3, True), (4, False), (5, False)]


def test_a_commit_of_settled_messages_moves_nothing_back(broker):
    """CMT-2."""
    publish(broker, 4)
    client = reader(broker)
    client.ask(Commit(0, 1, 3), Commit(0, 1, 1))
    leave(client)
    assert reader(broker).answer.start == 3


def test_a_partly_delivered_batch_is_redelivered_in_two_frames(broker):
    Conversation(broker).ask(Publish(0, "t", batch(b"0", b"1", b"2", b"3")))
    leave(reader(broker, credit=2))
    again = reader(broker, credit=10)
    assert [(frame.base, frame.batch.count, frame.redelivered) for frame in again.events] == [
        (0, 2, True),
        (2, 2, False),
    ]


def test_a_third_delivery_is_marked_too(broker):
    publish(broker, 2)
    leave(reader(broker))
    leave(reader(broker, credit=1))
    assert delivered(reader(broker).events) == [(0, True), (1, True)]


def test_messages_evicted_meanwhile_are_reported_as_lag(broker):
    publish(broker, 4)
    client = reader(broker)
    client.ask(Commit(0, 1, 1))
    leave(client)
    publish(broker, 100)
    back = reader(broker)
    assert back.answer.start == 1
    assert back.events[0] == Lagged(1, 1, 4)
    assert delivered(back.events)[0] == (4, False)


def test_names_are_those_of_a_topic(broker):
    publish(broker, 1)
    publish(broker, 1, "u")
    assert not reader(broker).answer.resumed
    assert not reader(broker, topic="u").answer.resumed
    assert not reader(broker, name="other").answer.resumed


def test_an_anonymous_position_leaves_nothing(broker):
    """CMT-4."""
    publish(broker, 1)
    client = Conversation(broker)
    answer, *_ = client.ask(Subscribe(1, "t"))
    assert (answer.named, answer.resumed) == (False, False)
    leave(client)
    assert len(broker.named_positions) == 0
    topic = broker.registry.get_or_create("t", 0)
    assert not topic.readers
    assert not topic.names


# -- one reader to a name ------------------------------------------------------------------------


def test_a_second_reader_takes_over(broker):
    publish(broker, 3)
    first = reader(broker)
    first.ask(Commit(0, 1, 1))
    second = reader(broker, number=5)
    assert first.heard() == [
        SubscriptionEnded(1, EndCode.TAKEN_OVER, 3, EndCode.TAKEN_OVER.meaning)
    ]
    assert delivered(second.events) == [(1, True), (2, True)]
    publish(broker, 1)
    assert first.heard() == []
    assert delivered(second.heard()) == [(3, False)]
    assert list(broker.registry.get_or_create("t", 0).readers) == [second.manager.readers[5]]


def test_the_first_reader_is_told_even_without_credit(broker):
    publish(broker, 3)
    first = reader(broker, credit=1)
    reader(broker)
    assert [type(frame) for frame in first.heard()] == [SubscriptionEnded]


def test_a_replaced_reader_no_longer_moves_the_position(broker):
    publish(broker, 3)
    first = reader(broker)
    second = reader(broker, credit=1)
    assert Committed(8, 3) in first.ask(Commit(8, 1, 3))
    assert Unsubscribed(9) in first.ask(Unsubscribe(9, 1, forget=True))
    leave(first)
    leave(second)
    assert delivered(reader(broker).events)[0] == (0, True)


def test_a_connection_may_take_over_from_itself(broker):
    client = reader(broker)
    events = client.ask(Subscribe(2, "t", "worker"))
    assert [type(event) for event in events] == [Subscribed, SubscriptionEnded]
    publish(broker, 1)
    assert [frame.id for frame in client.heard()] == [2]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["publish", "join", "leave", "hear", "commit"]), st.integers(1, 6)
        ),
        max_size=60,
    )
)
def test_nothing_is_missed_and_redelivery_is_marked_whatever_the_order(steps):
    broker = broker_with()
    Conversation(broker).ask(CreateTopic(2, "t", ((Setting.RETENTION_TTL_MS, FOREVER),)))
    owner, former = reader(broker, credit=1), []
    settled = cursor = seen = 0

    def hear(frames):
        nonlocal cursor, seen
        for offset, redelivered in delivered(frames):
            assert (offset, redelivered) == (cursor, offset < seen)
            cursor += 1
            seen = max(seen, cursor)

    for what, number in [*steps, ("join", 100), ("hear", 1)]:
        if what == "publish":
            Conversation(broker).ask(Publish(0, "t", batch(*[b""] * number)))
        elif what == "join":
            former.append(owner)
            owner, cursor = reader(broker, credit=number), settled
            assert owner.answer.start == settled
            hear(owner.events)
        elif what == "leave":
            leave(owner)
            owner = reader(broker, name="", credit=1)  # somebody else
            owner.ask(Unsubscribe(2, 1))
        elif 1 in owner.manager.readers:
            hear(owner.heard())
            if what == "commit":
                settled = min(settled + number, cursor)
                owner.tell(Commit(0, 1, settled))
        for one in former:
            if subscription := one.manager.readers.get(1):
                one.tell(Commit(0, 1, subscription.cursor))
            assert not delivered(one.heard())
    assert cursor == broker.registry.get_or_create("t", 0).retained.ring.next_offset


# -- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "resumed"), [(TTL - 1, True), (TTL, False), (TTL + 1, False)])
def test_a_position_outlives_its_connection_for_session_ttl(broker, seconds, resumed):
    publish(broker, 2)
    client = reader(broker)
    client.ask(Commit(0, 1, 1))
    broker.clock.advance(1000)
    broker.sweep()
    leave(client)
    broker.sweep()
    broker.clock.advance(seconds)
    broker.sweep()
    assert len(broker.named_positions) == resumed
    assert reader(broker).answer.resumed == resumed


def test_the_time_starts_again_whenever_the_reader_leaves(broker):
    for _ in range(3):
        client = reader(broker)
        broker.sweep()
        leave(client)
        broker.sweep()
        broker.clock.advance(TTL - 1)
        broker.sweep()
    assert reader(broker).answer.resumed


def test_a_visit_between_two_sweeps_counts(broker):
    leave(reader(broker))
    broker.sweep()
    broker.clock.advance(TTL - 1)
    leave(reader(broker))
    broker.clock.advance(1)
    broker.sweep()
    assert reader(broker).answer.resumed


def test_positions_are_forgotten_in_topics_of_any_name(broker):
    """And those of a topic that is deleted, at once."""
    for topic in ("A", "a", "é"):
        leave(reader(broker, topic=topic))
    assert len(broker.named_positions) == 3
    broker.sweep()
    broker.clock.advance(TTL)
    broker.sweep()
    assert len(broker.named_positions) == 0
    leave(reader(broker, topic="A"))
    Conversation(broker).ask(Delete(2, "A"))
    assert len(broker.named_positions) == 0
    assert list(broker.named_positions.directory.after("", "")) == []


@pytest.mark.parametrize(("forget", "resumed"), [(False, True), (True, False)])
def test_unsubscribing_keeps_the_position_unless_it_is_to_be_forgotten(broker, forget, resumed):
    publish(broker, 3)
    client = reader(broker)
    client.ask(Commit(0, 1, 2), Unsubscribe(3, 1, forget=forget))
    back = reader(broker)
    assert back.answer.resumed == resumed
    assert back.answer.start == (2 if resumed else 0)


def test_forgetting_an_anonymous_position_changes_nothing(broker):
    client = Conversation(broker)
    assert client.ask(Subscribe(1, "t"), Unsubscribe(2, 1, forget=True))[-1] == Unsubscribed(2)


def test_a_subscription_that_reached_its_until_still_accepts_commits(broker):
    """RET-4."""
    publish(broker, 3)
    client = reader(broker, until=2)
    assert isinstance(client.events[-1], SubscriptionEnded)
    client.ask(Commit(0, 1, 2))
    leave(client)
    assert reader(broker).answer.start == 2


# -- bounds --------------------------------------------------------------------------------------


def test_their_number_is_limited(broker):
    """P6: whether or not their readers are there."""
    for name in ("a", "b", "c"):
        leave(reader(broker, name=name))
    refused = reader(broker, name="d").answer
    assert isinstance(refused, Error)
    assert (refused.code, refused.field) == (ErrorCode.TOO_MANY_SUBSCRIPTIONS, "name")
    assert "max_sessions" in refused.message
    assert "max_client_bytes" not in refused.message
    assert reader(broker, name="a").answer.resumed
    assert not broker.registry.get_or_create("t", 0).readers.keys() - {
        subscription
        for manager in broker.managers.values()
        for subscription in manager.readers.values()
    }


def test_a_name_needs_memory_beside_that_of_the_subscription():
    """LAG-6."""
    needed = prices.CONNECTION + prices.SUBSCRIPTION + prices.NAME
    kept_for_others = needed // SHARE
    for less, code in ((100, ErrorCode.NO_MEMORY), (0, None)):
        broker = broker_with(max_client_bytes=needed + kept_for_others - less)
        answer = reader(broker, name="a").answer
        assert getattr(answer, "code", None) == code
        assert bool(broker.named_positions) == (code is None)


@pytest.mark.parametrize(
    ("name", "good"),
    [("n" * 199, True), ("n" * 200, True), ("n" * 201, False), ("a\nb", False), ("$own", True)],
)
def test_names_are_bounded(broker, name, good):
    answer = reader(broker, name=name).answer
    assert (
        isinstance(answer, Subscribed)
        if good
        else (answer.code, answer.field) == (ErrorCode.INVALID_FIELD, "name")
    )


# -- what is kept for it -------------------------------------------------------------------------


def test_without_retention_the_sweep_keeps_messages_a_name_has_not_settled():
    """RET-1: also while its reader is away."""
    broker = broker_with()
    client = reader(broker)
    publish(broker, 5)
    client.heard()
    client.ask(Commit(0, 1, 2))
    ring = broker.registry.get_or_create("t", 0).retained.ring
    broker.sweep()
    assert ring.head == 2
    leave(client)
    broker.sweep()
    assert ring.head == 2
    assert delivered(reader(broker).events) == [(2, True), (3, True), (4, True)]


def test_nothing_is_kept_for_a_forgotten_name():
    broker = broker_with()
    client = reader(broker)
    publish(broker, 5)
    client.ask(Unsubscribe(3, 1, forget=True))
    broker.sweep()
    topic = broker.registry.get_or_create("t", 0)
    assert (topic.retained.ring.head, len(topic.names), len(broker.named_positions)) == (5, 0, 0)


# -- owners --------------------------------------------------------------------------------------

A, B, C = 0xA, 0xB, 0xC


def ask(broker, owner=0, attempt=1, name="worker"):
    """A connection on which an owner asks for the name; 0: the request has no owner."""
    client = Conversation(broker)
    owned = {"owner": owner, "attempt": attempt, "owned": True} if owner else {}
    client.tell(Subscribe(1, "t", name, credit=100, **owned))
    client.answer, *client.events = client.heard()
    return client


def refused_at(client):
    """The field for which a Subscribe was TAKEN_OVER; None if it was not."""
    if isinstance(client.answer, Subscribed):
        return None
    assert (client.answer.code, client.answer.fatal) == (ErrorCode.TAKEN_OVER, False)
    return client.answer.field


def test_a_reader_that_wakes_up_does_not_displace_its_successor(broker):
    """CMT-3: it hung between two sockets while another one took the name."""
    leave(ask(broker, A))
    present = ask(broker, B)
    assert refused_at(ask(broker, A, attempt=2)) == "owner"
    publish(broker, 1)
    assert delivered(present.heard()) == [(0, False)]


def test_a_replaced_reader_is_refused_even_after_its_successor_has_left(broker):
    """CMT-3: as long as the position is kept."""
    leave(ask(broker, A))
    leave(ask(broker, B))
    assert refused_at(ask(broker, A, attempt=2)) == "owner"
    assert refused_at(ask(broker, B, attempt=2)) is None


def test_an_owner_returns_with_a_later_attempt_and_takes_over_from_its_old_connection(broker):
    """CMT-3."""
    old = ask(broker, A)
    assert refused_at(ask(broker, A, attempt=2)) is None
    assert [frame.code for frame in old.heard()] == [EndCode.TAKEN_OVER]


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_late_request_from_an_old_connection_changes_nothing(broker, attempt):
    """CMT-3."""
    present = ask(broker, A, attempt=2)
    assert refused_at(ask(broker, A, attempt=attempt)) == "attempt"
    publish(broker, 1)
    assert delivered(present.heard()) == [(0, False)]


def test_a_reader_without_an_owner_takes_over_as_usual(broker):
    """CMT-3: and the owner it has replaced does not come back, nor is one that says nothing ever
    refused.
    """
    ask(broker, A)
    assert refused_at(ask(broker)) is None
    assert refused_at(ask(broker, A, attempt=2)) == "owner"
    assert refused_at(ask(broker)) is None
    assert refused_at(ask(broker, B)) is None
    assert refused_at(ask(broker)) is None


def test_owners_belong_to_one_name(broker):
    """CMT-3."""
    ask(broker, A)
    ask(broker, B)
    assert refused_at(ask(broker, A, name="other")) is None


@pytest.mark.parametrize(("others", "field"), [(64, "owner"), (65, None)])
def test_the_last_64_replaced_owners_are_remembered(broker, others, field):
    """CMT-3."""
    for owner in range(1, others + 2):
        assert refused_at(ask(broker, owner)) is None
    assert refused_at(ask(broker, 1, attempt=2)) == field


def test_no_owner_was_replaced_by_the_first_one(broker):
    """CMT-3: whatever its number is."""
    for owner in (2**64 - 1, 1, 2):
        assert refused_at(ask(broker, owner)) is None


def test_a_forgotten_position_forgets_its_owners(broker):
    """CMT-3."""
    ask(broker, A)
    ask(broker, B).ask(Unsubscribe(2, 1, forget=True))
    assert refused_at(ask(broker, A)) is None


def test_a_subscribe_that_fails_claims_no_name(broker):
    """CMT-3."""
    leave(ask(broker, A))
    client = Conversation(broker)
    (error,) = client.ask(Subscribe(1, "t", "worker", epoch=9, owner=B, attempt=1, owned=True))
    assert error.code == ErrorCode.EPOCH_CHANGED
    assert refused_at(ask(broker, A, attempt=2)) is None


def test_an_owner_is_not_0(broker):
    client = Conversation(broker)
    (error,) = client.ask(Subscribe(1, "t", "worker", owner=0, attempt=1, owned=True))
    assert (error.code, error.field) == (ErrorCode.INVALID_FIELD, "owner")
    assert error.message == "owner is 0; it must be at least 1"


def test_an_owner_without_a_name_means_nothing(broker):
    for _ in range(2):
        assert isinstance(ask(broker, A, name="").answer, Subscribed)
