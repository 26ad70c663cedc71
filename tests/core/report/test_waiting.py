"""What a message waits for that a subscription has still to be sent."""

import pytest
from asking import at_reader, made, seen, verdicts
from conversation import Conversation, batch, broker_with
from fake_log import Durably

from zaichik_protocol import FOREVER, Ping, Publish, Start, Subscribe


@pytest.fixture
def client():
    client = Conversation(broker_with())
    made(client, RETENTION_TTL_MS=FOREVER)
    return client


def test_credit_in_messages(client):
    """CMT-1: which offsets are in flight, and since when."""
    client.ask(Subscribe(3, "t", credit=2))
    client.broker.clock.advance(1)
    client.ask(Publish(0, "t", batch(b"x", b"y")), Publish(0, "t", batch(b"z", b"zz")))
    verdict = at_reader(client, offset=3)
    assert seen(verdict, "credit", "in_flight", "cursor", "before_it", "in_flight_since_us") == (
        "waits_for_credit", "CMT-1", 2, 2, 2, 1, 1_001_000,
    )  # fmt: skip
    assert "offsets 0 to 1 are in flight" in verdict["text"]
    assert "credit in messages" in verdict["text"]


@pytest.mark.parametrize("first", [b"xxx", b"xxxxx"])
def test_credit_in_bytes(client, first):
    """CMT-1: used up, or too little for the next message."""
    client.ask(Subscribe(3, "t", credit=9, credit_bytes=5))
    client.ask(Publish(0, "t", batch(first)), Publish(0, "t", batch(b"yyy")))
    verdict = at_reader(client, offset=1)
    assert seen(verdict, "credit_bytes", "in_flight_bytes") == (
        "waits_for_credit",
        "CMT-1",
        5,
        len(first),
    )
    assert "credit in bytes" in verdict["text"]


def test_a_client_that_does_not_read(client):
    """LAG-3: bytes that its socket has not accepted, and replies."""
    other = Conversation(client.broker)
    client.ask(Subscribe(3, "t", credit=9))
    client.manager.note_unsent(8)
    other.ask(Publish(0, "t", batch(b"x")))
    assert seen(at_reader(other, offset=0), "unsent_bytes", "reply_bytes") == (
        "waits_for_client",
        "LAG-3",
        8,
        0,
    )
    client.manager.note_unsent(0)
    client.tell(Ping(4))
    assert seen(at_reader(other, offset=0), "unsent_bytes", "reply_bytes") == (
        "waits_for_client",
        "LAG-3",
        0,
        20,
    )


def test_other_subscriptions_of_the_connection(client):
    """LAG-4: those that have their turn first."""
    other = Conversation(client.broker)
    for name in ("u", "v"):
        made(other, name, RETENTION_TTL_MS=FOREVER)
    client.ask(
        *(Subscribe(number, topic, credit=9) for number, topic in ((3, "u"), (4, "v"), (5, "t")))
    )
    other.ask(*(Publish(0, topic, batch(b"x")) for topic in ("u", "v", "t")))
    assert seen(at_reader(other, offset=0), "turns_before") == ("waits_for_turn", "LAG-4", [3, 4])
    assert seen(verdicts(other, "u", offset=0)[1], "turns_before") == (
        "waits_for_turn",
        "LAG-4",
        [],
    )


def test_many_other_subscriptions_of_the_connection_are_not_all_named(client):
    """LAG-4: an answer is made within one turn."""
    other = Conversation(client.broker)
    client.ask(*(Subscribe(number, "t", credit=9) for number in range(3, 33)))
    other.ask(Publish(0, "t", batch(b"x")))
    last = client.manager.ready[-1]
    verdict = at_reader(other, offset=0, subscription=f"{client.manager.number}.{last.id}")
    named = verdict["evidence"]["turns_before"]
    assert 4 <= len(named) <= 16


def test_the_disk():
    """DUR-4."""
    client = Durably()
    client.create(CAPACITY=1)
    client.filled(b"x", b"y", b"z")
    client.ask(Subscribe(3, "t", start=Start.OFFSET, value=0, credit=9))
    assert seen(at_reader(client, offset=1), "cursor") == ("waits_for_disk", "DUR-4", 0)
