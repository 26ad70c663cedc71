"""What became of a message at a shared name."""

import pytest
from sharing_clients import Sharing, seconds, work

from zaichik_protocol import Outcome


def test_a_message_is_with_a_worker_since_a_time():
    broker, client = work(1)
    subscription, _ = client.share()
    found = client.explained(0)
    assert (found["fate"], found["rule"]) == ("with_worker", "SHR-2")
    assert found["evidence"]["subscription"] == f"{client.manager.number}.{subscription}"
    assert found["evidence"]["sent_us"] == broker.clock.now_us()
    # The worker's own subscription gives the same answer.
    assert client.explained(0, f"{client.manager.number}.{subscription}") == found


def test_of_a_message_long_with_a_worker_only_a_bound_of_the_time_is_known():
    """EXP-3: as for a subscription that shares no name."""
    broker, client = work()
    client.share(credit=20)
    times = []
    for number in range(10):
        client.publish(b"%d" % number)
        times.append(broker.clock.now_us())
        seconds(broker)
    client.heard()
    evidence = client.explained(1)["evidence"]
    assert (evidence.get("sent_us"), evidence["sent_before_us"]) == (None, times[2])
    assert client.explained(2)["evidence"]["sent_us"] == times[2]


def test_a_message_waits_until_a_time():
    broker, client = work(1)
    subscription, _ = client.share()
    client.settle(subscription, Outcome.RETRY, 0, delay_s=60)
    found = client.explained(0)
    assert found["fate"] == "waits_until"
    assert found["evidence"]["due_us"] == broker.clock.now_us() + 60_000_000


def test_a_message_is_dead_because():
    _, client = work(1)
    subscription, _ = client.share()
    client.settle(subscription, Outcome.REJECT, 0, reason="no such image")
    found = client.explained(0)
    assert found["fate"] == "dead"
    assert "no such image" in found["text"]
    assert found["evidence"]["deliveries"] == 1


@pytest.mark.parametrize("fate", ["waits_for_key", "waits_for_owner", "waits_for_worker"])
def test_a_message_waits_for_others(fate):
    broker, client = work()
    client.publish((b"k", b"0"), (b"k", b"1"))
    worker = Sharing(broker)
    worker.share(credit=5, by_key=True, owner=7)
    offset = 1
    if fate != "waits_for_key":
        broker.disconnect(worker.manager, "GONE")
        offset = 0
    if fate == "waits_for_worker":
        seconds(broker, 3)
    found = client.explained(offset)
    assert found["fate"] == fate
    assert found["evidence"]["is_suspect"] == (fate == "waits_for_worker")


def test_a_message_that_was_not_handed_out_waits_for_a_worker():
    _, client = work(2)
    client.share()
    found = client.explained(1)
    assert found["fate"] == "waits_for_worker"
    assert (found["evidence"]["before_it"], found["evidence"]["waiting_for"]) == (0, "no_credit")


def test_a_message_is_settled_or_not_the_names_own():
    _, client = work(2)
    subscription, _ = client.share(start=2, value=1)
    client.done(subscription, 1)
    assert client.explained(0)["fate"] == "below_start"
    assert client.explained(1)["fate"] == "settled"


def test_a_message_is_gone_before_its_turn():
    _, client = work()
    client.share()
    client.publish(b"0")
    client.publish(b"1")
    topic = client.broker.registry.find("t")
    topic.retained.ring.expire_below(2)
    assert client.explained(1)["fate"] == "lost_ahead"


def test_of_a_name_with_many_workers_there_is_one_verdict():
    broker, client = work(1)
    for _ in range(12):
        Sharing(broker).share()
    assert client.explained(0, "")["fate"] == "with_worker"
