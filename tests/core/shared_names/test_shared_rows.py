"""The rows that `describe` has of shared names and of their workers."""

import json

from conversation import broker_with
from sharing_clients import Sharing, seconds, work

from zaichik.apps.audit import audit
from zaichik.core.position import directory_name
from zaichik.core.report.rows import slowest
from zaichik.core.shared_names.shared_rows import IN_WORDS
from zaichik.core.work_queue.holdup import Holdup
from zaichik_protocol import (
    OWNER,
    SHARED,
    TABLES,
    CreateTopic,
    Describe,
    Kind,
    Outcome,
    Setting,
    Unsubscribe,
)


def name_row(client):
    (row,) = [row for row in client.rows() if "shared" in row]
    return row


def test_a_name_has_a_row_beside_those_of_its_workers():
    broker, client = work(3)
    subscription, _ = client.share(credit=2, timeout_ms=5000)
    other = Sharing(broker)
    other.share()
    client.settle(subscription, Outcome.RETRY, 1, delay_s=60)
    worker, second, name = client.rows()
    assert (worker["connection"], worker["id"]) == (client.manager.number, subscription)
    now_us = broker.clock.now_us()
    assert worker["worker"] == {
        "has": 1,
        "overdue": 0,
        "since_us": now_us,
        "timeout_us": 5_000_000,
    }
    assert second["connection"] == other.manager.number
    assert (name["connection"], name["session"]) == (0, "n")
    assert (name["start"], name["committed"], name["cursor"]) == (0, 0, 3)
    shared = name["shared"]
    assert (shared["workers"], shared["open"], shared["with_workers"]) == (2, 3, 2)
    assert (shared["delayed"], shared["ready"], shared["dead"]) == (1, 0, 0)
    assert (shared["oldest_us"], shared["due_us"]) == (now_us, now_us + 60_000_000)


def test_a_worker_says_since_when_it_has_had_the_oldest_that_it_has():
    """Of many frames, no earlier time than is remembered."""
    broker, client = work()
    subscription, _ = client.share(credit=20)
    assert client.rows()[0]["worker"]["since_us"] is None
    times = []
    for number in range(10):
        client.publish(b"%d" % number)
        times.append(broker.clock.now_us())
        seconds(broker)
    client.heard()
    worker, name = client.rows()
    assert worker["worker"]["has"] == 10
    assert worker["worker"]["since_us"] == times[2]
    client.done(subscription, *range(9))
    worker, name = client.rows()
    assert worker["worker"]["since_us"] == name["shared"]["oldest_us"] == times[9]
    client.done(subscription, 9)
    assert client.rows()[-1]["shared"]["oldest_us"] is None


def test_what_is_overdue_is_as_old_as_it_was():
    """SHR-4: its program is still busy with it, perhaps."""
    broker, client = work(1)
    client.share(timeout_ms=1000)
    sent_us = broker.clock.now_us()
    seconds(broker, 3)
    worker = client.rows()[0]["worker"]
    assert (worker["has"], worker["overdue"], worker["since_us"]) == (0, 1, sent_us)


def test_with_the_readers_furthest_behind_are_the_workers_that_are_busy_for_longest():
    """Kind 7: no more of them than a page has."""
    broker, client = work(3)
    for number in range(20):
        worker = Sharing(broker)
        if number >= 17:
            seconds(broker)
        worker.share()
    (reply,) = client.ask(Describe(client.next_id(), Kind.FURTHEST, "t", limit=500))
    name, *workers = json.loads(reply.json)["subscriptions"]
    assert name["shared"]["workers"] == 20
    assert len(workers) == 16
    assert [row["worker"]["has"] for row in workers] == [1, 1, 1] + [0] * 13


def test_the_lag_of_a_topic_is_without_what_is_settled_or_dead():
    """SHR-9: though the oldest dead message holds the topic back."""
    _, client = work(6)
    subscription, _ = client.share(credit=4)
    client.settle(subscription, Outcome.REJECT, 0)
    client.done(subscription, 2)
    (reply,) = client.ask(Describe(client.next_id(), Kind.TOPICS))
    (topic,) = json.loads(reply.json)["topics"]
    assert (topic["needed"], topic["next_offset"], topic["lag"]) == (0, 6, 4)


def test_what_a_name_has_to_hand_out_is_without_holes():
    """TAB-2."""
    broker = broker_with()
    client = Sharing(broker, features=SHARED | OWNER | TABLES)
    client.ask(CreateTopic(client.next_id(), "t", ((Setting.TABLE, 1),)))
    client.publish((b"k", b"0"))
    client.share()
    for number in range(5):
        client.publish((b"k", b"%d" % number))
    row = name_row(client)
    assert (row["ahead"], row["lag"]) == (5, 1)


def test_each_sum_of_a_name_adds_up():
    _, client = work(5)
    subscription, _ = client.share(credit=4)
    client.done(subscription, 0)
    client.settle(subscription, Outcome.REJECT, 1)
    client.settle(subscription, Outcome.REJECT, 2)
    client.dead(action=2, selected=True, offsets=(2,))
    rows = client.rows()
    assert not any(any(row["left_over"].values()) for row in rows)
    sums = audit([], rows)
    assert [str(each) for each in sums] == [
        "since its start 5 = done 1 + dead 1 + open 2 + skipped 0 + forgotten 1"
    ]
    assert not sums[0].difference


def test_why_nothing_is_handed_out_has_words():
    assert set(IN_WORDS) == set(Holdup)


def test_a_name_says_why_nothing_is_handed_out():
    _, client = work(2)
    subscription, _ = client.share(credit=1)
    assert name_row(client)["waiting_for_code"] == "no_credit"
    client.done(subscription, 0)
    assert name_row(client)["waiting_for_code"] == "with_workers"
    client.done(subscription, 1)
    assert name_row(client)["waiting_for_code"] == "empty"
    client.ask(Unsubscribe(client.next_id(), subscription))
    row = name_row(client)
    assert row["waiting_for_code"] == "no_worker"
    assert row["waiting_for"].startswith("a worker")


def test_a_worker_says_what_it_waits_for():
    _, client = work(1)
    subscription, _ = client.share(timeout_ms=1000)
    worker, _ = client.rows()
    assert worker["waiting_for_code"] == "settle"
    client.done(subscription, 0)
    worker, _ = client.rows()
    assert worker["waiting_for_code"] == "messages"


def test_a_hot_key_is_reported_without_the_key():
    """It is a part of a message."""
    _, client = work()
    client.publish(*[(b"secret", b"")] * 3)
    client.share(by_key=True, credit=5)
    shared = name_row(client)["shared"]
    assert (shared["blocked"], shared["behind_busiest_key"], shared["busiest_key_bytes"]) == (
        2,
        2,
        6,
    )


def test_the_slowest_reader_of_a_topic_may_be_a_name():
    broker, client = work(1)
    client.share()
    name = name_row(client)["name"]
    topic = broker.registry.find("t")
    assert directory_name(topic, slowest(topic)) == name
