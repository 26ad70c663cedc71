"""The judge of histories, on histories made by hand."""

import pytest

from zaichik.learn import history
from zaichik.learn.history import (
    Delivered,
    Drained,
    Lagged,
    Published,
    Subscribed,
    TopicMade,
    check,
    describe,
)

TOPIC = TopicMade(0.0, "t", None, 10)


def published(at, *payloads, first=0, sent=None, dropped=(), topic="t"):
    return Published(
        at,
        at - 0.1 if sent is None else sent,
        "publisher 1",
        topic,
        payloads,
        first,
        frozenset(dropped),
    )


def subscribed(at=1.0, start=0, session="reader 1", topic="t"):
    return Subscribed(at, at - 0.1, session, topic, start)


def got(at, offset, payload, session="reader 1", not_before=0.0):
    return Delivered(at, session, offset, payload, not_before)


def found(*events, topic=TOPIC):
    anomaly = check([topic, *events])
    return anomaly and anomaly.name


GOOD = [
    published(0.5, b"a", b"b"),
    subscribed(),
    got(1.1, 0, b"a"),
    got(1.2, 1, b"b"),
    Drained(2.0, "reader 1", 2),
]


def test_a_history_without_a_fault_has_no_anomaly():
    assert found(*GOOD) is None
    assert found() is None


@pytest.mark.parametrize("missing", range(2))
def test_a_message_that_never_came_is_lost(missing):
    events = [
        event for event in GOOD if not (isinstance(event, Delivered) and event.offset >= missing)
    ]
    assert found(*events) == history.LOST


def test_the_proof_of_a_loss_shows_who_was_told_that_it_is_stored():
    events = [TOPIC, GOOD[0], GOOD[1], GOOD[2], GOOD[4]]
    anomaly = check(events)
    assert anomaly.proof == (GOOD[0], GOOD[2], GOOD[4])
    assert "offset 1 never came" in anomaly.sentence


def test_a_message_of_an_unanswered_publish_may_be_there_or_not():
    unanswered = published(0.6, b"c", b"d", first=None)
    assert found(unanswered, *GOOD) is None
    both = [got(1.3, 2, b"c"), got(1.4, 3, b"d")]
    assert found(unanswered, *GOOD[:4], *both) is None


def test_an_offset_that_comes_twice_is_duplicated():
    again = got(1.3, 1, b"b")
    anomaly = check([TOPIC, *GOOD, again])
    assert (anomaly.name, anomaly.proof) == (history.DUPLICATED, (GOOD[3], again))


def test_a_message_with_two_offsets_is_duplicated():
    unanswered = published(0.6, b"c", first=None)
    assert found(unanswered, *GOOD[:4], got(1.3, 2, b"c"), got(1.4, 3, b"c")) == history.DUPLICATED


def test_an_offset_may_come_to_two_subscriptions():
    other = [
        subscribed(1.5, session="reader 2"),
        got(1.6, 0, b"a", "reader 2"),
        got(1.7, 1, b"b", "reader 2"),
    ]
    assert found(*GOOD, *other) is None


def test_offsets_that_go_back_are_reordered():
    late = [subscribed(start=1), got(1.2, 1, b"b"), got(1.3, 0, b"a")]
    assert found(GOOD[0], *late) == history.REORDERED


def test_readers_that_disagree_about_an_offset_show_a_reordering():
    unanswered = published(0.6, b"c", b"d", first=None)
    one = [subscribed(start=2), got(1.2, 2, b"c"), got(1.3, 3, b"d")]
    other = [
        subscribed(1.4, 2, "reader 2"),
        got(1.5, 2, b"d", "reader 2"),
        got(1.6, 3, b"c", "reader 2"),
    ]
    assert found(GOOD[0], unanswered, *one, *other) == history.REORDERED


def test_a_message_elsewhere_than_its_publisher_was_told_is_reordered():
    swapped = [subscribed(), got(1.1, 0, b"b"), got(1.2, 1, b"a")]
    assert found(GOOD[0], *swapped) == history.REORDERED


def test_two_publishers_at_one_offset_are_reordered():
    assert found(published(0.5, b"a"), published(0.6, b"b")) == history.REORDERED


def test_what_nobody_published_is_invented():
    stranger = got(1.3, 2, b"x")
    anomaly = check([TOPIC, *GOOD[:4], stranger])
    assert (anomaly.name, anomaly.proof) == (history.INVENTED, (stranger,))


def test_what_was_published_to_another_topic_is_invented():
    other = TopicMade(0.0, "u", None, 10)
    assert (
        found(other, published(0.5, b"c", topic="u"), subscribed(), got(1.1, 0, b"c"))
        == history.INVENTED
    )


def test_what_was_compacted_away_is_invented_when_it_comes():
    batch = published(0.5, b"a", b"b", dropped=[1])
    assert found(batch, subscribed(), got(1.1, 0, b"a")) is None
    assert found(batch, subscribed(), got(1.1, 0, b"a"), got(1.2, 1, b"b")) == history.INVENTED


def test_only_what_is_surely_too_old_is_expired():
    brief = TopicMade(0.0, "t", 1.0, 10)
    batch = published(0.5, b"a")
    assert found(batch, subscribed(1.6), got(1.7, 0, b"a", not_before=1.5), topic=brief) is None
    assert (
        found(batch, subscribed(1.7), got(1.8, 0, b"a", not_before=1.6), topic=brief)
        == history.EXPIRED
    )
    assert found(batch, subscribed(1.7), got(9.9, 0, b"a", not_before=0.9), topic=brief) is None


def test_a_jump_without_lag_is_a_silent_gap():
    anomaly = check([TOPIC, GOOD[0], GOOD[1], GOOD[3]])
    assert (anomaly.name, anomaly.proof) == (history.GAP, (GOOD[1], GOOD[3]))
    assert "no message or Lagged for offset 0" in anomaly.sentence


def test_lag_must_begin_where_the_reader_stands():
    small = TopicMade(0.0, "t", None, 1)
    batch = published(0.5, b"a", b"b", b"c")
    assert (
        found(batch, subscribed(), Lagged(1.1, "reader 1", 0, 2), got(1.2, 2, b"c"), topic=small)
        is None
    )
    assert (
        found(batch, subscribed(), Lagged(1.1, "reader 1", 1, 2), got(1.2, 2, b"c"), topic=small)
        == history.GAP
    )
    assert (
        found(batch, subscribed(), Lagged(1.1, "reader 1", 0, 1), got(1.2, 2, b"c"), topic=small)
        == history.GAP
    )


def test_what_a_ring_cannot_have_dropped_is_lost_although_it_is_told():
    small = TopicMade(0.0, "t", None, 2)
    batch = published(0.5, b"a", b"b", b"c")
    assert found(batch, subscribed(), Lagged(1.1, "reader 1", 0, 1), topic=small) is None
    assert found(batch, subscribed(), Lagged(1.1, "reader 1", 0, 2), topic=small) == history.LOST


def test_a_publish_in_flight_may_have_pushed_others_out():
    small = TopicMade(0.0, "t", None, 2)
    late = published(5.0, b"d", b"e", first=3, sent=1.0)
    batch = published(0.5, b"a", b"b", b"c")
    assert found(batch, late, subscribed(), Lagged(1.1, "reader 1", 0, 3), topic=small) is None


def test_of_several_anomalies_the_one_with_the_shortest_proof_is_told():
    anomaly = check([TOPIC, GOOD[0], GOOD[1], GOOD[3], got(1.4, 2, b"x")])
    assert (anomaly.name, len(anomaly.proof)) == (history.INVENTED, 1)


def test_every_event_can_be_read_as_a_line():
    lines = describe(
        [TOPIC, *GOOD, Lagged(1.1, "reader 1", 0, 2), published(0.6, b"c", first=None, dropped=[0])]
    )
    assert lines[0] == "   0.000 s  topic t: retention forever, capacity 10"
    assert lines[1] == "   0.500 s  publisher 1 published a b to t; reply: from offset 0 on"
    assert lines[2] == "   1.000 s  reader 1 subscribed to t from offset 0 on"
    assert lines[3] == "   1.100 s  reader 1 got offset 0: a"
    assert lines[5] == "   2.000 s  nothing more came to reader 1; the topic ended at 2"
    assert lines[6] == "   1.100 s  reader 1 was told that offsets 0 to 1 are gone"
    assert lines[7] == "   0.600 s  publisher 1 published c to t; no reply, dropped 0"
