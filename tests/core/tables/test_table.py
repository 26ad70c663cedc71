"""A table, as its clients find it."""

import json

import pytest
from conversation import Conversation, broker_with
from fuzz.kept_rows import check_rows

from zaichik.core.settings import MIB, BrokerSettings, TopicSettings
from zaichik_protocol import (
    FOREVER,
    TABLES,
    Batch,
    Commit,
    CreateTopic,
    Delete,
    DeletionsMissed,
    Describe,
    Error,
    ErrorCode,
    Explain,
    Hello,
    Kind,
    Lagged,
    Messages,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    encode,
)

SECOND_US = 1_000_000


def client_of(broker, features=TABLES):
    client = Conversation(broker, greeted=False)
    client.ask(Hello(1, features=features))
    return client


def table(broker=None, **settings):
    """A client of a broker that has a table `t` with these settings."""
    client = client_of(broker or broker_with())
    pairs = [(Setting[name.upper()], value) for name, value in settings.items()]
    client.ask(CreateTopic(2, "t", ((Setting.TABLE, 1), *pairs)))
    return client


def kept(client):
    return client.broker.registry.find("t").retained.kept


def publish(client, *messages, request_id=3, tombstones=True, **more):
    """The reply to a batch of (key, payload) pairs."""
    request = Publish(request_id, "t", Batch.of(messages), tombstones=tombstones, **more)
    return client.ask(request)[0]


def later(client, seconds):
    clock = client.broker.clock
    clock.move_to(clock.now_us() + int(seconds * SECOND_US))
    client.broker.registry.sweep(clock.now_us())


def heard(frames):
    """What events say: the offsets of messages, and all others as they are."""
    said = []
    for frame in frames:
        if isinstance(frame, Messages):
            deltas = frame.deltas or range(frame.batch.count)
            said += [frame.base + delta for delta in deltas]
        else:
            said.append(frame)
    return said


def row(client, kind=Kind.SUBSCRIPTIONS):
    (page,) = client.ask(Describe(9, kind))
    (state,) = next(iter(json.loads(page.json).values()))
    return state


def explained(client, **what):
    (answer,) = client.ask(Explain(9, "t", **what))
    verdicts = json.loads(answer.json)["verdicts"]
    return [(verdict["fate"], verdict["rule"], verdict["evidence"]) for verdict in verdicts]


# -- what is stored ------------------------------------------------------------------------------


def test_all_of_a_batch_is_stored_and_a_late_reader_gets_the_last_of_each_key():
    """TAB-1, TAB-3."""
    client = table()
    assert publish(client, (b"a", b"1"), (b"b", b"2")) == Published(3, 0, 2, 0, 0)
    assert publish(client, (b"a", b"3"), (b"a", b"4")) == Published(3, 2, 2, 0, 0)
    subscribed, messages = client.ask(Subscribe(4, "t", credit=10))
    assert (subscribed.start, subscribed.live) == (0, 4)
    assert (messages.base, messages.holes, messages.deltas) == (1, True, (0, 2))
    assert messages.batch == Batch.of([(b"b", b"2"), (b"a", b"4")])


def test_without_holes_between_them_messages_come_without_the_flag():
    """TAB-3."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"2"))
    publish(client, (b"a", b"1"), (b"b", b"2"))
    _, messages = client.ask(Subscribe(4, "t", credit=10))
    assert (messages.base, messages.holes, messages.deltas) == (2, False, ())


def test_a_client_that_does_not_know_tables_may_publish_and_not_subscribe():
    """TAB-3."""
    old = client_of(table().broker, features=0)
    assert isinstance(publish(old, (b"a", b"1")), Published)
    (error,) = old.ask(Subscribe(4, "t", credit=10))
    assert (error.code, error.field) == (ErrorCode.UNSUPPORTED, "topic")
    assert not old.broker.registry.find("t").readers


def test_a_topic_that_is_read_does_not_become_a_table():
    """TAB-3: its reader may not know tables."""
    client = client_of(broker_with())
    client.ask(Subscribe(2, "t"))
    (error,) = client.ask(CreateTopic(3, "t", ((Setting.TABLE, 1),)))
    assert error.code == ErrorCode.TOPIC_EXISTS
    client.ask(Unsubscribe(4, 2))
    (created,) = client.ask(CreateTopic(5, "t", ((Setting.TABLE, 1),)))
    assert dict(created.settings)[Setting.TABLE] == 1


def test_a_table_is_no_default():
    with pytest.raises(ValueError, match="only an explicit create"):
        BrokerSettings(topic=TopicSettings(retention_ttl_ms=FOREVER, table=1))


# -- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        [(b"a", b"9")],
        [(b"c", b"1"), (b"a", b"")],
        [(b"a", b""), (b"c", b"1")],
        [(b"c", b"1"), (b"c", b"2"), (b"c", b"")],
        [(b"a", b"%d" % number) for number in range(100)],
        [(b"z", b"")],
    ],
    ids=["update", "put, delete", "delete, put", "in vain", "many of one key", "delete nothing"],
)
def test_a_full_table_takes_what_leaves_no_more_in_it(messages):
    """TAB-1."""
    client = table(capacity=2)
    publish(client, (b"a", b"1"), (b"b", b"2"))
    assert isinstance(publish(client, *messages), Published)


@pytest.mark.parametrize(
    ("settings", "messages", "text"),
    [
        ({"capacity": 2}, [(b"c", b"1")], "3 messages, and its capacity is 2"),
        ({"capacity": 2}, [(b"c", b"1"), (b"", b"")], "have 1 message without a key, which"),
        ({"max_bytes": 20}, [(b"a", b"111")], "22 bytes, and its max_bytes is 20"),
    ],
)
def test_what_does_not_fit_is_refused_whole_and_nothing_changes(settings, messages, text):
    """TAB-1."""
    client = table(**settings)
    publish(client, (b"a", b"1"), (b"b", b"2"))
    before = row(client, Kind.TOPICS)
    error = publish(client, *messages)
    assert (error.code, error.field, error.retryable) == (ErrorCode.TABLE_FULL, "batch", False)
    assert text in error.message
    assert row(client, Kind.TOPICS) == before | {"refused": 1, "memory": client_memory(client)}


def client_memory(client):
    """What the topic takes by now: a refusal is remembered."""
    return client.broker.registry.find("t").memory


def test_a_refused_batch_uses_its_number_up():
    """TAB-1, PUB-4."""
    client = table(capacity=1)
    publish(client, (b"a", b"1"), producer=7, sequence=0)
    assert publish(client, (b"b", b"1"), producer=7, sequence=1).code == ErrorCode.TABLE_FULL
    publish(client, (b"a", b""), (b"b", b"1"))
    assert publish(client, (b"b", b"1"), producer=7, sequence=1).code == ErrorCode.TABLE_FULL
    assert isinstance(publish(client, (b"b", b"2"), producer=7, sequence=2), Published)


def test_where_the_broker_has_no_memory_left_a_table_does_not_grow_and_is_updated():
    """TAB-1: half of the bytes stay with the topics that evict."""
    client = table(broker_with(max_bytes=1 * MIB), capacity=10**6)
    number = 0
    while True:
        answer = publish(client, (b"%d" % number, bytes(1000)))
        if isinstance(answer, Error):
            break
        number += 1
    assert (answer.code, answer.retryable) == (ErrorCode.TABLE_FULL, False)
    assert "the broker has none left for tables" in answer.message
    budget = client.broker.registry.budget
    assert 0.4 * MIB < budget.reserved < 0.6 * MIB
    assert isinstance(publish(client, (b"0", bytes(1000))), Published)
    for key in range(number):
        assert isinstance(publish(client, (b"%d" % key, b"")), Published)
    assert isinstance(publish(client, (b"new", bytes(1000))), Published)


def test_memory_is_reserved_as_a_table_grows_and_given_back_as_it_shrinks():
    """TAB-1, TAB-4."""
    client = table(capacity=10**6)
    budget = client.broker.registry.budget
    empty = budget.limit
    keys = [b"%d" % number for number in range(2000)]
    publish(client, *[(key, bytes(100)) for key in keys])
    full = budget.reserved
    assert full >= 2000 * 100
    assert budget.limit == empty - full
    for _ in range(20):
        publish(client, *[(key, bytes(100)) for key in keys])
    assert budget.reserved <= 2 * full
    publish(client, *[(key, b"") for key in keys], (b"last", b"1"))
    later(client, 25 * 3600)
    later(client, 1)
    later(client, 1)
    assert budget.reserved < full / 20
    client.ask(Delete(5, "t"))
    assert (budget.reserved, budget.limit) == (0, empty)


def test_other_topics_give_way_to_a_table_and_never_evict_from_it():
    """TAB-1, RET-10."""
    client = table(broker_with(max_bytes=1 * MIB), capacity=10**6)
    client.ask(CreateTopic(3, "ring", ((Setting.RETENTION_TTL_MS, FOREVER),)))
    for number in range(300):
        publish(client, (b"%d" % number, bytes(1000)))
        client.ask(Publish(0, "ring", Batch.of([(b"", bytes(5000))])))
    assert kept(client).messages == 300
    assert client.broker.registry.find("ring").retained.evicted > 0
    budget = client.broker.registry.budget
    assert budget.used <= budget.limit


# -- tombstones ----------------------------------------------------------------------------------


def test_an_empty_payload_with_a_key_must_be_meant():
    """TAB-6."""
    client = table()
    publish(client, (b"a", b"1"))
    error = publish(client, (b"b", b"1"), (b"a", b""), tombstones=False)
    assert (error.code, error.field) == (ErrorCode.INVALID_FIELD, "batch")
    assert kept(client).next_offset == 1
    assert isinstance(publish(client, (b"", b""), tombstones=False), Published)


def test_in_other_topics_the_flag_means_nothing():
    """TAB-6."""
    client = client_of(broker_with())
    assert isinstance(publish(client, (b"a", b""), tombstones=True), Published)
    assert isinstance(publish(client, (b"a", b""), tombstones=False), Published)


def test_tombstones_have_a_quarter_of_the_bytes_besides():
    """TAB-5."""
    client = table(max_bytes=80, capacity=8)
    publish(client, *[(b"%d" % key, b"1") for key in range(8)])
    publish(client, *[(b"%d" % key, b"") for key in range(8)])
    assert len(kept(client).tombstones) == 2
    publish(client, *[(b"%d" % key, b"1") for key in range(2, 8)])
    assert (kept(client).messages, len(kept(client).tombstones)) == (6, 0)
    check_rows(kept(client))


def test_a_tombstone_goes_with_its_time_and_not_before():
    """TAB-5."""
    client = table(tombstones_ms=2000)
    publish(client, (b"a", b""))
    publish(client, (b"b", b"1"))
    later(client, 1.9)
    assert len(kept(client).tombstones) == 1
    later(client, 0.1)
    assert len(kept(client).tombstones) == 0
    assert row(client, Kind.TOPICS)["deleted_below"] == 1


def test_a_reader_that_has_not_reached_a_tombstone_is_told_once_and_reads_on():
    """TAB-5."""
    client = table(tombstones_ms=1000)
    publish(client, (b"a", b"1"), (b"b", b"1"))
    assert heard(client.ask(Subscribe(4, "t", credit=1)))[1:] == [0]
    publish(client, (b"a", b""))
    publish(client, (b"c", b"1"))
    later(client, 5)
    assert client.heard() == [], "it is told when it has credit"
    assert heard(client.ask(Commit(0, 4, 1))) == [DeletionsMissed(4, 3), 1]
    assert heard(client.ask(Commit(0, 4, 2))) == [3]
    state = row(client)
    assert (state["delivered"], state["passed"], state["skipped"]) == (3, 1, 0)


def test_a_new_reader_from_the_earliest_has_missed_nothing():
    """TAB-5."""
    client = table(tombstones_ms=1000)
    publish(client, (b"a", b"1"), (b"b", b"1"))
    publish(client, (b"a", b""))
    publish(client, (b"c", b"1"))
    later(client, 5)
    assert heard(client.ask(Subscribe(4, "t", credit=1)))[1:] == [1]
    assert heard(client.ask(Commit(0, 4, 2))) == [3]


@pytest.mark.parametrize("start", [Start.OFFSET, Start.TIME])
def test_a_reader_that_begins_before_a_tombstone_that_has_gone_is_told(start):
    """TAB-5."""
    client = table(tombstones_ms=1000)
    publish(client, (b"a", b"1"), (b"b", b"1"))
    publish(client, (b"a", b""))
    publish(client, (b"c", b"1"))
    later(client, 5)
    frames = client.ask(Subscribe(4, "t", start=start, value=0, credit=10))
    assert heard(frames)[1:] == [DeletionsMissed(4, 3), 1, 3]


def test_a_name_that_comes_back_is_told_unless_it_was_never_sent_anything():
    """TAB-5."""
    client = table(tombstones_ms=1000)
    client.ask(Subscribe(4, "t", "empty", credit=1))
    client.ask(Unsubscribe(0, 4))
    publish(client, (b"a", b"1"), (b"b", b"1"))
    client.ask(Subscribe(5, "t", "held", credit=1))
    client.ask(Unsubscribe(0, 5))
    publish(client, (b"a", b""))
    publish(client, (b"c", b"1"))
    later(client, 5)
    frames = client.ask(Subscribe(6, "t", "held", credit=10))
    assert heard(frames)[1:] == [DeletionsMissed(6, 3), 1, 3]
    assert heard(client.ask(Subscribe(7, "t", "empty", credit=10)))[1:] == [1, 3]


# -- holes ---------------------------------------------------------------------------------------


def test_holes_are_passed_and_cost_no_credit():
    """TAB-2."""
    client = table()
    publish(client, *[(b"a", b"%d" % number) for number in range(100)])
    assert heard(client.ask(Subscribe(4, "t", credit=1)))[1:] == [99]
    publish(client, *[(b"a", b"%d" % number) for number in range(100)])
    assert heard(client.ask(Commit(0, 4, 100))) == [199]
    state = row(client)
    assert (state["passed"], state["delivered"], state["skipped"]) == (198, 2, 0)
    assert set(state["left_over"].values()) == {0}


def test_what_was_sent_stays_in_flight_when_it_is_superseded():
    """TAB-2."""
    client = table()
    publish(client, (b"a", b"1"))
    client.ask(Subscribe(4, "t", credit=1))
    publish(client, (b"a", b"2"))
    assert row(client)["in_flight"] == 1
    assert heard(client.ask(Commit(0, 4, 1))) == [1]


def test_a_commit_inside_a_frame_settles_its_messages_one_by_one():
    """TAB-2: not its offsets."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"b", b"2"), (b"d", b"1"))
    client.ask(Subscribe(4, "t", credit=4))
    flights = []
    for settled in range(6):
        client.ask(Commit(0, 4, settled))
        flights.append(row(client)["in_flight"])
    assert flights == [4, 3, 3, 2, 1, 0]


def test_a_subscription_ends_by_passing_holes():
    """TAB-8, RET-4."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"1"))
    publish(client, (b"b", b"2"))
    frames = client.ask(Subscribe(4, "t", credit=10, until=2))
    assert frames[1].base == 0
    assert isinstance(frames[2], SubscriptionEnded)
    assert frames[2].next == 2


def test_a_reader_that_has_everything_waits_and_is_woken():
    client = table()
    publish(client, (b"a", b"1"))
    client.ask(Subscribe(4, "t", credit=10))
    assert kept(client)._waiting
    frames = client.ask(Publish(5, "t", Batch.of([(b"a", b"2")])))
    assert heard(frames)[1:] == [1]


def test_a_name_comes_back_to_a_hole():
    """TAB-8."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"1"))
    client.ask(Subscribe(4, "t", "n", credit=1))
    client.ask(Commit(0, 4, 1), Unsubscribe(0, 4))
    publish(client, (b"b", b"2"))
    subscribed, messages = client.ask(Subscribe(5, "t", "n", credit=1))
    assert (subscribed.start, messages.base, messages.redelivered) == (1, 2, False)


def test_what_has_expired_is_lag_and_what_was_superseded_after_it_is_not():
    """TAB-8."""
    client = table(retention_ttl_ms=1000)
    publish(client, (b"a", b"1"), (b"b", b"1"))
    client.ask(Subscribe(4, "t", start=Start.OFFSET, value=0, credit=1))
    later(client, 0.5)
    publish(client, (b"c", b"1"), (b"c", b"2"))
    later(client, 0.5)
    assert heard(client.ask(Commit(0, 4, 1))) == [Lagged(4, 1, 2), 3]
    state = row(client)
    assert (state["delivered"], state["skipped"], state["passed"]) == (2, 1, 1)


# -- what is reported ----------------------------------------------------------------------------


def test_the_law_of_a_table_has_what_was_superseded():
    """TAB-6."""
    client = table(tombstones_ms=1000)
    publish(client, (b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"c", b""))
    publish(client, (b"", b"1"))
    later(client, 5)
    state = row(client, Kind.TOPICS)
    fates = ("stored", "resident", "superseded", "expired", "evicted", "keys", "tombstones")
    assert [state[fate] for fate in fates] == [5, 3, 1, 1, 0, 2, 0]
    assert set(state["left_over"].values()) == {0}


def test_holes_are_no_lag():
    """TAB-2: in what is reported of a reader, present or away, and of the topic."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"1"))
    reader = client_of(client.broker)
    reader.ask(Subscribe(4, "t", "named", credit=1))
    for number in range(100):
        publish(client, (b"b", b"%d" % number))
    publish(client, (b"", b""), (b"c", b""))
    state = row(client)
    assert (state["cursor"], state["ahead"], state["lag"]) == (1, 103, 3)
    assert row(client, Kind.TOPICS)["lag"] == 4, "the one in flight is to be settled"
    publish(client, (b"a", b"2"))
    client.broker.disconnect(reader.manager, "GONE")
    state = row(client)
    assert (state["cursor"], state["delivered"], state["ahead"], state["lag"]) == (1, 0, 104, 4)
    assert row(client, Kind.TOPICS)["lag"] == 4


def test_what_has_expired_before_a_reader_was_told_is_lag_and_no_hole():
    client = table(retention_ttl_ms=1000)
    publish(client, (b"a", b"1"), (b"a", b"2"), (b"b", b"1"))
    client.ask(Subscribe(4, "t", credit=1))
    later(client, 2)
    publish(client, (b"a", b"3"), (b"a", b"4"))
    state = row(client)
    assert (state["cursor"], state["ahead"], state["lag"]) == (2, 3, 2)


def test_a_table_tells_where_its_messages_stand():
    """With the times at which they came, and no more of them than a page has."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", b"3"), (b"", b"1"))
    (page,) = client.ask(Describe(9, Kind.MARKS, "t", limit=128))
    state = json.loads(page.json)
    now_us = client.broker.clock.now_us()
    assert state["marks"] == [[1, now_us], [3, now_us], [4, now_us]]
    assert state["readable"] == [1, 1, 1]
    (page,) = client.ask(Describe(9, Kind.MARKS, "t", limit=2))
    state = json.loads(page.json)
    assert (state["marks"], state["readable"]) == ([[1, now_us], [4, now_us]], [2, 1])


def test_counters_have_the_keys_of_a_table():
    client = table()
    publish(client, (b"a", b"1"), (b"b", b""), (b"", b"1"))
    (page,) = client.ask(Describe(9, Kind.COUNTERS))
    state = json.loads(page.json)
    counted = dict(zip(state["columns"], state["rows"][0], strict=True))
    assert (counted["keys"], counted["tombstones"], counted["resident"]) == (1, 1, 3)


def test_explain_says_which_message_superseded_one():
    """TAB-7."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    client.ask(Subscribe(4, "t", credit=10))
    publish(client, (b"b", b"2"))
    superseded, passed = explained(client, offset=1)
    assert superseded == ("superseded", "TAB-2", {"by_offset": 3})
    assert passed[0] == "in_flight"
    publish(client, (b"a", b"2"), (b"c", b"2"))
    assert explained(client, offset=1)[0] == ("superseded", "TAB-2", {})


def test_explain_says_that_a_hole_will_be_passed():
    """TAB-2."""
    client = table()
    publish(client, (b"a", b"1"), (b"b", b"1"))
    client.ask(Subscribe(4, "t", credit=1))
    publish(client, (b"b", b"2"), (b"d", b"1"))
    fates = [fate for fate, _, _ in explained(client, offset=1)]
    assert fates == ["superseded", "passed"]
    client.ask(Commit(0, 4, 1))
    fates = [fate for fate, _, _ in explained(client, offset=1)]
    assert fates == ["superseded", "unknown"], "or it was delivered before: nobody remembers"


def test_explain_finds_the_message_of_a_key_at_once():
    """EXP-4."""
    client = table(capacity=10**6)
    publish(client, (b"old", b"1"))
    for first in range(0, 5000, 1000):
        publish(client, *[(b"%d" % (first + at), b"x") for at in range(1000)])
    (answer,) = client.ask(Explain(9, "t", key=b"old"))
    assert json.loads(answer.json)["offset"] == 0


def test_a_hole_below_a_deletion_may_have_been_a_tombstone():
    """TAB-5."""
    client = table(tombstones_ms=1000)
    publish(client, (b"a", b""), (b"b", b"1"))
    publish(client, (b"c", b"1"))
    later(client, 5)
    fate, rule, evidence = explained(client, offset=0)[0]
    assert (fate, rule, evidence) == ("superseded", "TAB-5", {"deleted_below": 1})


def test_nothing_of_a_table_is_left_when_it_is_deleted():
    """TOP-6."""
    client = table()
    publish(client, (b"a", b"1"))
    client.ask(Subscribe(4, "t", credit=10))
    frames = client.ask(Delete(5, "t"))
    assert isinstance(frames[-1], SubscriptionEnded)
    (subscribed,) = client.ask(Subscribe(6, "t", credit=10))
    assert isinstance(subscribed, Subscribed)
    assert subscribed.live == 0


def test_messages_that_are_joined_are_no_more_than_a_batch_may_have():
    """TAB-3: a frame of several batches of one time must not be larger than the largest frame."""
    limits = {"max_message": 2000, "max_batch": 100, "max_frame": 4300}
    client = table(broker_with(**limits))
    for number in range(6):
        publish(client, *[(b"%d" % (number * 100 + n), b"x" * 8) for n in range(100)])
    publish(client, *[(b"large %d" % n, b"x" * 900) for n in range(2)])
    publish(client, *[(b"other %d" % n, b"x" * 900) for n in range(2)])
    everything = Subscribe(
        9, "t", start=Start.EARLIEST, credit=10_000, credit_bytes=2**20, until=604
    )
    _, *frames, _ = client.ask(everything)
    assert sum(frame.batch.count for frame in frames) == 604
    assert max(frame.batch.count for frame in frames) <= 100
    assert max(frame.batch.size for frame in frames) <= 2000
    assert max(len(encode(frame)) for frame in frames) <= 4 + 4300


def test_tombstones_leave_half_of_the_memory_to_other_topics():
    """TAB-5: they cost more than they count for, and no batch of them is refused."""
    broker = broker_with(max_bytes=2 * MIB)
    client = table(broker, max_bytes=64 * MIB)
    for number in range(20):
        deleted = [(b"%d" % (number * 1000 + n), b"") for n in range(1000)]
        assert isinstance(publish(client, *deleted), Published)
    assert broker.registry.budget.limit >= MIB
    rows = kept(client)
    check_rows(rows)
    assert rows.evicted
    assert rows.deleted_below == next(iter(rows.tombstones))
    stored = client.ask(Publish(4, "other", Batch.of([(b"", b"x")])))[0]
    assert isinstance(stored, Published)


def test_tombstones_whose_time_is_over_go_as_fast_as_others_come():
    """TAB-5: a sweep drops only some of them at once."""
    client = table(tombstones_ms=1)
    clock = client.broker.clock
    for number in range(10):
        publish(client, *[(b"%d" % (number * 1000 + n), b"") for n in range(1000)])
        clock.move_to(clock.now_us() + SECOND_US)
        client.broker.registry.find("t").sweep(clock.now_us())
        publish(client, *[(b"other %d" % (number * 1000 + n), b"") for n in range(1000)])
    rows = kept(client)
    check_rows(rows)
    assert (len(rows.tombstones), rows.evicted) == (1000, 0)


def test_updates_that_take_more_memory_for_a_while_make_no_other_batch_too_large():
    """TAB-1, RET-10: what is superseded takes memory beyond the half, until it is freed."""
    broker = broker_with(max_bytes=2 * MIB)
    client = table(broker, capacity=1000, max_bytes=64 * MIB)
    keys = [b"%d" % number for number in range(98)]
    for key in keys:
        assert isinstance(publish(client, (key, bytes(9_000))), Published)
    parts = kept(client)._parts
    for _ in range(3):
        for part in list(parts):
            live = [part.key(row) for row in range(len(part.alive)) if part.alive[row]]
            spare = len(part.alive) // 2 - (len(part.alive) - len(live))
            for key in live[: max(spare, 0)]:
                assert isinstance(publish(client, (key, bytes(9_000))), Published)
    assert broker.registry.budget.limit < MIB // 2
    large = Publish(4, "other", Batch.of([(b"", bytes(MIB // 2))]))
    assert isinstance(client.ask(large)[0], Published)
