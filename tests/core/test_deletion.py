"""Topics that go: deleted by a client (TOP-6), or by themselves because first use was their only
use (TOP-7).
"""

import json

import pytest
from conversation import Conversation, batch, broker_with

from zaichik.core.settings import TopicSettings
from zaichik.core.sharing import prices
from zaichik_protocol import (
    FOREVER,
    Commit,
    Committed,
    CreateTopic,
    Delete,
    Deleted,
    Describe,
    EndCode,
    Error,
    ErrorCode,
    Kind,
    Messages,
    Overflow,
    Publish,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Unsubscribed,
)

KEEP = ((Setting.RETENTION_TTL_MS, FOREVER),)
DELETED = EndCode.DELETED


@pytest.fixture
def client():
    return Conversation(broker_with())


def refusal(client, request):
    (error,) = client.ask(request)
    assert isinstance(error, Error)
    assert error.request_type == request.TYPE
    return ErrorCode(error.code), error.field


def topics(client):
    (page,) = client.ask(Describe(99, Kind.TOPICS))
    return {topic["name"]: topic for topic in json.loads(page.json)["topics"]}


def kept(client, name="t", count=3):
    """A topic with messages."""
    client.ask(CreateTopic(0, name, KEEP), *[Publish(0, name, batch(b"x"))] * count)


# -- what may be deleted -------------------------------------------------------------------------


def test_a_topic_is_deleted_with_its_messages(client):
    """TOP-6."""
    kept(client)
    assert client.ask(Delete(2, "t")) == [Deleted(2)]
    assert topics(client) == {}
    budget = client.broker.registry.budget
    assert (budget.used, len(budget._holders)) == (0, 0), (
        "however many come and go, nothing of them is kept"
    )


@pytest.mark.parametrize("name", ["", "n" * 201, "a\nb", "$", "$journal/t"])
def test_a_name_reserved_for_the_broker_is_refused(client, name):
    """TOP-6: a journal goes with its topic, and never alone."""
    client.ask(CreateTopic(0, "t", ((Setting.JOURNAL_BYTES, 1000),)))
    assert refusal(client, Delete(2, name)) == (ErrorCode.INVALID_FIELD, "topic")
    assert len(topics(client)) == 2


def test_deleting_a_missing_topic_does_not_create_it(client):
    """TOP-6."""
    assert refusal(client, Delete(2, "t")) == (ErrorCode.NO_SUCH_TOPIC, "topic")
    assert refusal(client, Delete(2, "t", epoch=7)) == (ErrorCode.NO_SUCH_TOPIC, "topic")
    assert topics(client) == {}


def test_only_the_topic_of_the_epoch_named_is_deleted(client):
    """TOP-6."""
    (created,) = client.ask(CreateTopic(2, "t"))
    assert refusal(client, Delete(3, "t", epoch=created.epoch + 1)) == (
        ErrorCode.EPOCH_CHANGED,
        "epoch",
    )
    assert client.ask(Delete(4, "t", epoch=created.epoch)) == [Deleted(4)]


def test_a_topic_that_holds_messages_is_not_empty(client):
    """TOP-6: until they have expired."""
    client.ask(
        CreateTopic(0, "t", ((Setting.RETENTION_TTL_MS, 1000),)), Publish(0, "t", batch(b"x"))
    )
    client.broker.clock.advance(0.999)
    assert refusal(client, Delete(2, "t", if_empty=True)) == (ErrorCode.NOT_EMPTY, "topic")
    assert topics(client)["t"]["resident"] == 1
    client.broker.clock.advance(0.001)
    assert client.ask(Delete(2, "t", if_empty=True)) == [Deleted(2)]


def test_a_refused_deletion_counts_one_of_each_in_the_singular(client):
    """TOP-6."""
    client.ask(
        CreateTopic(0, "t", ((Setting.RETENTION_TTL_MS, FOREVER),)), Publish(0, "t", batch(b"x"))
    )
    client.ask(Subscribe(2, "t", "name"))
    (error,) = client.ask(Delete(4, "t", if_empty=True))
    assert "has 1 message, 1 subscription and 1 named position." in error.message
    client.ask(Publish(0, "t", batch(b"y")), Unsubscribe(0, 2))
    (error,) = client.ask(Delete(5, "t", if_empty=True))
    assert "has 2 messages, 0 subscriptions and 1 named position." in error.message


def test_a_topic_with_a_reader_or_a_position_is_not_empty(client):
    """TOP-6."""
    client.ask(Subscribe(2, "t"), Subscribe(3, "t", "name"))
    not_empty = ErrorCode.NOT_EMPTY, "topic"
    assert refusal(client, Delete(4, "t", if_empty=True)) == not_empty
    client.ask(Unsubscribe(0, 2))
    assert refusal(client, Delete(5, "t", if_empty=True)) == not_empty
    client.ask(Unsubscribe(0, 3))
    assert refusal(client, Delete(6, "t", if_empty=True)) == not_empty, "its reader is away"
    client.ask(Subscribe(7, "t", "name"), Unsubscribe(0, 7, forget=True))
    assert client.ask(Delete(8, "t", if_empty=True)) == [Deleted(8)]


def test_an_ended_subscription_is_not_a_reader(client):
    """TOP-6."""
    client.ask(Subscribe(2, "t", until=0))
    assert client.ask(Delete(3, "t", if_empty=True)) == [Deleted(3)]


# -- what goes with it ---------------------------------------------------------------------------


def test_its_readers_are_told_and_get_nothing_more(client):
    """TOP-6: also of what they had not been sent yet; the connection goes on."""
    reader = Conversation(client.broker)
    kept(client)
    assert [type(frame) for frame in reader.ask(Subscribe(2, "t", credit=1))] == [
        Subscribed,
        Messages,
    ]
    client.ask(Delete(0, "t"))
    assert reader.heard() == [SubscriptionEnded(2, DELETED, 1, "the topic was deleted")]
    kept(client)
    assert reader.ask(Commit(3, 2, 1)) == [Committed(3, 1)]
    assert reader.ask(Unsubscribe(4, 2)) == [Unsubscribed(4)]


def test_a_reader_that_had_ended_is_not_told_again(client):
    """TOP-6."""
    assert len(client.ask(Subscribe(2, "t", until=0), Subscribe(3, "t", "name", until=0))) == 4
    assert client.ask(Delete(4, "t")) == [Deleted(4)]
    assert client.ask(Commit(5, 3, 0), Unsubscribe(6, 3, forget=True)) == [
        Committed(5, 0),
        Unsubscribed(6),
    ]


def test_its_named_positions_are_deleted(client):
    """TOP-6: of those that read and of those that are away; other topics' stay."""
    kept(client)
    kept(client, "other")
    client.ask(Subscribe(3, "t", "away"), Unsubscribe(0, 3))
    client.ask(Subscribe(4, "t", "here", credit=9), Subscribe(5, "other", "here", credit=9))
    client.ask(Commit(0, 4, 2), Commit(0, 5, 2))
    client.ask(Delete(0, "t"))
    assert len(client.broker.named_positions) == 1
    kept(client)
    (again, *_) = client.ask(Subscribe(6, "t", "here"))
    assert (again.start, again.resumed) == (0, False)
    (again, *_) = client.ask(Subscribe(7, "other", "here"))
    assert (again.start, again.resumed) == (2, True)


def test_commits_of_a_deleted_topics_reader_do_not_move_its_successors_position(client):
    """TOP-6."""
    kept(client)
    client.ask(Subscribe(2, "t", "name", credit=9))
    client.ask(Delete(0, "t"))
    kept(client)
    client.ask(Subscribe(3, "t", "name"))
    client.ask(Commit(0, 2, 3))
    (page,) = client.ask(Describe(4, Kind.SUBSCRIPTIONS))
    committed = {
        reader["id"]: reader["committed"] for reader in json.loads(page.json)["subscriptions"]
    }
    assert committed == {2: 3, 3: 0}


def test_its_journal_goes_with_its_readers_and_positions(client):
    """TOP-6."""
    client.ask(CreateTopic(0, "t", ((Setting.JOURNAL_BYTES, 1000),)), Publish(0, "t", batch(b"x")))
    client.ask(Subscribe(2, "$journal/t", "auditor"))
    *_, ended = client.ask(Delete(3, "t"))
    assert (ended.id, ended.code) == (2, DELETED)
    assert (
        topics(client),
        len(client.broker.named_positions),
        client.broker.registry.budget.used,
    ) == ({}, 0, 0)


def test_its_reserved_bytes_are_released(client):
    """TOP-6, RET-9."""
    rejecting = ((Setting.OVERFLOW, Overflow.REJECT),)
    names = [f"t{number}" for number in range(3)]
    client.ask(*[CreateTopic(0, name, rejecting) for name in names])
    assert refusal(client, CreateTopic(2, "next", rejecting)) == (ErrorCode.NO_MEMORY, "settings")
    client.ask(Publish(0, "t0", batch(b"x")), Delete(0, "t0"))
    (created,) = client.ask(CreateTopic(3, "next", rejecting))
    assert created.created
    client.ask(*[Delete(0, name) for name in [*names[1:], "next"]])
    budget = client.broker.registry.budget
    assert (budget.limit, budget.used) == (client.broker.settings.max_bytes, 0)


def test_a_deleted_topic_is_never_evicted_from():
    """TOP-6, RET-10: not even if it was the one that others were taking bytes from."""
    limit = 3 * prices.TOPIC + 13 * (prices.ENTRY + len(batch(bytes(80)).data))
    client = Conversation(
        broker_with(max_bytes=limit, topic=TopicSettings(retention_ttl_ms=FOREVER))
    )
    client.ask(*[Publish(0, "large", batch(bytes(80))) for _ in range(14)])
    client.ask(*[Publish(0, f"t{number}", batch(bytes(80))) for number in range(2)])
    assert topics(client)["large"]["evicted"]
    client.ask(Delete(0, "large"), *[Publish(0, "next", batch(bytes(80))) for _ in range(14)])
    assert client.broker.registry.budget.used <= limit
    assert [topic["resident"] for topic in topics(client).values()] == [11, 1, 1]


def test_a_numbered_batch_stored_in_a_deleted_topic_is_not_stored_in_the_next(client):
    """TOP-6, PUB-4."""
    numbered = Publish(2, "t", batch(b"x"), producer=1, sequence=0)
    client.ask(numbered, Delete(0, "t"))
    (published,) = client.ask(numbered)
    assert published.duplicate
    assert topics(client) == {}


# -- the next of that name -----------------------------------------------------------------------


def test_a_later_topic_of_that_name_has_a_greater_epoch_although_the_clock_has_not_moved(client):
    """TOP-6: also if the one before had got its epoch that way."""
    epochs = []
    for number in range(2, 5):
        (created,) = client.ask(CreateTopic(number, "t"))
        epochs.append(created.epoch)
        client.ask(Delete(0, "t"))
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]
    client.ask(Delete(0, "t"))
    client.broker.clock.advance(1)
    (created,) = client.ask(CreateTopic(5, "t"))
    assert created.epoch == client.broker.clock.now_us()


def test_deleting_an_older_topic_later_does_not_lower_the_epoch(client):
    """TOP-6."""
    client.ask(CreateTopic(0, "old"))
    client.broker.clock.advance(1)
    (young,) = client.ask(CreateTopic(2, "young"))
    client.ask(Delete(0, "young"), Delete(0, "old"))
    (again,) = client.ask(CreateTopic(3, "young"))
    assert again.epoch > young.epoch


def test_the_next_publish_creates_the_topic_again(client):
    """TOP-6, TOP-3."""
    kept(client)
    *_, published = client.ask(Delete(0, "t"), Publish(2, "t", batch(b"y")))
    assert published.first_offset == 0
    assert topics(client)["t"]["settings"]["retention_ttl_ms"] == 0


def test_a_request_with_the_old_epoch_gets_nothing_of_the_new_topic(client):
    """TOP-5, TOP-6."""
    (created,) = client.ask(CreateTopic(2, "t"))
    client.ask(Delete(0, "t"), CreateTopic(0, "t"))
    assert refusal(client, Subscribe(3, "t", epoch=created.epoch)) == (
        ErrorCode.EPOCH_CHANGED,
        "epoch",
    )


# -- those that go by themselves -----------------------------------------------------------------


def seconds_pass(client, seconds):
    """With a sweep at the beginning, which finds out what is unused, and one at the end."""
    client.broker.sweep()
    client.broker.clock.advance(seconds)
    client.broker.sweep()


def test_a_topic_that_was_only_read_is_deleted_after_ten_minutes_without_readers(client):
    """TOP-7."""
    client.ask(Subscribe(2, "t"))
    seconds_pass(client, 3600)
    assert set(topics(client)) == {"t"}
    client.ask(Unsubscribe(0, 2))
    seconds_pass(client, 599)
    assert set(topics(client)) == {"t"}
    client.broker.clock.advance(1)
    client.broker.sweep()
    assert topics(client) == {}


@pytest.mark.parametrize(
    "use",
    [
        Subscribe(9, "t", start=Start.OFFSET, value=1),
        Publish(9, "t", batch((b"k" * 1025, b""))),
        Publish(9, "t", batch(*[b""] * 8193)),
    ],
    ids=lambda use: type(use).__name__,
)
def test_a_failed_request_is_no_use_or_restarts_the_time(client, use):
    """TOP-7: it is use if it gets as far as finding its topic."""
    client.ask(Subscribe(2, "t"), Unsubscribe(0, 2))
    seconds_pass(client, 599)
    client.ask(use)
    seconds_pass(client, 1)
    assert set(topics(client)) == ({"t"} if isinstance(use, Subscribe) else set())


def test_a_topic_that_was_created_explicitly_or_published_to_stays(client):
    """TOP-7: also if all that was written has expired."""
    client.ask(CreateTopic(0, "asked for"), Publish(0, "written", batch(b"x")))
    seconds_pass(client, 3600)
    assert topics(client)["written"]["resident"] == 0
    assert set(topics(client)) == {"asked for", "written"}


def test_a_topic_with_a_named_position_stays_as_long_as_the_position():
    """TOP-7, CMT-3."""
    client = Conversation(broker_with(session_ttl=10_000.0))
    client.ask(Subscribe(2, "t", "name"), Unsubscribe(0, 2))
    seconds_pass(client, 3600)
    assert set(topics(client)) == {"t"}


def test_the_journal_of_an_unused_topic_is_deleted_with_it():
    """TOP-7, JRN-1."""
    client = Conversation(broker_with(topic=TopicSettings(journal_bytes=1000)))
    client.ask(Subscribe(2, "t"), Unsubscribe(0, 2))
    seconds_pass(client, 600)
    assert topics(client) == {}
