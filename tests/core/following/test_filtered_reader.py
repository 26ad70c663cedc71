"""A user follows topics: what it is sent, what it passes, and that others get their turns."""

import json

import pytest
from conversation import broker_with
from followed import Following, later, records
from test_rights import Somebody

from zaichik.core.following.filtered_reader import EXAMINED
from zaichik.core.rights import TOPICS
from zaichik_protocol import (
    Commit,
    CreateTopic,
    Delete,
    DeletionsMissed,
    Describe,
    Described,
    EndCode,
    ErrorCode,
    Explain,
    Kind,
    Start,
    Subscribe,
    SubscriptionEnded,
)


def user_of(broker, *readable, name="ana"):
    """A client of a user who may subscribe to these topics."""
    return Following(broker, Somebody(name, *(("subscribe", topic) for topic in readable)))


def make(broker, *names):
    operator = Following(broker)
    for name in names:
        operator.ask(CreateTopic(operator.next_id(), name))
    return operator


def change_rights(broker):
    """What a server does when rights may have changed."""
    broker.waive(lambda user, topic: True)
    for manager in list(broker.managers.values()):
        manager.recheck(broker.clock.now_us(), rights=True)


def row(client, reader):
    (page,) = client.ask(Describe(client.next_id(), Kind.SUBSCRIPTIONS))
    rows = json.loads(page.json)["subscriptions"]
    return next(it for it in rows if it["name"] == reader.name)


# -- what it is sent -----------------------------------------------------------------------------


def test_a_user_is_sent_the_records_of_topics_that_it_may_read():
    """PAT-5: the others are holes, and the laws hold for them."""
    broker = broker_with()
    make(broker, "a", "secret", "b", "secret too")
    ana = user_of(broker, "a", "b")
    subscribed, events = ana.follow()
    assert records(events) == [(0, "a", 0, False), (2, "b", 0, False)]
    assert [event.holes for event in events] == [True]
    reader = ana.manager.readers[subscribed.id]
    assert (reader.cursor, reader.delivered, reader.passed, reader.ahead) == (4, 2, 2, 0)
    assert row(ana, reader)["left_over"] == {
        "next_offset - start - delivered - skipped - passed - ahead": 0
    }
    make(broker, "secret three")
    assert ana.heard() == []
    assert (reader.cursor, reader.passed) == (5, 3)


def test_a_user_needs_no_right_to_follow_and_without_any_sees_nothing():
    """PAT-5."""
    broker = broker_with()
    make(broker, "secret")
    ana = user_of(broker)
    subscribed, events = ana.follow()
    assert events == []
    reader = ana.manager.readers[subscribed.id]
    assert (reader.cursor, reader.in_flight) == (1, 0)


def test_a_journal_of_such_a_name_needs_a_right():
    """ACC-2."""
    ana = user_of(broker_with())
    (refused,) = ana.ask(Subscribe(ana.next_id(), f"$journal/{TOPICS}"))
    assert refused.code == ErrorCode.FORBIDDEN


def test_hidden_records_within_a_frame_are_left_out_and_those_at_its_end():
    """PAT-5."""
    broker = broker_with()
    make(broker, "a", "b", "x", "c", "y", "z")
    _, events = user_of(broker, "a", "b", "c").follow()
    (messages,) = events
    assert (messages.base, messages.deltas) == (0, (0, 1, 3))
    _, events = user_of(broker, "a", "b").follow()
    (messages,) = events
    assert (messages.deltas, messages.holes) == ((), False)
    _, events = user_of(broker, "x").follow()
    (messages,) = events
    assert (messages.base, messages.deltas) == (2, ())


def test_hidden_records_cost_no_credit():
    """PAT-5, TAB-2."""
    broker = broker_with()
    make(broker, "a", "x", "y", "b", "z", "c")
    ana = user_of(broker, "a", "b", "c")
    subscribed, events = ana.follow(credit=2)
    assert records(events) == [(0, "a", 0, False), (3, "b", 0, False)]
    events = ana.ask(Commit(0, subscribed.id, 4))
    assert records(events) == [(5, "c", 0, False)]


def test_a_subscription_ends_at_its_until_among_hidden_records():
    """RET-4."""
    broker = broker_with()
    make(broker, "a", "x", "y", "z")
    ana = user_of(broker, "a")
    _, events = ana.follow(until=3)
    assert records(events[:1]) == [(0, "a", 0, False)]
    assert events[1].code == EndCode.UNTIL
    assert events[1].next == 3


def test_rights_count_when_a_record_is_read():
    """PAT-5."""
    broker = broker_with()
    operator = make(broker, "a", "b")
    ana = user_of(broker, "a", "b")
    subscribed, _ = ana.follow(credit=1)
    ana.manager.user.rights.remove(("subscribe", "b"))
    assert ana.ask(Commit(0, subscribed.id, 1)) == []
    operator.ask(Delete(operator.next_id(), "b"))
    assert ana.heard() == []


def test_a_broker_without_users_hides_nothing():
    broker = broker_with()
    make(broker, "a")
    assert records(Following(broker).follow()[1]) == [(0, "a", 0, False)]


# -- turns ---------------------------------------------------------------------------------------


def test_thousands_of_hidden_records_are_passed_a_part_at_a_time():
    """LAG-4: others get their turns, and what comes after them is found."""
    broker = broker_with()
    operator = make(broker, *(f"x{number}" for number in range(10 * EXAMINED)), "a")
    operator.follow()
    ana = user_of(broker, "a")
    ana.tell(Subscribe(ana.next_id(), TOPICS, credit=10))
    _, *events = ana.turn()
    reader = next(iter(ana.manager.readers.values()))
    assert events == []
    assert 0 < reader.cursor <= 8 * EXAMINED
    assert ana.manager.has_output
    assert len(ana.manager.user.asked) <= 8 * EXAMINED
    assert records(ana.heard()) == [(10 * EXAMINED, "a", 0, False)]
    assert not ana.manager.has_output
    operator.ask(Delete(operator.next_id(), "a"))
    assert records(ana.heard()) == [(10 * EXAMINED + 1, "a", 0, True)]


def test_without_credit_no_record_is_examined():
    """LAG-1: as lag is not reported either."""
    broker = broker_with()
    operator = make(broker, "a")
    ana = user_of(broker, "a")
    subscribed, _ = ana.follow(credit=1)
    asked = len(ana.manager.user.asked)
    operator.ask(CreateTopic(operator.next_id(), "x"))
    assert ana.heard() == []
    assert len(ana.manager.user.asked) == asked
    assert ana.manager.readers[subscribed.id].cursor == 1


# -- when rights change --------------------------------------------------------------------------


def test_when_rights_change_everybody_begins_again_with_another_epoch():
    """PAT-5: nobody knows which holes a reader should have been sent."""
    broker = broker_with()
    operator = make(broker, "a", "b")
    operator.follow()
    ana = user_of(broker, "a")
    before, events = ana.follow()
    assert records(events) == [(0, "a", 0, False)]
    ana.manager.user.rights.add(("subscribe", "b"))
    change_rights(broker)
    for client in (ana, operator):
        (ended,) = client.heard()
        assert (type(ended), ended.code) == (SubscriptionEnded, EndCode.DELETED)
    assert broker.registry.find(TOPICS) is None
    (refused,) = ana.ask(Subscribe(ana.next_id(), TOPICS, epoch=before.epoch))
    assert refused.code == ErrorCode.EPOCH_CHANGED
    after, events = ana.follow()
    assert after.epoch > before.epoch
    assert records(events) == [(0, "a", 0, False), (1, "b", 0, False)]


def test_when_rights_change_and_nobody_follows_nothing_happens():
    broker = broker_with()
    change_rights(broker)
    assert broker.registry.find(TOPICS) is None


def test_new_topics_wait_for_those_who_begin_again():
    """PAT-3, PAT-5."""
    broker = broker_with()
    operator = make(broker)
    operator.follow()
    later(broker, 1)
    change_rights(broker)
    operator.ask(CreateTopic(operator.next_id(), "unseen"))
    operator.heard()
    operator.follow()
    operator.ask(CreateTopic(operator.next_id(), "new"))
    now_us = broker.clock.now_us()
    assert broker.registry.find("new").held_until_us > now_us


def test_a_follower_without_a_right_is_not_ended_by_a_check_of_rights():
    """ACC-4 is about topics that are read by right."""
    broker = broker_with()
    ana = user_of(broker)
    ana.follow()
    for manager in broker.managers.values():
        manager.recheck(broker.clock.now_us(), rights=True)
    assert ana.heard() == []


def test_missed_deletions_are_told_without_names():
    """PAT-1, PAT-5."""
    broker = broker_with(max_topics=3)
    operator = make(broker, "a", "x")
    ana = user_of(broker, "a")
    subscribed, _ = ana.follow(start=Start.OFFSET, value=0, credit=1)
    for name in ("b", "c", "d", "e"):
        operator.ask(CreateTopic(operator.next_id(), name))
        operator.ask(Delete(operator.next_id(), name))
    table = broker.registry.find(TOPICS).retained
    assert table.evicted == 1
    events = ana.ask(Commit(0, subscribed.id, 1))
    assert events == [DeletionsMissed(subscribed.id, table.deleted_below)]


# -- what is reported ----------------------------------------------------------------------------


def test_it_is_described_to_those_who_may_know_of_all_topics():
    """PAT-5: and to no others."""
    broker = broker_with()
    make(broker, "a")
    ana = user_of(broker)
    ana.follow()
    ask = Describe(ana.next_id(), Kind.TOPICS, limit=8)
    (page,) = ana.ask(ask)
    assert isinstance(page, Described)
    assert json.loads(page.json)["topics"] == []
    ana.manager.user.rights.add(("describe", TOPICS))
    (page,) = ana.ask(ask)
    (row,) = json.loads(page.json)["topics"]
    assert (row["name"], row["keys"], row["gone"], row["explicit"]) == (TOPICS, 1, 0, True)
    assert set(row["left_over"].values()) == {0}
    operator = Following(broker)
    operator.ask(Delete(operator.next_id(), "a"))
    (page,) = ana.ask(ask)[-1:]
    (row,) = json.loads(page.json)["topics"]
    assert (row["keys"], row["gone"], row["superseded"]) == (1, 1, 1)


@pytest.mark.parametrize("rights", [(), (("describe", TOPICS),)], ids=["no right", "describe"])
def test_it_is_explained_to_those_who_may_know_of_all_topics(rights):
    """PAT-5: a reader's hidden record was not for it."""
    broker = broker_with()
    make(broker, "a", "x")
    ana = Following(broker, Somebody("ana", ("subscribe", "a"), *rights))
    ana.follow()
    answers = [ana.ask(Explain(ana.next_id(), TOPICS, offset=offset)) for offset in (0, 1)]
    if not rights:
        assert [answer.code for (answer,) in answers] == [ErrorCode.NO_SUCH_TOPIC] * 2
        return
    fates = []
    for (answer,) in answers:
        fates.append([verdict["fate"] for verdict in json.loads(answer.json)["verdicts"]])
    assert fates == [["readable", "in_flight"], ["readable", "not_for_it"]]
