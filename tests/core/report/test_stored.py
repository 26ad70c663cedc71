"""What became of a message in its topic."""

import pytest
from asking import first, made, seen
from conversation import Conversation, batch, broker_with
from fake_log import Durably, FakeLogs, durable_broker

from zaichik.core.decisions import MOVES
from zaichik_protocol import FOREVER, Overflow, Publish, Subscribe

SECOND_MS, SECOND_US = 1_000, 1_000_000
SMALL = batch(b"x")


@pytest.fixture
def client():
    return Conversation(broker_with())


def publish(client, count=1, topic="t", message=b"x"):
    for _ in range(count):
        client.ask(Publish(0, topic, batch(message)))


def test_a_message_that_can_be_read(client):
    """RET-2."""
    made(client, RETENTION_TTL_MS=SECOND_MS)
    publish(client)
    assert seen(first(client, offset=0), "accepted_us", "expires_us") == (
        "readable",
        "RET-2",
        1_000,
        1_001_000,
    )


def test_a_message_in_a_topic_without_retention(client):
    """RET-1: it is there, and somebody who comes now does not get it."""
    made(client)
    publish(client)
    verdict = first(client, offset=0)
    assert seen(verdict, "expires_us") == ("readable", "RET-1", None)
    assert "does not get it" in verdict["text"]


def test_an_offset_that_no_message_has_had(client):
    """PUB-2."""
    made(client)
    assert seen(first(client, offset=0), "next_offset") == ("never_seen", "PUB-2", 0)
    publish(client, 3)
    assert seen(first(client, offset=3), "next_offset") == ("never_seen", "PUB-2", 3)
    assert seen(first(client, offset=2**64 - 1), "next_offset") == ("never_seen", "PUB-2", 3)


def test_a_message_that_has_expired(client):
    """RET-5: to the microsecond, though no sweep has come."""
    made(client, RETENTION_TTL_MS=SECOND_MS)
    publish(client)
    client.broker.clock.move_to(1_000 + SECOND_US - 1)
    assert first(client, offset=0)["fate"] == "readable"
    client.broker.clock.move_to(1_000 + SECOND_US)
    assert seen(first(client, offset=0), "retention_ttl_ms") == ("expired", "RET-5", SECOND_MS)


def test_time_that_has_not_passed_makes_no_message_expire(client):
    """DUR-8: the machine's clock was set, and both answers say so."""
    made(client, RETENTION_TTL_MS=SECOND_MS)
    publish(client)
    jumped_us = 400 * SECOND_US
    at_us = 2_000 + jumped_us
    client.broker.registry.find("t").jumps = ((at_us, jumped_us),)
    client.broker.clock.move_to(1_000 + jumped_us + SECOND_US - 1)
    verdict = first(client, offset=0)
    expected = ("readable", "RET-2", 1_000 + jumped_us + SECOND_US, jumped_us)
    assert seen(verdict, "expires_us", "clock_jumped_us") == expected
    assert "was set forward by 6.7 minutes, which does not count" in verdict["text"]
    publish(client)
    assert "clock" not in first(client, offset=1)["text"]
    client.broker.clock.move_to(1_000 + jumped_us + SECOND_US)
    verdict = first(client, offset=0)
    assert seen(verdict, "clock_jumped_us") == ("expired", "RET-5", jumped_us)
    assert "set forward by 6.7 minutes before the start" in verdict["text"]


def test_a_message_that_every_subscription_has_passed(client):
    """RET-1."""
    made(client)
    client.ask(Subscribe(3, "t"))
    publish(client)
    client.broker.sweep()
    assert seen(first(client, offset=0), "head") == ("expired", "RET-1", 1)


def test_a_message_that_was_evicted_for_capacity(client):
    """RET-6: by which message, and when."""
    made(client, RETENTION_TTL_MS=FOREVER, CAPACITY=3)
    publish(client, 3)
    client.broker.clock.advance(1)
    publish(client, 2)
    verdict = first(client, offset=1)
    assert seen(verdict, "by_offset", "evicted_us", "capacity") == (
        "evicted",
        "RET-6",
        4,
        1_001_000,
        3,
    )
    assert "offset 4" in verdict["text"]
    assert "a larger capacity when" in verdict["next"]


def test_when_it_was_evicted_is_left_out_if_that_is_gone_too(client):
    made(client, RETENTION_TTL_MS=FOREVER, CAPACITY=3)
    publish(client, 9)
    found = [seen(first(client, offset=offset), "by_offset", "evicted_us") for offset in (2, 3)]
    assert found == [("evicted", "RET-6", 5, None), ("evicted", "RET-6", 6, 1_000)]


def test_a_message_that_was_evicted_for_bytes(client):
    """RET-6."""
    size = 2 * len(SMALL.data)
    made(client, RETENTION_TTL_MS=FOREVER, MAX_BYTES=size)
    publish(client, 3)
    verdict = first(client, offset=0)
    assert seen(verdict, "max_bytes", "by_offset") == ("evicted", "RET-6", size, None)
    assert "a larger max_bytes when" in verdict["next"]


@pytest.mark.parametrize(
    ("overflow", "advice"),
    [
        (Overflow.EVICT, "let nothing go that a reader needs"),
        (Overflow.REJECT, "No subscription needed it"),
    ],
)
def test_a_topic_that_lets_nothing_go_that_is_needed_is_not_advised_to_become_one(
    client, overflow, advice
):
    """RET-9: what it has evicted, no reader needed."""
    made(client, RETENTION_TTL_MS=FOREVER, CAPACITY=1, OVERFLOW=overflow)
    publish(client, 2)
    assert advice in first(client, offset=0)["next"]


@pytest.mark.parametrize(
    ("publisher", "pressure"), [("t", "this topic"), ("other", "another topic")]
)
def test_a_message_that_was_evicted_for_the_broker_s_memory(publisher, pressure):
    """RET-10: at a publish to this topic, or to another one."""
    client = Conversation(broker_with(max_bytes=20_000))
    made(client, RETENTION_TTL_MS=FOREVER)
    publish(client, 5, message=b"x" * 2_000)
    publish(client, 4, publisher, b"x" * 2_000)
    verdict = first(client, offset=0)
    assert seen(verdict, "pressure", "max_bytes") == ("evicted", "RET-10", pressure, 20_000)


def test_each_cause_is_known_from_where_it_began(client):
    """EXP-2: capacity, then retention, then capacity."""
    made(client, RETENTION_TTL_MS=SECOND_MS, CAPACITY=2)
    publish(client, 4)
    client.broker.clock.advance(1)
    publish(client, 3)
    rules = [first(client, offset=offset)["rule"] for offset in range(7)]
    assert rules == ["RET-6", "RET-6", "RET-5", "RET-5", "RET-6", "RET-2", "RET-2"]
    assert first(client, offset=0)["evidence"]["before_us"] == 1_000
    assert first(client, offset=4)["evidence"]["after_us"] == 1_001_000


def test_a_cause_is_forgotten_after_so_many_others(client):
    """EXP-2."""
    made(client, RETENTION_TTL_MS=SECOND_MS, CAPACITY=1)
    publish(client, 1)
    for _ in range(MOVES // 2):
        publish(client)  # evicts one ...
        client.broker.clock.advance(1)  # ... and one expires
        publish(client)
    assert [first(client, offset=offset)["fate"] for offset in (0, 1)] == ["evicted", "expired"]
    publish(client)
    verdict = first(client, offset=0)
    assert seen(verdict, "known_from") == ("unknown", "EXP-2", 1)
    assert first(client, offset=1)["fate"] == "expired"


# -- durable topics ------------------------------------------------------------------------------


def durable(**settings):
    client = Durably()
    client.create(**settings)
    return client


def test_a_message_that_waits_for_the_disk():
    """DUR-1."""
    client = durable()
    client.publish(0, b"x")
    assert seen(first(client, offset=0), "next_offset", "waiting_bytes") == (
        "waits_for_disk", "DUR-1", 0, len(SMALL.data),
    )  # fmt: skip
    assert first(client, offset=1)["fate"] == "never_seen"
    client.log.sync()
    client.heard()
    assert first(client, offset=0)["fate"] == "readable"


def test_a_message_that_is_only_on_the_disk():
    """DUR-4."""
    client = durable(CAPACITY=1)
    client.filled(b"x", b"y")
    assert seen(first(client, offset=0), "accepted_us") == ("readable", "DUR-4", None)
    assert first(client, offset=1)["rule"] == "RET-2"


@pytest.mark.parametrize(
    ("settings", "is_known"), [({}, True), ({"RETENTION_TTL_MS": 8 * SECOND_MS}, False)]
)
def test_whether_a_message_that_is_only_on_the_disk_has_expired_is_not_guessed(settings, is_known):
    """DUR-4: the one before the one that is in memory may have been accepted long before that."""
    client = durable(CAPACITY=1, **settings)
    client.filled(b"x", b"y")
    text = first(client, offset=0)["text"]
    assert text.startswith("it is on the disk, and can be read")
    assert text.endswith("can be read") is is_known


def test_a_message_whose_file_was_removed():
    """DUR-4."""
    client = durable(LOG_BYTES=1 << 20)
    client.filled(*[b"x"] * 4)
    client.log.remove_files(2)
    assert seen(first(client, offset=1), "log_bytes", "log_size", "head") == (
        "evicted",
        "DUR-4",
        1 << 20,
        client.log.size,
        2,
    )
    assert client.log.size == 2 * (100 + len(SMALL.data))
    assert first(client, offset=2)["fate"] == "readable"


def test_a_message_whose_file_was_removed_for_the_limit_of_all_logs():
    """DUR-9, EXP-2: it is no use to give the topic a larger log; of what goes at once, some may go
    for either limit.
    """
    client = Durably(durable_broker(FakeLogs(), max_disk_bytes=5_000))
    client.create()
    client.filled(*[b"x"] * 12)
    client.log.remove_files(2, own=0)
    verdict = first(client, offset=1)
    assert seen(verdict, "max_disk_bytes", "log_bytes") == ("evicted", "DUR-9", 5_000, None)
    assert "max_disk_bytes" in verdict["next"]
    client.log.remove_files(8, own=4)
    client.log.remove_files(10, own=8)
    rules = [first(client, offset=offset)["rule"] for offset in range(12)]
    assert rules == ["DUR-9"] * 2 + ["DUR-4"] * 2 + ["DUR-9"] * 6 + ["RET-2"] * 2
    assert client.topic.retained.evicted == 10


def test_messages_of_a_log_that_have_expired():
    """RET-5: those whose files stay, as far as memory knows when they were accepted; and those that
    are gone.
    """
    client = durable(RETENTION_TTL_MS=8 * SECOND_MS, CAPACITY=1)
    for _ in range(6):
        client.filled(b"x")
        client.pass_time(1)
    client.pass_time(6)
    assert first(client, offset=1)["fate"] == "expired"
    assert first(client, offset=1)["rule"] == "RET-5"
    assert [first(client, offset=offset)["fate"] for offset in (3, 4)] == ["expired", "readable"]
    client.broker.sweep()
    assert first(client, offset=0)["fate"] == "expired"


def test_what_went_before_the_broker_was_started_is_not_known():
    """EXP-2."""
    client = durable()
    client.filled(b"x", b"y", b"z")
    client.topic.retained._head = 2  # as a start finds it
    assert seen(first(client, offset=1), "known_from") == ("unknown", "EXP-2", 2)


def test_a_message_that_a_repair_has_given_up():
    """DUR-7."""
    client = durable()
    client.filled(*[b"x"] * 5)
    client.topic.retained.lost = ((1, 3),)
    assert seen(first(client, offset=2), "next") == ("damaged", "DUR-7", 3)
    assert first(client, offset=3)["fate"] == "readable"


def test_the_end_of_a_damaged_log_is_not_known():
    """DUR-7."""
    client = durable()
    client.filled(b"x")
    client.log.damage = "bad bytes at 17"
    verdict = first(client, offset=1)
    assert seen(verdict, "next_offset") == ("unknown", "DUR-7", 1)
    assert "bad bytes at 17" in verdict["text"]
