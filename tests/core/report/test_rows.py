"""What is told of a topic, of its readers, and of a connection, beside what their conservation laws
count.
"""

import json

import pytest
from conversation import Conversation, batch, broker_with
from fake_log import Durably

from zaichik.core.report.describe import describe
from zaichik.core.rights import ANYBODY
from zaichik_protocol import (
    FOREVER,
    Commit,
    CreateTopic,
    Describe,
    ErrorCode,
    Hello,
    Kind,
    Overflow,
    Publish,
    Setting,
    Subscribe,
    Unsubscribe,
)

KEPT = ((Setting.RETENTION_TTL_MS, FOREVER),)
LOG = 1024 * 1024
FULL = ((Setting.CAPACITY, 2), (Setting.OVERFLOW, Overflow.REJECT))


@pytest.fixture
def client():
    return Conversation(broker_with())


def page(broker, kind, prefix=""):
    return json.loads(
        describe(broker, Describe(1, kind, prefix), ANYBODY, broker.clock.now_us())[1]
    )


def topic(broker, name="t"):
    (row,) = page(broker, Kind.TOPICS, name)["topics"]
    return row


def readers(broker, name="t"):
    return page(broker, Kind.SUBSCRIPTIONS, f"{name}#")["subscriptions"]


def fill(client, *times):
    """A message at each of these milliseconds."""
    client.ask(CreateTopic(0, "t", KEPT))
    for at_ms in times:
        client.broker.clock.move_to(1_000 * at_ms)
        client.ask(Publish(0, "t", batch(b"x")))


# -- a topic -------------------------------------------------------------------------------------


def test_a_topic_tells_when_its_oldest_and_its_newest_message_were_accepted(client):
    client.ask(CreateTopic(0, "t", ((Setting.RETENTION_TTL_MS, 10),)))
    assert (topic(client.broker)["head_us"], topic(client.broker)["last_us"]) == (None, None)
    fill(client, 2, 5, 9)
    assert (topic(client.broker)["head_us"], topic(client.broker)["last_us"]) == (2_000, 9_000)
    client.broker.clock.move_to(12_000)  # no sweep: what has expired is not told of
    assert (topic(client.broker)["head_us"], topic(client.broker)["last_us"]) == (5_000, 9_000)
    client.broker.clock.move_to(19_000)
    assert (topic(client.broker)["head_us"], topic(client.broker)["last_us"]) == (None, None)


def test_a_head_inside_a_batch_has_the_time_of_that_batch(client):
    client.ask(
        CreateTopic(0, "t", (*KEPT, (Setting.CAPACITY, 2))), Publish(0, "t", batch(b"", b""))
    )
    client.broker.clock.move_to(2_000)
    client.ask(Publish(0, "t", batch(b"")))
    assert (
        topic(client.broker)["head"],
        topic(client.broker)["head_us"],
        topic(client.broker)["last_us"],
    ) == (
        1,
        1_000,
        2_000,
    )


def test_of_a_message_that_is_only_on_the_disk_the_time_is_not_known():
    durably = Durably()
    durably.create(CAPACITY=2, RETENTION_TTL_MS=FOREVER)
    for _ in range(3):
        durably.filled(b"x")
    state = topic(durably.broker)
    assert (state["head"], state["head_us"]) == (0, None)
    assert state["last_us"] is not None


def test_refused_counts_batches_that_found_the_topic_full(client):
    """RET-9."""
    client.ask(CreateTopic(0, "t", FULL), Subscribe(2, "t", credit=1))
    client.ask(Publish(0, "t", batch(b"", b"")))
    assert topic(client.broker)["refused"] == 0
    for number in (1, 2):
        (refusal,) = client.ask(Publish(9, "t", batch(b"", b"")))
        assert refusal.code == ErrorCode.TOPIC_FULL
        assert topic(client.broker)["refused"] == number
    (refusal,) = client.ask(Publish(9, "t", batch(b"", b"", b"")))
    assert refusal.code == ErrorCode.BATCH_TOO_LARGE
    client.ask(Publish(9, "t", batch(b"x"), producer=7, sequence=3), Publish(0, "u", batch(b"")))
    assert (topic(client.broker)["refused"], topic(client.broker, "u")["refused"]) == (2, 0)


def test_refused_counts_numbered_batches_each_time_they_are_sent(client):
    client.ask(CreateTopic(0, "t", FULL), Subscribe(2, "t", credit=1))
    client.ask(Publish(3, "t", batch(b"", b""), producer=7, sequence=0))
    for _ in range(3):
        (refusal,) = client.ask(Publish(9, "t", batch(b"", b""), producer=7, sequence=1))
        assert refusal.code == ErrorCode.TOPIC_FULL
    assert topic(client.broker)["refused"] == 3


def test_refused_counts_what_finds_the_log_full():
    durably = Durably()
    durably.create(OVERFLOW=Overflow.REJECT, LOG_BYTES=LOG)
    durably.ask(Subscribe(2, "t", "away"), Unsubscribe(3, 2))
    durably.filled(bytes(LOG // 2))
    (refusal,) = durably.publish(9, bytes(LOG // 2))
    assert refusal.code == ErrorCode.TOPIC_FULL
    assert topic(durably.broker)["refused"] == 1


def test_the_slowest_reader_is_named_as_it_is_listed(client):
    fill(client, 2, 3, 4)
    assert topic(client.broker)["slowest"] == ""
    assert topic(client.broker)["needed_us"] is None
    client.ask(Subscribe(2, "t", start=2, value=2, credit=1))
    assert topic(client.broker)["slowest"] == "t#00000001.0000000002"
    assert (topic(client.broker)["needed"], topic(client.broker)["needed_us"]) == (3, None)
    client.ask(Subscribe(3, "t", start=2, value=0, credit=1))
    client.ask(Subscribe(4, "t", start=2, value=1, credit=1))
    assert topic(client.broker)["slowest"] == "t#00000001.0000000003"
    assert (topic(client.broker)["needed"], topic(client.broker)["needed_us"]) == (1, 3_000)


def test_a_name_whose_reader_is_away_may_be_the_slowest(client):
    """Of a named one, everything that is not settled is needed."""
    fill(client, 2, 3, 4)
    client.ask(Subscribe(2, "t", "billing", start=2, value=0), Subscribe(3, "t", credit=9))
    client.ask(Commit(0, 2, 1))
    assert topic(client.broker)["slowest"] == "t#00000001.0000000002"
    client.ask(Unsubscribe(4, 2))
    assert topic(client.broker)["slowest"] == "t#away.billing.1"
    assert topic(client.broker)["slowest"] in [row["name"] for row in readers(client.broker)]
    assert (topic(client.broker)["needed"], topic(client.broker)["needed_us"]) == (1, 3_000)


# -- readers -------------------------------------------------------------------------------------


def test_a_reader_tells_when_its_next_message_was_accepted(client):
    fill(client, 2, 3)
    client.ask(Subscribe(2, "t", start=2, value=0, credit=1))
    assert [row["cursor_us"] for row in readers(client.broker)] == [3_000]
    client.ask(Commit(0, 2, 1))
    assert [row["cursor_us"] for row in readers(client.broker)] == [None]


def test_the_next_message_of_a_reader_that_has_lost_some_is_the_oldest_left(client):
    client.ask(CreateTopic(0, "t", ((Setting.RETENTION_TTL_MS, 10),)), Subscribe(2, "t", credit=1))
    fill(client, 2, 5, 9)
    client.broker.clock.move_to(15_000)
    (row,) = readers(client.broker)
    assert (row["cursor"], row["cursor_us"], topic(client.broker)["head"]) == (1, 9_000, 2)


def test_redelivered_below_shows_what_comes_again(client):
    """CMT-3."""
    fill(client, *range(2, 7))
    client.ask(Subscribe(2, "t", "n", start=2, value=0, credit=4))
    client.ask(Commit(0, 2, 1))
    (row,) = readers(client.broker)
    assert (row["cursor"], row["redelivered_below"]) == (5, None)
    client.ask(Unsubscribe(3, 2))
    (row,) = readers(client.broker)
    assert (row["committed"], row["cursor"], row["redelivered_below"]) == (1, 5, 5)
    client.ask(Subscribe(4, "t", "n", credit=2))
    (row,) = readers(client.broker)
    assert (row["cursor"], row["redelivered_below"]) == (3, 5)
    client.ask(Commit(0, 4, 3))
    (row,) = readers(client.broker)
    assert (row["committed"], row["cursor"], row["redelivered_below"]) == (3, 5, 5), (
        "all are sent, and in flight again"
    )
    client.ask(Commit(0, 4, 5))
    (row,) = readers(client.broker)
    assert (row["cursor"], row["redelivered_below"]) == (5, None)


def codes(broker, name="t"):
    return [row["waiting_for_code"] for row in readers(broker, name)]


def test_what_a_reader_waits_for_has_a_word_for_programs():
    """CMT-5: each of them, and the sentence begins alike or says more."""
    client = Conversation(broker_with(soft_output=1))
    client.ask(CreateTopic(0, "t", KEPT), Subscribe(2, "t", credit=2, credit_bytes=5, until=4))
    assert codes(client.broker) == ["messages"]
    client.ask(Publish(0, "t", batch(b"123456")))
    assert codes(client.broker) == ["bytes"]
    client.ask(Commit(0, 2, 1), Publish(0, "t", batch(b"1", b"2")))
    assert codes(client.broker) == ["commit"]
    client.ask(Commit(0, 2, 3))
    client.tell(Publish(0, "t", batch(b"1")))
    assert codes(client.broker) == ["connection"]
    client.heard()
    assert codes(client.broker) == ["ended"]
    client.ask(Subscribe(3, "t", "n"), Unsubscribe(4, 3))
    assert codes(client.broker) == ["ended", "reader"]


def test_bytes_are_waited_for_although_there_is_credit_if_the_next_message_is_too_long(client):
    client.ask(Subscribe(2, "t", credit=9, credit_bytes=10))
    client.ask(Publish(0, "t", batch(b"p" * 9)), Publish(0, "t", batch(b"p" * 9)))
    assert codes(client.broker) == ["bytes"]


def test_the_disk_is_waited_for_while_it_is_read():
    durably = Durably()
    durably.create(CAPACITY=1, RETENTION_TTL_MS=FOREVER)
    durably.filled(b"x")
    durably.filled(b"y")
    durably.ask(Subscribe(2, "t", start=2, value=0))
    assert codes(durably.broker) == ["disk"]


# -- a connection --------------------------------------------------------------------------------


def connection(broker):
    return page(broker, Kind.CONNECTIONS)["connections"][0]


def test_a_connection_tells_since_when_it_is_there_and_what_it_does():
    broker = broker_with()
    broker.clock.move_to(5_000)
    client = Conversation(broker, greeted=False)
    broker.clock.move_to(6_000)
    assert (connection(broker)["state"], connection(broker)["since_us"]) == ("greeting", 5_000)
    client.ask(Hello(1))
    assert connection(broker)["state"] == "reading"
    client.manager.note_unsent(17)
    assert (connection(broker)["state"], connection(broker)["unsent"]) == ("output_full", 17)
    client.manager.stop()
    assert connection(broker)["state"] == "draining"
