"""`zaichik audit`: sums that a person can follow, and an exit code for when they are wrong."""

import os
import re
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from zaichik import endpoint, running_broker
from zaichik.client import blocking

DOCUMENT = Path(__file__).parents[2] / "docs" / "use" / "describe.md"


@pytest.fixture
def inside(monkeypatch):
    """A broker whose counters a test can reach; all commands talk to it."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_broker()) as server,
    ):
        monkeypatch.setenv("ZAICHIK_CONNECT", f"{server.host}:{server.port}")
        yield server.broker


@pytest.fixture
def orders(inside, zaichik):
    """A topic with three messages and one that was compacted, and another whose name begins like
    it.
    """
    zaichik("create", "orders", "--retention", "1h", "--compaction-window", "1h", "--capacity", "2")
    for payload, key in (("1", "a"), ("2", "b"), ("3", "c"), ("4", "c")):
        zaichik("publish", "orders", payload, "--key", key)
    zaichik("create", "orders.eu", "--retention", "1h")
    zaichik("publish", "orders.eu", "x")
    (topic,) = [topic for topic in inside.registry if topic.name == "orders"]
    return topic


def test_every_topic_and_reader_has_its_sums(orders, zaichik, start):
    reader = start("subscribe", "orders")
    reader.stdout.readline()
    result = zaichik("audit")
    assert result.code == 0
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[:4] == [
        "topic orders published 4 = stored 3 + compacted 1",
        "stored 3 = resident 2 + expired 0 + evicted 1",
        "topic orders.eu published 1 = stored 1 + compacted 0",
        "stored 1 = resident 1 + expired 0 + evicted 0",
    ]
    (described,) = zaichik("describe", "orders", "--json").json["subscriptions"]
    name = f"{described['connection']}.{described['id']}"
    assert (
        lines[4]
        == f"subscription {name} of orders since its start 2 = delivered 2 + skipped 0 + ahead 0"
    )
    assert zaichik("explain", "orders", "--offset", "1", "--subscription", name).code == 0
    assert lines[5].startswith("delivered 2 = settled ")
    assert result.err == "6 sums: every message is accounted for\n"


def test_the_example_of_the_document_is_what_happens(orders, zaichik):
    """But for the number of the connection."""
    text, broker = DOCUMENT.read_text(encoding="utf-8"), endpoint(os.environ["ZAICHIK_CONNECT"])
    (example,) = re.findall(r"^\$ zaichik audit orders\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    with blocking.connect(broker) as client, client.subscribe("orders") as subscription:
        messages = iter(subscription)
        for _ in range(2):
            next(messages)  # which settles the one before
        looks = (client.subscriptions()[0]["in_flight"] for _ in range(100_000))
        assert 1 in looks  # as soon as the commit has come
        shown = zaichik("audit", "orders").out
    assert re.sub(r"\d+\.\d+ of", "7.1 of", shown) == example


def test_a_named_subscription_is_called_by_its_name(orders, zaichik, start):
    reader = start("subscribe", "orders", "--name", "billing")
    reader.stdout.readline()
    assert "subscription billing of orders  since its start" in zaichik("audit").out
    (held,) = orders.readers
    held.delivered += 5
    result = zaichik("audit")
    held.delivered -= 5
    assert (
        "zaichik: subscription billing of orders does not add up, which is a bug of the broker"
        in result.err
    )


def test_one_topic(orders, zaichik):
    result = zaichik("audit", "orders")
    assert (result.code, result.out.count("\n")) == (0, 2)
    assert "orders.eu" not in result.out


def test_json(orders, zaichik):
    told = zaichik("audit", "orders", "--json").json
    assert (told["adds_up"], told["topics"], told["subscriptions"]) == (True, 1, 0)
    assert told["sums"][0] == {
        "kind": "topic",
        "name": "orders",
        "whole": "published",
        "total": 4,
        "parts": {"stored": 3, "compacted": 1},
        "difference": 0,
    }


@pytest.mark.parametrize("options", [[], ["--json"], ["orders"]])
def test_a_wrong_counter_is_reported_with_the_topic_and_the_difference(orders, zaichik, options):
    orders.compacted += 5
    result = zaichik("audit", *options)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert (
        "topic orders does not add up, which is a bug of the broker: published 4 ≠ stored 3 + "
        "compacted 6" in result.err
    )
    assert "a difference of -5" in result.err
    if "--json" in options:
        assert [result.json["adds_up"], *[each["difference"] for each in result.json["sums"]]] == [
            False,
            -5,
            0,
            0,
            0,
        ]
    else:
        assert "published 4 ≠ stored 3 + compacted 6, a difference of -5" in result.out
    orders.compacted -= 5
    assert zaichik("audit", *options).code == 0


def test_a_wrong_counter_is_red_on_a_terminal(orders, on_terminal):
    orders.compacted += 5
    code, output = on_terminal("audit")
    assert code == 1
    assert "\x1b[1;31m" in output.split("evicted")[0]


def test_a_topic_that_is_not_there(inside, zaichik):
    result = zaichik("audit", "nothing")
    assert (result.code, result.out) == (1, "")
    assert "there is no topic 'nothing'" in result.err


def test_an_empty_broker(inside, zaichik):
    result = zaichik("audit")
    assert (result.code, result.out, result.err) == (0, "", "no topics yet\n")
