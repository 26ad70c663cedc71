"""What became of a message at a subscription."""

import pytest
from asking import at_reader, first, made, seen, verdicts
from conversation import Conversation, batch, broker_with
from fake_log import Durably
from test_rights import Somebody, Talk, recheck

from zaichik_protocol import FOREVER, Commit, Delete, Publish, Start, Subscribe, Unsubscribe

SECOND_US = 1_000_000


@pytest.fixture
def client():
    """A topic that keeps its last three messages."""
    client = Conversation(broker_with())
    made(client, RETENTION_TTL_MS=FOREVER, CAPACITY=3)
    return client


def publish(client, count=1, topic="t"):
    for _ in range(count):
        client.ask(Publish(0, topic, batch(b"x")))


def test_a_message_that_was_settled(client):
    """CMT-2."""
    client.ask(Subscribe(3, "t", credit=5))
    publish(client, 2)
    client.ask(Commit(0, 3, 1))
    assert seen(at_reader(client, offset=0), "committed") == ("settled", "CMT-2", 1)


def test_a_message_in_flight_with_whom_and_since_when(client):
    """CMT-1."""
    client.ask(Subscribe(3, "t", name="billing", credit=5))
    client.broker.clock.advance(1)
    publish(client, 2)
    verdict = at_reader(client, offset=1)
    assert seen(verdict, "sent_us", "committed", "cursor", "in_flight") == (
        "in_flight",
        "CMT-1",
        1_001_000,
        0,
        2,
        2,
    )
    assert verdict["evidence"]["subscription"] == "1.3"
    assert (verdict["evidence"]["client"], verdict["evidence"]["name"]) == ("somebody", "billing")


def test_a_message_in_flight_was_sent_when_its_own_frame_was(client):
    """EXP-3: not when the first one in flight was."""
    client.ask(Subscribe(3, "t", credit=5))
    for _ in range(3):
        publish(client)
        client.broker.clock.advance(1)
    sent_us = [
        at_reader(client, offset=offset)["evidence"]["sent_us"] - 1_000 for offset in range(3)
    ]
    assert sent_us == [0, SECOND_US, 2 * SECOND_US]


def test_of_a_message_long_in_flight_only_a_bound_of_the_time_is_known(client):
    """EXP-3."""
    client.ask(Subscribe(3, "t", credit=100))
    for _ in range(10):
        publish(client)
        client.broker.clock.advance(1)
    evidence = verdicts(client, offset=1)[1]["evidence"]
    assert (evidence.get("sent_us"), evidence["sent_before_us"]) == (None, 1_000 + 2 * SECOND_US)
    assert verdicts(client, offset=2)[1]["evidence"]["sent_us"] == 1_000 + 2 * SECOND_US


def test_a_message_that_was_skipped(client):
    """LAG-1: gone in the topic, and reported to the reader."""
    client.ask(Subscribe(3, "t", credit=1))
    publish(client, 6)
    client.broker.clock.advance(1)
    client.ask(Commit(0, 3, 1))
    gone, skipped = verdicts(client, offset=2)
    assert gone["rule"] == "RET-6"
    assert seen(skipped, "from", "to", "at_us") == ("skipped", "LAG-1", 1, 3, 1_001_000)
    assert verdicts(client, offset=0)[1]["fate"] == "settled"
    assert at_reader(client, offset=3)["fate"] == "in_flight"


def test_too_many_gaps_ago_it_is_not_known_whether_it_was_skipped(client):
    """EXP-3."""
    client.ask(Subscribe(3, "t", credit=1))
    publish(client)
    for _ in range(9):
        publish(client, 4)
        (_, frame) = client.ask(Commit(0, 3, client.manager.readers[3].cursor))
        assert frame.batch.count == 1
    assert seen(verdicts(client, offset=1)[1], "known_from") == ("unknown", "EXP-3", 3)
    assert [verdicts(client, offset=offset)[1]["fate"] for offset in (2, 3, 6)] == [
        "unknown",
        "skipped",
        "settled",
    ]


def test_a_gap_that_was_not_reported_yet(client):
    """LAG-1: without free credit."""
    client.ask(Subscribe(3, "t", credit=1))
    publish(client, 6)
    assert seen(verdicts(client, offset=2)[1], "cursor", "head") == ("lost_ahead", "LAG-1", 1, 3)


def test_a_message_below_the_start(client):
    """RET-4."""
    publish(client, 3)
    client.ask(Subscribe(3, "t", start=Start.LATEST))
    assert seen(at_reader(client, offset=2), "start") == ("below_start", "RET-4", 3)


def test_a_message_below_the_position_that_a_name_has_resumed(client):
    """CMT-3."""
    client.ask(Subscribe(3, "t", "n", credit=5))
    publish(client, 2)
    client.ask(Commit(0, 3, 1), Unsubscribe(0, 3), Subscribe(4, "t", "n", credit=5))
    assert seen(at_reader(client, offset=0), "start") == ("below_start", "CMT-3", 1)
    assert at_reader(client, offset=1)["fate"] == "in_flight"


def test_a_message_from_until_on(client):
    """RET-4."""
    client.ask(Subscribe(3, "t", until=1, credit=5))
    publish(client, 2)
    assert seen(at_reader(client, offset=1), "until") == ("beyond_until", "RET-4", 1)
    assert at_reader(client, offset=0)["fate"] == "in_flight"


def test_a_message_after_the_name_was_taken_over(client):
    """CMT-3."""
    client.ask(Subscribe(3, "t", "n", credit=5))
    other = Conversation(client.broker)
    other.ask(Subscribe(3, "t", "n", credit=5))
    publish(client)
    other.heard()
    mine, its = verdicts(client, offset=0)[1:]
    assert seen(mine, "cursor", "subscription") == ("ended", "CMT-3", 0, "1.3")
    assert "took over" in mine["text"]
    assert seen(its, "subscription") == ("in_flight", "CMT-1", "2.3")


def test_a_message_after_the_right_to_read_was_withdrawn():
    """ACC-4: of a subscription, and of a name whose reader was ended."""
    broker = broker_with()
    ana, root = Somebody("ana", ("subscribe", "t"), ("create", "t")), Conversation(broker)
    client = Talk(broker, ana)
    client.ask(Subscribe(3, "t", "n", credit=5))
    ana.rights.discard(("subscribe", "t"))
    broker.waive(lambda user, topic: ana.may("subscribe", topic))
    recheck(broker, rights=True)
    root.ask(Publish(0, "t", batch(b"x")))
    live, name = verdicts(root, offset=0)[1:]
    assert seen(live, "user") == ("ended", "ACC-4", "ana")
    assert seen(name, "name", "user") == ("ended", "ACC-4", "n", "ana")


def test_a_message_after_damage():
    """DUR-7."""
    client = Durably()
    client.create(CAPACITY=1)
    client.filled(*[b"x"] * 3)
    client.log.bad = (0,)
    client.ask(Subscribe(3, "t", credit=5))
    assert at_reader(client, offset=0)["fate"] == "waits_for_disk"
    client.log.read()
    client.heard()
    assert seen(at_reader(client, offset=0), "cursor") == ("ended", "DUR-7", 0)


def test_a_reader_of_a_deleted_topic_of_that_name_is_none_of_the_new_one(client):
    """TOP-6."""
    client.ask(Subscribe(3, "t"), Delete(4, "t"))
    made(client, RETENTION_TTL_MS=FOREVER)
    publish(client)
    assert at_reader(client, offset=0)["fate"] == "no_reader"


def test_a_message_for_a_name_whose_reader_is_away(client):
    """CMT-3: settled; delivered before; new; and the time for which the name is kept."""
    client.ask(Subscribe(3, "t", "n", credit=2))
    publish(client, 3)
    client.ask(Commit(0, 3, 1), Unsubscribe(0, 3))
    client.broker.sweep()
    client.broker.clock.advance(20)
    found = [at_reader(client, offset=offset) for offset in range(3)]
    assert [seen(it, "kept_s", "name", "committed") for it in found] == [
        ("settled", "CMT-3", None, "n", 1),
        ("waits_for_reader", "CMT-3", 40, "n", 1),
        ("waits_for_reader", "CMT-3", 40, "n", 1),
    ]
    assert "delivered and not settled" in found[1]["text"]
    publish(client, 2)
    gone, lost = verdicts(client, offset=1)
    assert (gone["fate"], seen(lost, "name")) == ("evicted", ("lost_ahead", "LAG-1", "n"))


def test_a_name_whose_time_is_up_is_kept_for_no_more_seconds(client):
    """CMT-3: until the next sweep forgets it."""
    client.broker.clock.advance(1_000)
    client.ask(Subscribe(3, "t", "n", credit=2))
    publish(client)
    client.ask(Unsubscribe(0, 3))
    client.broker.sweep()
    client.broker.clock.advance(20)
    assert at_reader(client, offset=0)["evidence"]["kept_s"] == 40
    client.broker.clock.advance(41)
    assert seen(at_reader(client, offset=0), "kept_s") == ("waits_for_reader", "CMT-3", 0)


@pytest.mark.parametrize(
    ("settings", "rule", "advice"),
    [
        (
            {},
            "RET-1",
            (
                "Subscribe, or publish it again: without retention, a new subscription begins "
                "with the next message."
            ),
        ),
        ({"RETENTION_TTL_MS": FOREVER}, "RET-4", "Subscribe."),
    ],
)
def test_a_message_that_nobody_reads(settings, rule, advice):
    """RET-1, RET-4: what is kept need not be published again."""
    client = Conversation(broker_with())
    made(client, **settings)
    publish(client)
    verdict = at_reader(client, offset=0)
    assert seen(verdict) == ("no_reader", rule)
    assert verdict["next"] == advice


def test_nobody_is_asked_about_a_message_that_never_was(client):
    client.ask(Subscribe(3, "t"))
    assert first(client, offset=0)["fate"] == "never_seen"
    assert len(verdicts(client, offset=0)) == 1
