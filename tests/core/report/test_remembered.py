"""Batches that were refused, or came twice."""

import pytest
from asking import fates, made, seen, verdicts
from conversation import Conversation, batch, broker_with
from fake_log import Durably
from test_rights import Somebody, Talk

from zaichik.core.compaction import bitmap
from zaichik.core.decisions import COMPACTED
from zaichik.core.report.remembered import RECENT, Decided
from zaichik_protocol import FOREVER, Delete, Overflow, Publish, Subscribe

K = (b"k", b"x")


@pytest.fixture
def client():
    client = Conversation(broker_with(max_batch=4, max_message=100))
    made(client, RETENTION_TTL_MS=FOREVER, CAPACITY=3, OVERFLOW=Overflow.REJECT)
    return client


def of_key(client, key=b"k"):
    """Its only verdict, which is about no stored message."""
    (verdict,) = verdicts(client, key=key)
    return verdict


def test_a_full_topic(client):
    """RET-9: who refused it, when, and what to do."""
    client.ask(Subscribe(3, "t", credit=1), Publish(0, "t", batch(*[b"x"] * 3)))
    client.broker.clock.advance(1)
    client.ask(Publish(0, "t", batch(K, b"x")))
    verdict = of_key(client)
    assert seen(verdict, "error", "at_us", "connection") == (
        "refused",
        "RET-9",
        "TOPIC_FULL",
        1_001_000,
        1,
    )
    assert "subscription 3 of connection 1" in verdict["text"]
    assert verdict["next"].startswith("Publish it again")


@pytest.mark.parametrize(
    ("messages", "rule", "error"),
    [
        ([K] * 4, "RET-6", "BATCH_TOO_LARGE"),  # than the ring
        ([K] * 5, "RET-6", "BATCH_TOO_LARGE"),  # than the broker allows
        ([(b"k", bytes(101))], "RET-6", "MESSAGE_TOO_LARGE"),
    ],
)
def test_a_batch_that_is_too_large(client, messages, rule, error):
    """RET-6."""
    client.ask(Publish(0, "t", batch(*messages)))
    verdict = of_key(client)
    assert seen(verdict, "error") == ("refused", rule, error)
    assert verdict["next"].startswith("Change")


def test_a_gap(client):
    """PUB-4."""
    client.ask(
        *(
            Publish(0, "t", batch(b"x"), producer=5),
            Publish(0, "t", batch(K), producer=5, sequence=2),
        )
    )
    assert seen(of_key(client), "error") == ("refused", "PUB-4", "SEQUENCE_GAP")


def test_a_producer_that_is_not_known(client):
    """PUB-4."""
    client.ask(Publish(0, "t", batch(K), producer=5, sequence=2))
    assert seen(of_key(client), "error") == ("refused", "PUB-4", "PRODUCER_UNKNOWN")


def test_a_user_who_may_not_publish():
    """ACC-2."""
    broker = broker_with()
    root = Conversation(broker)
    made(root)
    Talk(broker, Somebody("eve")).ask(Publish(0, "t", batch(K)))
    assert seen(of_key(root), "error", "user", "connection") == (
        "refused",
        "ACC-2",
        "FORBIDDEN",
        "eve",
        2,
    )


def test_a_batch_that_came_twice(client):
    """PUB-4: of which one it is the duplicate."""
    client.ask(Publish(0, "t", batch(b"x")), *[Publish(0, "t", batch(K), producer=5)] * 2)
    found = verdicts(client, key=b"k")
    assert fates(found) == ["readable", "no_reader", "duplicate"]
    assert seen(found[-1], "first_offset", "connection") == ("duplicate", "PUB-4", 1, 1)


def test_a_refusal_that_is_repeated_is_a_refusal(client):
    """PUB-4."""
    client.ask(*[Publish(0, "t", batch(*[K] * 5), producer=5)] * 2)
    assert fates(verdicts(client, key=b"k")) == ["refused", "refused"]


def test_a_disk_without_room():
    """DUR-3."""
    client = Durably()
    client.create()
    client.publish(0, K)
    client.log.refuse_all()
    client.heard()
    assert seen(of_key(client), "error", "connection") == ("refused", "DUR-3", "STORAGE_FULL", None)


def test_a_numbered_batch_that_a_durable_topic_refuses_for_good():
    """DUR-3: though its refusal waits for the disk."""
    client = Durably()
    client.create(CAPACITY=1)
    client.publish(3, K, K, producer=5)
    assert seen(of_key(client), "error", "connection") == ("refused", "RET-6", "BATCH_TOO_LARGE", 1)


def test_what_the_disk_has_not_confirmed_was_kept_out_by_nobody_yet():
    """DUR-1, DUR-2: it may be taken back with the message that would keep it out."""
    client = Durably()
    client.create(COMPACTION_WINDOW_MS=FOREVER)
    client.publish(0, K, K)
    assert "kept_out" not in fates(verdicts(client, key=b"k"))
    client.log.sync()
    client.heard()
    found = verdicts(client, key=b"k")
    assert fates(found) == ["readable", "no_reader", "kept_out", "window_open"]
    assert found[2]["evidence"]["winner"] == 0


def test_a_batch_that_came_twice_to_a_durable_topic():
    """PUB-4."""
    client = Durably()
    client.create()
    client.publish(0, K, producer=5)
    client.log.sync()
    client.publish(0, K, producer=5)
    assert fates(verdicts(client, key=b"k")) == ["readable", "no_reader", "duplicate"]


def test_a_message_that_never_was_stored_may_be_one_of_those_refused_lately(client):
    """The newest first, and those that were only kept out are none."""
    for number in range(RECENT + 1):
        client.broker.clock.move_to(2_000 + number)
        client.ask(Publish(0, "t", batch(*[b"x"] * 4)))
    never, *refused = verdicts(client, offset=0)
    assert never["fate"] == "never_seen"
    assert [seen(it, "at_us") for it in refused] == [
        ("refused_lately", "RET-6", 2_000 + number) for number in range(RECENT, 0, -1)
    ]
    assert "a batch was not stored" in refused[0]["text"]


def test_of_many_refusals_that_may_be_meant_a_few_are_shown(client):
    for _ in range(30):
        client.ask(Publish(0, "t", batch(*[b"x"] * 4)))
    _, *refused = verdicts(client, offset=0)
    assert 2 <= len(refused) <= 8


def test_what_waited_for_the_disk_of_a_topic_that_is_deleted_costs_nobody_anything():
    """TOP-6, RET-10."""
    client = Durably()
    client.create()
    budget, log = client.broker.registry.budget, client.log
    client.publish(0, K)
    client.tell(Delete(4, "t"))
    log.sync()
    client.heard()
    assert (len(client.broker.registry), budget.used) == (0, 0)


@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 16])
def test_of_a_batch_of_which_some_was_stored_a_decision_concerns_only_what_was_dropped(place):
    """EXP-1: whichever bit of the bitmap says so."""
    sent = batch(*[(b"%d" % index, b"x") for index in range(17)])
    kept = [index for index in range(17) if index != place]
    decision = Decided(1, COMPACTED, 0, "", "", 0, sent.data, bitmap(17, kept))
    assert [index for index in range(17) if decision.concerns(b"%d" % index)] == [place]
