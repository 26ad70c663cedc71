"""What the broker tells of itself."""

import base64
import json
import re
from pathlib import Path

import pytest
from conversation import Conversation, batch, broker_with
from fake_log import Durably
from followed import Following
from sharing_clients import work

from zaichik.base.clock import ManualClock, SystemClock
from zaichik.core.broker import Broker
from zaichik.core.directory import Directory
from zaichik.core.reader import Reader
from zaichik.core.report.describe import describe
from zaichik.core.report.rows import COLUMNS
from zaichik.core.rights import ANYBODY
from zaichik.core.settings import BrokerSettings
from zaichik.core.sharing import prices
from zaichik_protocol import (
    FOREVER,
    Commit,
    CreateTopic,
    Delete,
    Describe,
    Error,
    ErrorCode,
    Hello,
    Kind,
    Lagged,
    Overflow,
    Publish,
    Setting,
    Subscribe,
    Unsubscribe,
)


@pytest.fixture
def client():
    return Conversation(broker_with())


def described(client, kind, **request):
    (reply,) = client.ask(Describe(900, kind, **request))
    return bool(reply.more), json.loads(reply.json)


def test_the_broker_reports_its_counts_and_limits(client):
    client.ask(Subscribe(2, "t"), Subscribe(3, "u"))
    Conversation(client.broker).ask(Subscribe(2, "t"))
    more, state = described(client, Kind.BROKER)
    assert not more
    assert (state["connections"], state["subscriptions"], state["topics"]) == (2, 3, 2)
    assert (state["boot"], state["name"], state["now_us"]) == (
        client.broker.boot,
        client.broker.name,
        1_000,
    )
    assert state["limits"] == client.broker.settings.limits()
    assert state["topic_defaults"]["capacity"] == 10_000


def test_the_broker_reports_the_bytes_of_all_topics(client):
    """Their batches as they came in, until they are evicted or their topic is deleted."""
    small, large = batch(b"x"), batch(b"y" * 500)
    client.ask(CreateTopic(2, "t", ((Setting.CAPACITY, 1),)))
    client.ask(Publish(0, "t", large), Publish(0, "t", small), Publish(0, "u", large))
    _, state = described(client, Kind.BROKER)
    assert state["bytes"] == len(small.data) + len(large.data)
    client.ask(Delete(3, "u"))
    _, state = described(client, Kind.BROKER)
    assert state["bytes"] == len(small.data)


def test_the_broker_reports_whether_its_clock_stands_still():
    """TIM-4."""
    for clock, expected in ((ManualClock(1_000), "manual"), (SystemClock(), "system")):
        _, state = described(Conversation(Broker(BrokerSettings(), clock)), Kind.BROKER)
        assert state["clock"] == expected


def test_the_broker_reports_what_was_wrong_with_the_machines_clock(client):
    """DUR-8: to everybody, because times are wrong for everybody."""
    _, state = described(client, Kind.BROKER)
    assert {"clock_jumps", "clock_ahead_us"} & state.keys() == set()
    client.broker.jumps, client.broker.clock_ahead_us = ((7, 5),), 3
    _, state = described(client, Kind.BROKER)
    assert (state["clock_jumps"], state["clock_ahead_us"]) == ([[7, 5]], 3)


def test_the_memory_that_the_broker_reports_includes_what_is_reserved(client):
    """RET-9, RET-10, LAG-6."""
    budget, memory = client.broker.registry.budget, client.broker.memory
    lossless = ((Setting.CAPACITY, 10), (Setting.OVERFLOW, Overflow.REJECT))
    client.ask(CreateTopic(2, "t"), CreateTopic(3, "u", lossless))
    assert budget.used > 0
    assert budget.reserved > 0
    assert memory.used > 0
    _, state = described(client, Kind.BROKER)
    assert state["memory"] == budget.used + budget.reserved + memory.used


def test_the_broker_reports_what_it_has_on_the_disk_if_it_may_have_anything_there(client):
    _, state = described(client, Kind.BROKER)
    assert "disk_bytes" not in state
    durably = Durably()
    durably.logs.used, durably.logs.p99_us = 12_345, 678
    _, state = described(durably, Kind.BROKER)
    assert (state["disk_bytes"], state["sync_p99_us"]) == (12_345, 678)
    durably.create()
    durably.filled(b"x")
    _, state = described(durably, Kind.TOPICS)
    (topic,) = state["topics"]
    assert (topic["log_bytes"], topic["waiting_bytes"], topic["damage"]) == (
        durably.log.size,
        0,
        "",
    )


def test_a_topic_accounts_for_every_message(client):
    """P2: the conservation laws, reported as what is left over."""
    client.ask(CreateTopic(2, "t", ((1, 1), (2, 5), (3, 2), (5, 1))))
    client.ask(
        Publish(0, "t", batch((b"k", b""), (b"k", b""))), Publish(0, "t", batch(b"", (b"l", b"")))
    )
    client.broker.clock.advance(0.001)
    client.broker.sweep()
    client.ask(Publish(0, "t", batch(b"p")), Subscribe(3, "t"))
    _, state = described(client, Kind.TOPICS)
    (topic,) = state["topics"]
    dropped = prices.DECISION + len(
        batch((b"k", b""), (b"k", b"")).data
    )  # what is remembered of it (EXP-1)
    assert topic == {
        "name": "t",
        "epoch": 1_000,
        "explicit": True,
        "settings": {
            "retention_ttl_ms": 1,
            "compaction_window_ms": 5,
            "capacity": 2,
            "max_bytes": 67_108_864,
            "max_keys": 1,
            "journal_bytes": 0,
            "overflow": 0,
        },
        "head": 3,
        "next_offset": 4,
        "bytes": len(batch(b"p").data),
        "memory": prices.TOPIC + prices.ENTRY + len(batch(b"p").data) + prices.KEY + 1 + dropped,
        "subscriptions": 1,
        "needed": 4,
        "needed_us": None,
        "lag": 0,
        "slowest": "t#00000001.0000000003",
        "head_us": 2_000,
        "last_us": 2_000,
        "refused": 0,
        "published": 5,
        "stored": 4,
        "compacted": 1,
        "resident": 1,
        "expired": 2,
        "evicted": 1,
        "superseded": 0,
        "damaged": 0,
        "open_windows": 1,
        "forgotten_windows": 1,
        "left_over": {
            ("published - stored - compacted"): 0,
            "stored - resident - expired - evicted - superseded - damaged": 0,
        },
    }


def test_forgotten_windows_are_reported_even_when_none_is_open(client):
    """COM-6."""
    client.ask(
        CreateTopic(2, "t", ((2, 1), (5, 1))), Publish(0, "t", batch((b"k", b""), (b"l", b"")))
    )
    client.broker.clock.advance(1)
    client.broker.sweep()
    topic = described(client, Kind.TOPICS)[1]["topics"][0]
    assert (topic["open_windows"], topic["forgotten_windows"]) == (0, 1)


def test_without_compaction_there_are_no_windows(client):
    client.ask(Publish(0, "t", batch((b"k", b""))))
    topic = described(client, Kind.TOPICS)[1]["topics"][0]
    assert (topic["open_windows"], topic["forgotten_windows"], topic["explicit"]) == (0, 0, False)


def test_a_subscription_reports_its_position(client):
    """P2, CMT-5."""
    client.ask(CreateTopic(2, "t", ((1, FOREVER), (3, 3))), Publish(0, "t", batch(b"0", b"1")))
    client.ask(
        Publish(0, "t", batch(b"22", b"3")), Subscribe(7, "t", start=2, value=0, credit=1, until=9)
    )
    _, state = described(client, Kind.SUBSCRIPTIONS)
    (subscription,) = state["subscriptions"]
    assert subscription == {
        "name": "t#00000001.0000000007",
        "connection": 1,
        "client": "somebody",
        "id": 7,
        "topic": "t",
        "session": "",
        "start": 0,
        "committed": 0,
        "cursor": 2,
        "cursor_us": 1_000,
        "next_offset": 4,
        "until": 9,
        "redelivered_below": None,
        "waiting_for": "commit: offsets 0 to 1 are in flight",
        "waiting_for_code": "commit",
        "credit": 1,
        "credit_bytes": 8 * 1024 * 1024,
        "in_flight": 1,
        "in_flight_bytes": 1,
        "delivered": 1,
        "skipped": 1,
        "passed": 0,
        "ahead": 2,
        "lag": 2,
        "left_over": {"next_offset - start - delivered - skipped - passed - ahead": 0},
    }


def test_the_reason_why_the_next_message_is_not_delivered_yet():
    """CMT-5: four answers."""
    client = Conversation(broker_with(soft_output=1))
    client.ask(
        Subscribe(2, "ended", until=0),
        Subscribe(3, "commit"),
        Subscribe(4, "connection"),
        Subscribe(5, "up"),
    )
    client.ask(Publish(0, "commit", batch(b"")))
    client.tell(Publish(0, "connection", batch(b"")))
    state = json.loads(
        describe(
            client.broker, Describe(1, Kind.SUBSCRIPTIONS), ANYBODY, client.broker.clock.now_us()
        )[1]
    )
    told = {
        subscription["topic"]: subscription["waiting_for"]
        for subscription in state["subscriptions"]
    }
    assert {topic: text.split(":")[0] for topic, text in told.items()} == {
        "ended": "nothing", "commit": "commit", "connection": "the connection", "up": "messages",
    }  # fmt: skip


def test_a_reader_waiting_for_room_for_one_message_is_waiting_for_a_commit(client):
    """CMT-5: it has credit left, but not enough of it."""
    client.ask(Subscribe(2, "t", credit=9, credit_bytes=10))
    client.ask(Publish(0, "t", batch(b"p" * 9)), Publish(0, "t", batch(b"p" * 9)))
    (subscription,) = described(client, Kind.SUBSCRIPTIONS)[1]["subscriptions"]
    assert subscription["waiting_for"] == "commit: offsets 0 to 0 are in flight"
    client.ask(Commit(0, 2, 1))
    (subscription,) = described(client, Kind.SUBSCRIPTIONS)[1]["subscriptions"]
    assert subscription["cursor"] == 2


@pytest.fixture
def away(client):
    """A named subscription that was sent five messages, has settled two of them and has gone; two
    have come since.
    """
    client.ask(CreateTopic(2, "t", ((1, FOREVER),)))
    reader = Conversation(client.broker)
    reader.ask(Subscribe(2, "t", "billing", credit=9))
    client.ask(Publish(0, "t", batch(*[b""] * 5)))
    reader.heard()
    reader.ask(Commit(0, 2, 2))
    client.broker.disconnect(reader.manager, "GONE")
    client.ask(Publish(0, "t", batch(b"", b"")))
    return client


def test_a_name_whose_reader_is_away_shows_where_the_next_one_begins(away):
    """CMT-3: what was delivered and not settled comes again."""
    (subscription,) = described(away, Kind.SUBSCRIPTIONS)[1]["subscriptions"]
    assert subscription == {
        "name": "t#away.billing.1",
        "connection": 0,
        "client": "",
        "id": 0,
        "topic": "t",
        "session": "billing",
        "start": 2,
        "committed": 2,
        "cursor": 5,
        "cursor_us": 1_000,
        "next_offset": 7,
        "until": None,
        "redelivered_below": 5,
        "waiting_for": "its reader: away; the name is forgotten if none comes within 60 s",
        "waiting_for_code": "reader",
        "credit": 0,
        "credit_bytes": 0,
        "in_flight": 0,
        "in_flight_bytes": 0,
        "delivered": 3,
        "skipped": 0,
        "passed": 0,
        "ahead": 2,
        "lag": 2,
        "left_over": {},
    }
    assert described(away, Kind.TOPICS)[1]["topics"][0]["subscriptions"] == 0


def test_lag_that_was_committed_is_not_redelivered(client):
    """LAG-1: it was told to have missed that."""
    client.ask(CreateTopic(2, "t", ((1, 1),)), Publish(0, "t", batch(b"", b"")))
    client.broker.clock.advance(1)
    reader = Conversation(client.broker)
    assert reader.ask(Subscribe(2, "t", "billing", start=2, value=0))[1:] == [Lagged(2, 0, 2)]
    reader.ask(Commit(0, 2, 2))
    client.broker.disconnect(reader.manager, "GONE")
    client.ask(Publish(0, "t", batch(b"", b"")))
    (state,) = described(client, Kind.SUBSCRIPTIONS)[1]["subscriptions"]
    assert (state["committed"], state["cursor"], state["delivered"], state["ahead"]) == (2, 2, 0, 2)


def test_it_shows_how_long_it_is_kept_and_is_gone_afterwards(away):
    """CMT-3: the time begins with the sweep that finds its reader away."""

    def kept():
        subscriptions = described(away, Kind.SUBSCRIPTIONS)[1]["subscriptions"]
        return [
            subscription["waiting_for"].partition("within ")[2] for subscription in subscriptions
        ]

    away.broker.sweep()
    away.broker.clock.advance(20.4)
    assert kept() == ["40 s"]
    away.broker.clock.advance(40)
    assert kept() == ["0 s"]
    away.broker.sweep()
    assert kept() == []


def test_when_its_reader_is_back_it_is_listed_once(away):
    away.ask(Subscribe(9, "t", "billing"))
    (subscription,) = described(away, Kind.SUBSCRIPTIONS)[1]["subscriptions"]
    assert (subscription["connection"], subscription["session"], subscription["committed"]) == (
        1,
        "billing",
        2,
    )


def test_readers_present_and_away_are_paged_together(client):
    names = [
        ("t", "b"),
        ("t", "a"),
        ("u", "a"),
        ("t", "x#away.y.1"),
        ("t#away.x", "y"),
    ]  # two of them look alike
    for topic, name in names:
        reader = Conversation(client.broker)
        reader.ask(Subscribe(2, topic, name))
        client.broker.disconnect(reader.manager, "GONE")
    client.ask(Subscribe(2, "u"), Subscribe(3, "t"))
    told, after, more = [], "", True
    while more:
        more, state = described(client, Kind.SUBSCRIPTIONS, limit=1, after=after)
        (subscription,) = state["subscriptions"]
        told.append((subscription["topic"], subscription["session"]))
        assert subscription["name"] > after
        after = subscription["name"]
    assert len(told) == 7
    assert set(told) == {*names, ("u", ""), ("t", "")}
    assert told[:3] == [("t", ""), ("t", "a"), ("t", "b")]
    (only,) = described(client, Kind.SUBSCRIPTIONS, prefix="u#away")[1]["subscriptions"]
    assert (only["topic"], only["session"]) == ("u", "a")


def test_a_connection_reports_its_client_and_its_load():
    broker = broker_with()
    first, second = Conversation(broker, greeted=False), Conversation(broker)
    second.ask(
        Subscribe(2, "t", credit=9),
        Subscribe(3, "t", credit=0),
        Publish(0, "t", batch(b"")),
        Publish(0, "t", batch(b"")),
    )
    first.manager.peer = "192.0.2.1:4000"
    first.tell(Hello(1, client="somebody else"))
    _, state = described(second, Kind.CONNECTIONS)
    assert state["connections"] == [
        {
            "name": "00000001",
            "connection": 1,
            "peer": "192.0.2.1:4000",
            "user": "",
            "client": "somebody else",
            "since_us": 1_000,
            "state": "reading",
            "subscriptions": 0,
            "in_flight": 0,
            "unsent": 0,
            "requests": 1,
            "reply_bytes": sum(map(len, first.manager.replies.waiting)),
        },
        {
            "name": "00000002",
            "connection": 2,
            "peer": "",
            "user": "",
            "client": "somebody",
            "since_us": 1_000,
            "state": "reading",
            "subscriptions": 1,
            "in_flight": 2,
            "reply_bytes": 0,
            "unsent": 0,
            "requests": 6,
        },
    ]
    assert state["connections"][0]["reply_bytes"] > 0


def test_pages_are_in_order_and_complete(client):
    client.ask(*[CreateTopic(0, name) for name in ("b2", "c", "b1", "a", "b3")])

    def names(**request):
        more, state = described(client, Kind.TOPICS, **request)
        return [topic["name"] for topic in state["topics"]], more

    assert names() == (["a", "b1", "b2", "b3", "c"], False)
    assert names(limit=2) == (["a", "b1"], True)
    assert names(limit=2, after="b1") == (["b2", "b3"], True)
    assert names(limit=2, after="b3") == (["c"], False)
    assert names(prefix="b", limit=3) == (["b1", "b2", "b3"], False)
    assert names(prefix="b", after="b2") == (["b3"], False)
    assert names(prefix="x") == ([], False)
    assert names(limit=5) == (["a", "b1", "b2", "b3", "c"], False)


@pytest.mark.parametrize(("topics", "first"), [(7, 7), (8, 8), (9, 8)])
def test_a_page_has_at_most_8_entries(client, topics, first):
    client.ask(*[CreateTopic(0, f"{number:04}") for number in range(topics)])
    more, state = described(client, Kind.TOPICS, limit=65_535)
    assert (len(state["topics"]), more) == (first, topics > first)


def test_a_page_of_two_thousand_subscriptions_touches_only_those_of_the_page(monkeypatch):
    """P5: others wait while it is made."""
    broker = broker_with()
    for _ in range(10):
        reader = Conversation(broker)
        reader.ask(*[Subscribe(number, f"t{number % 7}") for number in range(2, 202)])
    seen = []
    monkeypatch.setattr(Reader, "ahead", property(lambda one: seen.append(one) or 0))
    _, state = described(
        Conversation(broker), Kind.SUBSCRIPTIONS, limit=65_535, after="t3#00000004"
    )
    assert len(state["subscriptions"]) == 8
    assert len(set(seen)) == 8
    taken = []
    after = Directory.after
    monkeypatch.setattr(
        Directory, "after", lambda *where: (taken.append(one) or one for one in after(*where))
    )
    described(Conversation(broker), Kind.SUBSCRIPTIONS, prefix="t3#")
    assert len(taken) <= 52, "one more than the page, to know whether there is another"


def test_a_prefix_finds_a_topics_readers(client):
    client.ask(Subscribe(2, "t"), Subscribe(3, "other"), Subscribe(10, "t"))
    Conversation(client.broker).ask(Subscribe(2, "t"))
    _, state = described(client, Kind.SUBSCRIPTIONS, prefix="t#")
    assert [(item["connection"], item["id"]) for item in state["subscriptions"]] == [
        (1, 2),
        (1, 10),
        (2, 2),
    ]


@pytest.mark.parametrize(
    ("request_", "field", "given"),
    [(Describe(5, 0, limit=0), "limit", "limit is 0;"), (Describe(5, 8), "kind", "kind is 8;")],
)
def test_what_cannot_be_described_is_refused(client, request_, field, given):
    (error,) = client.ask(request_)
    assert isinstance(error, Error)
    assert (error.code, error.field) == (ErrorCode.INVALID_FIELD, field)
    assert error.message.startswith(given)


def test_names_are_reported_unchanged(client):
    client.ask(CreateTopic(0, 'ä "quoted" ❄'))
    assert described(client, Kind.TOPICS)[1]["topics"][0]["name"] == 'ä "quoted" ❄'


def test_the_description_of_the_broker_costs_the_same_with_any_number_of_topics(monkeypatch):
    """P5: others wait while it is made."""
    broker = broker_with()
    Conversation(broker).ask(*[CreateTopic(0, f"{number:04}") for number in range(100)])
    monkeypatch.setattr(
        type(broker.registry), "__iter__", lambda _: pytest.fail("it looks at every topic")
    )
    _, state = described(Conversation(broker), Kind.BROKER)
    assert state["topics"] == 100


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_every_page_tells_of_which_run_and_of_which_time_it_is(client, kind):
    client.broker.clock.move_to(7_000)
    more, state = described(client, kind, prefix="t")
    assert not more
    assert (state["now_us"], state["boot"]) == (7_000, client.broker.boot)


# -- kinds 4 to 7 --------------------------------------------------------------------------------


def test_counters_are_those_of_the_topics(client):
    """Kind 4: the same numbers as kind 1."""
    client.ask(
        CreateTopic(2, "t", ((1, 1), (2, 5), (3, 2), (5, 1))), CreateTopic(3, "u", ((7, 1),))
    )
    client.ask(
        Publish(0, "t", batch((b"k", b""), (b"k", b""))), Publish(0, "t", batch(b"", (b"l", b"")))
    )
    client.broker.clock.advance(0.001)
    client.ask(Subscribe(5, "t", credit=1), Publish(0, "t", batch(b"p", b"q")))
    _, state = described(client, Kind.COUNTERS)
    topics = described(client, Kind.TOPICS)[1]["topics"]
    assert [row[0] for row in state["rows"]] == ["t", "u"]
    for row, topic in zip(state["rows"], topics, strict=True):
        counted = dict(zip(state["columns"], row, strict=True))
        assert counted.pop("capacity") == topic["settings"]["capacity"]
        assert (counted.pop("keys"), counted.pop("tombstones")) == (None, None), "it is no table"
        assert counted.items() <= topic.items()
    counted = dict(zip(state["columns"], state["rows"][0], strict=True))
    assert (counted["published"], counted["compacted"], counted["expired"], counted["evicted"]) == (
        6,
        1,
        2,
        1,
    )
    assert (counted["needed"], counted["needed_us"], counted["capacity"]) == (4, 2_000, 2)


@pytest.mark.parametrize(("topics", "first"), [(49, 49), (50, 50), (51, 50)])
def test_a_page_of_counters_has_at_most_50_topics(client, topics, first):
    client.ask(*[CreateTopic(0, f"{number:04}") for number in range(topics)])
    more, state = described(client, Kind.COUNTERS, limit=65_535)
    assert (len(state["rows"]), more) == (first, topics > first)
    more, state = described(client, Kind.COUNTERS, prefix="00", after="0009", limit=3)
    assert ([row[0] for row in state["rows"]], more) == (["0010", "0011", "0012"], True)


def test_windows_are_told_the_newest_first(client):
    """Kind 5."""
    client.ask(
        CreateTopic(2, "t", ((2, 2),)), Publish(0, "t", batch((b"a", b""), (b"\xff\x00", b"")))
    )
    client.broker.clock.advance(0.001)
    client.ask(Publish(0, "t", batch((b"c", b""), (b"a", b""))), CreateTopic(3, "t2", ((2, 2),)))
    client.ask(Publish(0, "t2", batch((b"other", b""))))
    more, state = described(client, Kind.WINDOWS, prefix="t")
    assert (state["windows"], more) == ([["Yw==", 2_000], ["/wA=", 1_000], ["YQ==", 1_000]], False)
    assert described(client, Kind.WINDOWS, prefix="t", limit=1)[1]["windows"] == [["Yw==", 2_000]]
    client.broker.clock.advance(0.001)
    assert described(client, Kind.WINDOWS, prefix="t")[1]["windows"] == [["Yw==", 2_000]]


def test_a_page_has_at_most_256_windows_and_fewer_if_their_keys_are_long(client):
    client.ask(CreateTopic(2, "t", ((2, 9),)))
    client.ask(*[Publish(0, "t", batch((b"%d" % number, b""))) for number in range(300)])
    windows = described(client, Kind.WINDOWS, prefix="t", limit=65_535)[1]["windows"]
    assert [base64.b64decode(key) for key, _ in windows] == [
        b"%d" % number for number in range(299, 43, -1)
    ]
    client.ask(*[Publish(0, "t", batch((b"%01024d" % number, b""))) for number in range(300)])
    assert len(described(client, Kind.WINDOWS, prefix="t", limit=65_535)[1]["windows"]) == 32


def test_marks_tell_when_messages_were_accepted(client):
    """Kind 6: what has expired is left out, even if no sweep has dropped it."""
    client.ask(CreateTopic(2, "t", ((1, 500),)))
    for _ in range(300):
        client.ask(Publish(0, "t", batch(b"", b"")))
        client.broker.clock.advance(0.001)
    more, state = described(client, Kind.MARKS, prefix="t", limit=65_535)
    assert (len(state["marks"]), more) == (128, False)
    assert (state["marks"][0], state["marks"][-1]) == ([0, 1_000], [598, 300_000])
    assert described(client, Kind.MARKS, prefix="t", limit=2)[1]["marks"] == [
        [0, 1_000],
        [598, 300_000],
    ]
    client.broker.clock.advance(0.490)
    marks = described(client, Kind.MARKS, prefix="t")[1]["marks"]
    (topic,) = described(client, Kind.TOPICS)[1]["topics"]
    assert (marks[0], marks[-1]) == ([topic["head"], topic["head_us"]], [598, topic["last_us"]])
    assert topic["head"] == 2 * (300 - len(marks)) > 400


def lags(client, **request):
    more, state = described(client, Kind.FURTHEST, prefix="t", **request)
    assert not more
    return [
        (row["connection"], row["id"], row["session"], row["cursor"])
        for row in state["subscriptions"]
    ]


def test_the_readers_furthest_behind_come_first(client):
    """Kind 7: rows as in kind 2; of a named position, all that is not settled counts."""
    client.ask(CreateTopic(2, "t", ((1, FOREVER),)), Publish(0, "t", batch(*[b""] * 9)))
    client.ask(
        *[
            Subscribe(number, "t", start=2, value=start, credit=1)
            for number, start in ((3, 5), (4, 2), (6, 7))
        ]
    )
    client.ask(
        Subscribe(7, "t", "here", start=2, value=0, credit=9),
        Subscribe(8, "t", "away", start=2, value=1),
    )
    client.ask(Subscribe(9, "t2", start=2, value=0), Unsubscribe(10, 8))
    assert lags(client) == [
        (1, 7, "here", 9), (0, 0, "away", 2), (1, 4, "", 3), (1, 3, "", 6), (1, 6, "", 8)
    ]  # fmt: skip
    assert lags(client, limit=2) == [(1, 7, "here", 9), (0, 0, "away", 2)]
    rows = described(client, Kind.FURTHEST, prefix="t")[1]["subscriptions"]
    listed = described(client, Kind.SUBSCRIPTIONS, prefix="t#")[1]["subscriptions"]
    assert sorted(rows, key=lambda row: row["name"]) == listed
    (topic,) = described(client, Kind.TOPICS, prefix="t", limit=1)[1]["topics"]
    assert topic["slowest"] == rows[0]["name"]


def test_at_most_16_readers_are_told_and_none_that_has_ended(client):
    client.ask(CreateTopic(2, "t", ((1, FOREVER),)), Publish(0, "t", batch(*[b""] * 30)))
    client.ask(
        *[Subscribe(9 + number, "t", start=2, value=29 - number, credit=1) for number in range(25)]
    )
    client.ask(Subscribe(50, "t", start=2, value=0, until=1))
    assert [row[1] for row in lags(client, limit=65_535)] == [33 - number for number in range(16)]


@pytest.mark.parametrize(
    ("kind", "empty"),
    [
        (Kind.WINDOWS, {"windows": []}),
        (Kind.MARKS, {"marks": []}),
        (Kind.FURTHEST, {"subscriptions": []}),
    ],
)
@pytest.mark.parametrize("name", ["", "none", "t", "empty"])
def test_of_a_topic_that_is_not_there_or_has_nothing_nothing_is_told(client, kind, empty, name):
    """A prefix is the whole name here."""
    client.ask(CreateTopic(2, "topic", ((1, FOREVER), (2, FOREVER))), CreateTopic(3, "empty"))
    client.ask(Publish(0, "topic", batch((b"k", b""))), Subscribe(4, "topic"))
    _, state = described(client, kind, prefix=name)
    assert state == empty | {"now_us": 1_000, "boot": client.broker.boot}


# -- connections that have ended -----------------------------------------------------------------


def test_the_latest_ends_are_told_with_their_reasons():
    broker = broker_with()
    watch, other = Conversation(broker), Conversation(broker)
    other.manager.peer = "192.0.2.1:4000"
    broker.clock.move_to(5_000)
    broker.disconnect(other.manager, "SLOW_CONSUMER: it read nothing for 10 s")
    _, state = described(watch, Kind.BROKER)
    reason = "SLOW_CONSUMER: it read nothing for 10 s"
    assert state["recent_ends"] == [[5_000, 2, "somebody", "192.0.2.1:4000", reason]]


def test_64_ends_are_told_and_of_a_reason_200_characters():
    broker = broker_with()
    watch = Conversation(broker)
    for _ in range(70):
        broker.disconnect(Conversation(broker).manager, "x" * 1_000)
    ends = described(watch, Kind.BROKER)[1]["recent_ends"]
    assert [end[1] for end in ends] == list(range(8, 72))
    assert {end[4] for end in ends} == {"x" * 200}


def test_connections_that_were_turned_away_are_counted_and_push_no_other_end_out():
    broker = broker_with()
    watch = Conversation(broker)
    broker.disconnect(Conversation(broker).manager, "SLOW_CONSUMER: it read nothing for 10 s")
    for _ in range(70):
        broker.disconnect(Conversation(broker).manager, "TURNED_AWAY: AUTH_FAILED")
    state = described(watch, Kind.BROKER)[1]
    assert [end[1] for end in state["recent_ends"]] == [2]
    assert state["disconnects"]["TURNED_AWAY"] == 70


# -- the document --------------------------------------------------------------------------------

DOCUMENT = (Path(__file__).parents[3] / "docs" / "use" / "describe.md").read_text(encoding="utf-8")


def fields(kind, title):
    """Every field that a broker with a little of everything reports, and those that the document's
    section has.
    """
    durably = Durably()
    durably.create(RETENTION_TTL_MS=FOREVER)
    durably.filled(b"x")
    durably.ask(Subscribe(2, "t", "n"))
    durably.broker.jumps, durably.broker.clock_ahead_us = ((7, 5),), 3
    page = described(durably, kind)[1]
    found = page if kind == Kind.BROKER else page[kind.name.lower()][0]
    if kind == Kind.SUBSCRIPTIONS:
        # A shared name and its workers report more than others.
        _, client = work()
        client.publish((b"k", b""), (b"k", b""))
        client.share(by_key=True)
        client.share(by_key=True)
        for row in client.rows():
            found |= row | row.get("shared", {}) | row.get("worker", {})
    if kind == Kind.TOPICS:
        # `$topics` is a table, and reports more than others.
        client = Following(broker_with())
        client.follow()
        found |= described(client, kind)[1]["topics"][0]
    section = DOCUMENT.split(f"## Kind {kind.value}: {title}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    if kind == Kind.SUBSCRIPTIONS:
        rows += ["`has` `overdue` `since_us` `timeout_us`"]  # in the row of `worker`
    return set(found), {name for row in rows for name in re.findall("`([a-z0-9_]+)`", row)}


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (Kind.BROKER, "the broker"), (Kind.TOPICS, "topics"), (Kind.SUBSCRIPTIONS, "subscriptions"),
        (Kind.CONNECTIONS, "connections"),
    ],
)  # fmt: skip
def test_the_document_has_every_field_and_no_other(kind, title):
    reported, documented = fields(kind, title)
    assert reported == documented


def test_the_document_has_every_column():
    section = DOCUMENT.split("## Kind 4: counters\n")[1].split("\n## ")[0]
    assert set(COLUMNS) <= set(re.findall("`([a-z_]+)`", section))
