"""The broker's state as metrics: values, names, and how many there can be."""

import shutil
import subprocess

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from zaichik.apps.web import metrics
from zaichik.apps.web.metrics import Chosen, Metrics, Reading, Totals
from zaichik.core.settings import BrokerSettings

US = 1_000_000
NOW_US = 1_700_000_000 * US


def topic(name, **changes):
    known = {
        "name": name,
        "head": 30,
        "next_offset": 100,
        "bytes": 700,
        "published": 140,
        "compacted": 40,
        "expired": 20,
        "evicted": 10,
        "damaged": 2,
        "refused": 3,
        "subscriptions": 2,
        "needed": 90,
        "needed_us": NOW_US - 5 * US,
        "capacity": 1000,
    }
    return known | changes


def table(name, **changes):
    known = {"superseded": 8, "resident": 60, "lag": 4, "keys": 50, "tombstones": 3}
    return topic(name, **known | changes)


def session(topic, name, **changes):
    return {
        "topic": topic,
        "session": name,
        "next_offset": 100,
        "committed": 80,
        "in_flight": 7,
        "connection": 4,
    } | changes


def broker(**changes):
    known = {
        "name": "zaichik 1.2.3",
        "boot": 77,
        "now_us": NOW_US,
        "limits": BrokerSettings().limits(),
        "connections": 5,
        "disconnects": {"CLOSED": 4},
        "access": {"login_ok": 9, "stale_since_us": NOW_US - US},
        "subscriptions": 6,
        "topics": 7,
        "bytes": 800,
        "memory": 900,
        "resident": None,
        "producers": 8,
        "sessions": 3,
        "disk_bytes": 5000,
        "sync_p99_us": 2500,
    }
    return known | changes


def collector(*, topics=(), sessions=(), most=(200, 200), prefix="", **changes):
    found = Metrics(*most)
    found.reading, found.prefix = Reading(broker(**changes), list(topics), list(sessions)), prefix
    return found


def values(collected):
    """Returns all series as they are written, as NAME{LABELS}: value."""
    found = {}
    for family in parse(generate_latest(collected).decode()):
        for sample in family.samples:
            labels = ",".join(sorted(sample.labels.values()))
            key = f"{sample.name}{{{labels}}}"
            assert key not in found, "a series comes once"
            found[key] = sample.value
    return found


def test_the_brokers_state_is_told_in_base_units():
    found = values(collector())
    assert found["zaichik_build_info{1,1.2.3}"] == 1
    assert found["zaichik_up{}"] == 1
    assert (found["zaichik_connections{}"], found["zaichik_memory_bytes{}"]) == (5, 900)
    assert (found["zaichik_disk_bytes{}"], found["zaichik_sync_p99_seconds{}"]) == (5000, 0.0025)
    assert (
        found["zaichik_disconnects_total{CLOSED}"],
        found["zaichik_disconnects_total{SLOW_CONSUMER}"],
    ) == (4, 0)
    assert found["zaichik_access_events_total{login_ok}"] == 9
    assert found["zaichik_access_stale_seconds{}"] == 1
    assert found["zaichik_boot_time_seconds{}"] == NOW_US / US


def test_what_the_broker_does_not_report_is_missing_and_not_zero():
    found = values(collector(topics=[topic("t", refused=None, needed_us=None)]))
    assert not {
        "zaichik_resident_bytes{}",
        "zaichik_topic_refused_batches_total{t}",
        "zaichik_topic_lag_seconds{t}",
    } & set(found)


def test_a_broker_of_the_first_edition_has_the_metrics_that_it_tells_of():
    old = collector()
    for name in ("access", "memory", "resident", "disk_bytes", "sync_p99_us"):
        del old.reading.broker[name]
    found = values(old)
    assert (found["zaichik_up{}"], found["zaichik_connections{}"]) == (1, 5)
    assert not {"zaichik_memory_bytes{}", "zaichik_access_events_total{login_ok}"} & set(found)


def test_a_topics_counters_and_lag():
    found = values(collector(topics=[topic("t"), topic("read", needed=100, needed_us=None)]))
    told = {
        name.removeprefix("zaichik_topic_").removesuffix("{t}"): value
        for name, value in found.items()
        if "{t}" in name
    }
    assert told == {
        "published_messages_total": 140,
        "stored_messages_total": 100,
        "compacted_messages_total": 40,
        "expired_messages_total": 20,
        "evicted_messages_total": 10,
        "damaged_messages_total": 2,
        "refused_batches_total": 3,
        "resident_messages": 68,
        "capacity_messages": 1000,
        "bytes": 700,
        "readers": 2,
        "lag_messages": 10,
        "lag_seconds": 5,
        "conservation_error_messages": 0,
    }
    assert (
        found["zaichik_topic_lag_messages{read}"],
        found["zaichik_topic_lag_seconds{read}"],
    ) == (0, 0)


def test_a_table_has_keys_and_its_holes_are_neither_lost_nor_lag():
    plain = topic("p", superseded=0, lag=10, keys=None, tombstones=None)
    found = values(collector(topics=[table("t"), plain]))
    told = [
        found[f"zaichik_topic_{name}{{t}}"]
        for name in (
            "keys",
            "tombstones",
            "superseded_messages_total",
            "resident_messages",
            "lag_messages",
            "conservation_error_messages",
        )
    ]
    assert told == [50, 3, 8, 60, 4, 0]
    assert found["zaichik_topic_superseded_messages_total{p}"] == 0
    assert "zaichik_topic_keys{p}" not in found, "it is no table"


@pytest.mark.parametrize(
    "wrong", [{"published": 141}, {"compacted": 41}, {"expired": 19}, {"evicted": 12}, {"head": 29}]
)
def test_a_message_without_exactly_one_fate_shows(wrong):
    assert (
        values(collector(topics=[topic("t", **wrong)]))[
            "zaichik_topic_conservation_error_messages{t}"
        ]
        > 0
    )


def test_named_subscriptions_are_told_with_and_without_a_reader():
    found = values(
        collector(sessions=[session("t", "b"), session("t", "a", connection=0, in_flight=0)])
    )
    assert found["zaichik_session_lag_messages{b,t}"] == 20
    assert found["zaichik_session_in_flight_messages{b,t}"] == 7
    assert (
        found["zaichik_session_reader_present{b,t}"],
        found["zaichik_session_reader_present{a,t}"],
    ) == (1, 0)


def test_what_a_named_subscription_to_a_table_has_to_settle_is_without_holes():
    rows = [
        session("t", "live", ahead=10, lag=4, passed=9, delivered=11),
        session("t", "away", ahead=10, lag=4, passed=0, delivered=3, connection=0, in_flight=0),
        session("t", "plain", ahead=10, lag=10, passed=0, delivered=11),
    ]
    found = values(collector(sessions=rows))
    names = ("live", "away", "plain")
    assert [found[f"zaichik_session_lag_messages{{{name},t}}"] for name in names] == [11, 7, 20]


def test_a_shared_name_tells_what_is_open_and_dead_and_for_how_long():
    shared = {"workers": 2, "open": 7, "with_workers": 4, "dead": 3, "oldest_us": NOW_US - 90 * US}
    how = {"connection": 0, "in_flight": 0, "passed": 0, "delivered": 9, "ahead": 12, "lag": 11}
    rows = [
        session("t", "jobs", shared=shared, **how),
        session("t", "idle", shared=shared | {"workers": 0, "oldest_us": None}, **how),
        session("t", "other"),
    ]
    found = values(collector(sessions=rows))
    names = ("workers", "open_messages", "dead_messages", "oldest_seconds")
    told = {
        name: [found[f"zaichik_shared_name_{each}{{{name},t}}"] for each in names]
        for name in ("jobs", "idle")
    }
    assert told == {"jobs": [2, 7, 3, 90], "idle": [0, 7, 3, 0]}
    assert "zaichik_shared_name_workers{other,t}" not in found
    names = ("lag_messages", "in_flight_messages", "reader_present")
    assert [found[f"zaichik_session_{each}{{jobs,t}}"] for each in names] == [18, 4, 1]
    assert found["zaichik_session_reader_present{idle,t}"] == 0


def test_of_two_users_with_the_same_name_the_one_furthest_behind_counts():
    both = [session("t", "b"), session("t", "b", committed=50), session("t", "b", committed=60)]
    assert values(collector(sessions=both))["zaichik_session_lag_messages{b,t}"] == 50


def test_a_broker_that_has_not_answered_is_down():
    assert list(values(Metrics(1, 1))) == [
        "zaichik_build_info{,1}",
        "zaichik_up{}",
        "zaichik_view_streams{}",
        "zaichik_http_streams{}",
        "zaichik_http_answers_total{2xx}",
        "zaichik_http_answers_total{4xx}",
        "zaichik_http_answers_total{5xx}",
        "zaichik_http_published_messages_total{}",
    ]


# -- how many ------------------------------------------------------------------------------------


def test_there_are_no_more_series_than_were_asked_for():
    topics = [table(f"t{number}", bytes=number) for number in range(300)]
    sessions = [session("t1", f"s{number}") for number in range(300)]
    found = values(collector(topics=topics, sessions=sessions, most=(20, 30)))
    assert sum("_topic_" in name for name in found) == 20 * len(metrics.TOPICS)
    assert sum("_session_" in name for name in found) == 30 * len(metrics.SESSIONS)
    assert found["zaichik_topics_unlisted{}"] == 280
    assert "zaichik_topic_bytes{t299}" in found, "the largest are listed"


def test_few_names_are_labels_and_none_that_a_stranger_makes_up():
    assert {label for family in metrics.ALL for label in family.labels} == {
        "topic", "session", "name", "reason", "event", "version", "protocol", "kind", "status",
    }  # fmt: skip


def test_a_series_stays_while_there_is_what_it_tells_of():
    chosen = Chosen(2)
    assert chosen.of({("a",): 5, ("b",): 4, ("c",): 3}) == [("a",), ("b",)]
    assert chosen.of({("a",): 0, ("b",): 0, ("c",): 9, ("d",): 10}) == [("a",), ("b",)]
    assert chosen.of({("b",): 0, ("c",): 9, ("d",): 10}) == [("b",), ("d",)]


def test_asking_for_others_tells_those_only_and_moves_nothing():
    topics = [topic(name, bytes=size) for name, size in (("a", 3), ("b", 2), ("c", 1))]
    found = collector(topics=topics, most=(1, 1))
    assert "zaichik_topic_bytes{a}" in values(found)
    found.reading, found.prefix = Reading(broker(), topics[2:], []), "c"
    assert {name for name in values(found) if "topic_bytes" in name} == {"zaichik_topic_bytes{c}"}
    assert "zaichik_connections{}" not in values(found), "which would be there twice"
    found.reading, found.prefix = Reading(broker(), [topic("a", bytes=0), *topics[1:]], []), ""
    assert "zaichik_topic_bytes{a}" in values(found)


def test_strangers_who_ask_for_many_prefixes_fill_no_memory():
    found = collector(topics=[topic("t")])
    for number in range(100):
        found.prefix = f"p{number}"
        values(found)
    assert len(found._chosen) == metrics.MOST_PREFIXES


# -- totals --------------------------------------------------------------------------------------


def counted(name, published):
    return {
        "name": name,
        "published": published,
        "next_offset": published,
        "compacted": 0,
        "expired": 0,
        "evicted": 0,
    }


def test_totals_count_what_is_new_and_do_not_fall_when_a_topic_is_deleted():
    totals = Totals()
    sums = []
    for topics in (
        [counted("a", 100), counted("b", 50)],  # before anybody looked
        [counted("a", 110), counted("b", 50), counted("new", 7)],
        [counted("a", 110)],
        [counted("a", 4)],  # another one of the same name
    ):
        totals.add(topics)
        sums.append(totals.sums["published"])
    assert sums == [0, 17, 17, 21]


def again(name, published, epoch, **changes):
    return counted(name, published) | {"epoch": epoch} | changes


def test_totals_go_on_when_a_topic_is_made_again_with_more_than_it_had():
    totals = Totals()
    sums = []
    for topics in (
        [],
        [again("a", 5, 1)],
        [again("a", 7, 2)],
        [],
        [again("a", 9, 3)],
        [again("a", 9, 3)],
        [again("a", 9, 4)],
    ):
        totals.add(topics)
        sums.append(totals.sums["published"])
    assert sums == [0, 5, 12, 12, 21, 21, 30]


def test_a_counter_that_does_not_survive_a_restart_moves_no_other():
    """A durable topic has the same epoch after it."""
    totals = Totals()
    for refused in (0, 4, 1):
        totals.add([again("a", 100, 1, refused=refused)])
    assert (totals.sums["published"], totals.sums["refused"]) == (0, 5)


def published(found, *topics, prefix=""):
    """Returns the series of these topics' counter of messages."""
    found.reading, found.prefix = Reading(broker(), list(topics), []), prefix
    name = "zaichik_topic_published_messages_total"
    told = values(found)
    return {
        series.removeprefix(f"{name}{{").removesuffix("}"): value
        for series, value in told.items()
        if series.startswith(name)
    }


def test_the_counters_of_a_topic_go_on_when_it_is_made_again():
    found = collector()
    assert published(found, topic("t", published=5, epoch=1)) == {"t": 5}
    assert published(found, topic("t", published=7, epoch=2)) == {"t": 12}
    assert published(found, topic("t", published=8, epoch=2)) == {"t": 13}
    assert published(found) == {}, "a series ends with its topic"
    assert published(found, topic("t", published=1, epoch=3)) == {"t": 14}
    resident = values(found)["zaichik_topic_resident_messages{t}"]
    assert resident == 68, "what can be read is that of this topic alone"


def test_a_topic_of_a_broker_that_tells_no_epoch_goes_on_too_if_a_counter_has_fallen():
    found = collector()
    assert published(found, topic("t", published=150)) == {"t": 150}
    assert published(found, topic("t", published=140)) == {"t": 290}


def test_of_a_million_topics_that_come_and_go_only_the_last_are_remembered(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_GONE", 3)
    found = collector()
    stays = topic("stays", published=1, epoch=1)
    for number in range(20):
        published(found, stays, topic(f"t{number}", epoch=number + 2))
        published(found, topic(f"t{number}", epoch=number + 2), prefix="t")
        assert len(found._names._known) <= 2 + 3
    assert published(found, topic("stays", published=1, epoch=50)) == {"stays": 2}
    assert published(found, topic("t19", published=1, epoch=51), prefix="t") == {"t19": 141}
    assert published(found, topic("t2", published=1, epoch=52)) == {"t2": 1}, "too long ago"


# -- the format ----------------------------------------------------------------------------------

EVIL = 'a"\\\n}\u202e\x1b\u2028'


def test_names_of_topics_cannot_forge_series():
    found = values(collector(topics=[topic(EVIL)], sessions=[session(EVIL, EVIL)]))
    assert found[f"zaichik_topic_bytes{{{EVIL}}}"] == 700
    assert len(found) == len(values(collector(topics=[topic("t")], sessions=[session("t", "s")])))


def test_both_formats_tell_the_same_and_the_table_names_all_of_it():
    found = collector(topics=[topic("t")], sessions=[session("t", "s")])
    found.polls.labels("broker").observe(0.01)
    plain = {it.name: (it.type, it.documentation) for it in parse(generate_latest(found).decode())}
    open_ = {
        it.name: (it.type, it.documentation)
        for it in parse_openmetrics(generate_openmetrics(found).decode())
    }
    assert plain == open_ == {family.name: (family.type, family.text) for family in metrics.ALL}


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool (Debian: apt install prometheus)"
)
def test_promtool_finds_nothing_to_improve():
    found = collector(topics=[topic("t"), topic(EVIL)], sessions=[session("t", "s")])
    found.polls.labels("broker").observe(0.01)
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=generate_latest(found),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
