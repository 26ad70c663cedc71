"""`$topics`: when it is there, and how long a new topic waits for those who follow."""

import pytest
from conversation import Conversation, broker_with
from followed import Following, create, delete, later, publish, records

from zaichik.core.rights import TOPICS
from zaichik_protocol import (
    Batch,
    CreateTopic,
    Delete,
    ErrorCode,
    Lagged,
    Publish,
    Setting,
    Start,
    Subscribe,
    Unsubscribe,
)


def retained(broker, name):
    ring = broker.registry.find(name).retained
    return range(ring.head, ring.end)


def test_a_follower_has_no_name():
    """PAT-5: otherwise users without any right could use up the positions of all."""
    client = Following(broker_with())
    for _ in range(2):
        refused, _ = client.follow(name="n")
        assert (refused.code, refused.field) == (ErrorCode.INVALID_FIELD, "name")
        client.follow()


# -- when it is there ----------------------------------------------------------------------------


def test_there_is_no_table_of_topics_until_somebody_subscribes_to_it():
    """PAT-1."""
    broker = broker_with()
    client = Following(broker)
    create(client, "a")
    assert broker.registry.find(TOPICS) is None
    subscribed, _ = client.follow()
    assert broker.registry.find(TOPICS).epoch == subscribed.epoch
    client.ask(Unsubscribe(client.next_id(), subscribed.id))
    assert broker.registry.find(TOPICS) is not None


def test_it_is_there_where_topics_are_not_created_by_use_and_where_there_may_be_no_more():
    """PAT-1."""
    client = Following(broker_with(auto_create=False, max_topics=1))
    create(client, "a")
    (refused,) = client.ask(CreateTopic(client.next_id(), "b"))
    assert refused.code == ErrorCode.TOO_MANY_TOPICS
    _, events = client.follow()
    assert records(events) == [(0, "a", 0, False)]
    delete(client, "a")
    create(client, "b")


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(
    "request_of",
    [
        lambda number: CreateTopic(number, TOPICS),
        lambda number: CreateTopic(number, TOPICS, ((Setting.TABLE, 1),)),
        lambda number: Publish(number, TOPICS, Batch.of([(b"a", b"{}")])),
        lambda number: Publish(number, TOPICS, Batch.of([(b"a", b"")]), tombstones=True),
        lambda number: Delete(number, TOPICS),
    ],
    ids=["create", "create as a table", "publish", "publish a tombstone", "delete"],
)
def test_only_the_broker_makes_writes_and_deletes_it(request_of, is_there):
    """PAT-1, follow.5."""
    broker = broker_with()
    client = Following(broker)
    if is_there:
        client.follow()
    (refused,) = client.ask(request_of(client.next_id()))
    assert (refused.code, refused.field) == (ErrorCode.INVALID_FIELD, "topic")
    assert (broker.registry.find(TOPICS) is not None) == is_there


def test_a_client_that_knows_an_epoch_of_before_is_told_so():
    """PAT-5: after a restart, say. No table is made for that."""
    broker = broker_with()
    client = Following(broker)
    refused, _ = client.follow(epoch=7)
    assert refused.code == ErrorCode.EPOCH_CHANGED
    assert broker.registry.find(TOPICS) is None


def test_a_client_that_does_not_know_tables_cannot_follow():
    """TAB-3."""
    client = Conversation(broker_with())
    (refused,) = client.ask(Subscribe(2, TOPICS))
    assert (refused.code, refused.field) == (ErrorCode.UNSUPPORTED, "topic")


# -- how long new topics wait --------------------------------------------------------------------


def test_a_new_topic_keeps_what_it_is_given_for_those_who_follow():
    """PAT-3: for ten seconds, and then as ever."""
    broker = broker_with()
    client = Following(broker)
    create(client, "before")
    client.follow()
    publish(client, "before", b"x")
    publish(client, "new", b"x", b"y")
    later(broker, 1)
    assert not retained(broker, "before")
    later(broker, 8.9)
    assert retained(broker, "new") == range(2)
    _, *events = client.ask(
        Subscribe(client.next_id(), "new", start=Start.OFFSET, value=0, credit=10)
    )
    assert [event.batch.payloads() for event in events] == [[b"x", b"y"]]
    later(broker, 0.1)
    assert not retained(broker, "new")


def test_without_a_follower_a_new_topic_keeps_nothing():
    """RET-1: and a table of topics that nobody reads is no follower."""
    broker = broker_with()
    client = Following(broker)
    subscribed, _ = client.follow()
    later(broker, 1)
    client.ask(Unsubscribe(client.next_id(), subscribed.id))
    later(broker, 11)
    publish(client, "new", b"x")
    later(broker, 1)
    assert not retained(broker, "new")


def test_a_follower_that_has_lost_its_connection_is_waited_for():
    """PAT-3."""
    broker = broker_with()
    follower = Following(broker)
    follower.follow()
    later(broker, 1)
    broker.disconnect(follower.manager, "GONE")
    client = Following(broker)
    later(broker, 9)
    publish(client, "new", b"x")
    later(broker, 1)
    publish(client, "newer", b"x")
    later(broker, 1)
    assert retained(broker, "new") == range(1)
    assert not retained(broker, "newer")


@pytest.mark.parametrize("is_swept", [False, True])
def test_followers_that_begin_again_are_waited_for(is_swept):
    """PAT-3: whether or not a sweep has found them."""
    broker = broker_with()
    client = Following(broker)
    client.follow()
    if is_swept:
        later(broker, 1)
    broker.registry.stop_following()
    publish(client, "between", b"x")
    client.follow()
    later(broker, 1)
    assert retained(broker, "between") == range(1)
    later(broker, 9)
    assert not retained(broker, "between")


def test_followers_that_do_not_begin_again_are_waited_for_as_long_as_others():
    broker = broker_with()
    client = Following(broker)
    client.follow()
    broker.registry.stop_following()
    later(broker, 1)
    later(broker, 10)
    publish(client, "new", b"x")
    later(broker, 1)
    assert not retained(broker, "new")


def test_nobody_is_waited_for_when_a_table_that_nobody_reads_is_deleted():
    broker = broker_with()
    client = Following(broker)
    subscribed, _ = client.follow()
    client.ask(Unsubscribe(client.next_id(), subscribed.id))
    broker.registry.stop_following()
    publish(client, "new", b"x")
    later(broker, 1)
    assert not retained(broker, "new")


def test_the_limits_of_a_new_topic_hold_all_the_same():
    """PAT-3: what goes for them is lag."""
    broker = broker_with()
    client = Following(broker)
    client.follow()
    create(client, "new", capacity=2)
    publish(client, "new", b"1", b"2")
    publish(client, "new", b"3")
    _, *events = client.ask(
        Subscribe(client.next_id(), "new", start=Start.OFFSET, value=0, credit=10)
    )
    lagged, first, second = events
    assert lagged == Lagged(lagged.id, 0, 1)
    assert [first.base, second.base] == [1, 2]


def test_retention_of_a_new_topic_holds_all_the_same():
    """PAT-3."""
    broker = broker_with()
    client = Following(broker)
    client.follow()
    create(client, "new", retention_ttl_ms=500)
    publish(client, "new", b"1")
    later(broker, 1)
    assert not retained(broker, "new")
