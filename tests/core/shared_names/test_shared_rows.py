"""The rows that `describe` has of shared names and of their workers."""

from sharing_clients import Sharing, work

from zaichik.apps.audit import audit
from zaichik.core.position import directory_name
from zaichik.core.report.rows import slowest
from zaichik.core.shared_names.shared_rows import IN_WORDS
from zaichik.core.work_queue.holdup import Holdup
from zaichik_protocol import Outcome, Unsubscribe


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
    assert worker["worker"] == {"has": 1, "overdue": 0, "timeout_us": 5_000_000}
    assert second["connection"] == other.manager.number
    assert (name["connection"], name["session"]) == (0, "n")
    assert (name["start"], name["committed"], name["cursor"]) == (0, 0, 3)
    shared = name["shared"]
    assert (shared["workers"], shared["open"], shared["with_workers"]) == (2, 3, 2)
    assert (shared["delayed"], shared["ready"], shared["dead"]) == (1, 0, 0)


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
