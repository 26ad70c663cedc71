"""`zaichik topics`."""

import re

import pytest

from zaichik import endpoint
from zaichik.cli.commands import topics
from zaichik.client import blocking

TITLES = "topic messages next published compacted expired evicted readers retention window bytes"

pytestmark = pytest.mark.usefixtures("connected")


def test_a_line_for_every_topic(zaichik, topic):
    zaichik("create", f"{topic}.a", "--compaction-window", "1h", "--retention", "6h")
    zaichik("publish", f"{topic}.a", "x", "y", "z", "--key", "k")
    zaichik("publish", f"{topic}.b", "x")
    header, *lines = zaichik("topics", f"{topic}.").out.splitlines()
    assert " ".join(header.split()) == TITLES
    assert lines[0].split()[:10] == f"{topic}.a 1 1 3 2 0 0 0 6h 1h".split()
    assert lines[1].split()[:10] == f"{topic}.b 1 1 1 0 0 0 0 forever off".split()


def test_a_table_is_told_with_its_keys_and_what_was_superseded(zaichik, topic):
    """TAB-7: the columns are there if one of the topics is a table."""
    zaichik("create", f"{topic}.a", "--table")
    zaichik("publish", f"{topic}.a", "x", "y", "z", "--key", "k")
    zaichik("publish", f"{topic}.a", "--key", "gone", "--tombstone")
    zaichik("publish", f"{topic}.b", "x")
    header, *lines = zaichik("topics", f"{topic}.").out.splitlines()
    assert " ".join(header.split()) == TITLES.replace(
        "evicted", "evicted superseded keys tombstones"
    )
    assert lines[0].split()[:12] == f"{topic}.a 2 4 4 0 0 0 2 1 1 0 forever".split()
    assert lines[1].split()[:11] == f"{topic}.b 1 1 1 0 0 0 0 - - 0".split()


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [
        ("80", ["next", "retention", "window", "bytes"]),
        ("100", ["retention", "window"]),
        ("120", []),
    ],
)
def test_on_a_narrow_terminal_columns_are_left_out_and_no_heading_is_broken(
    zaichik, on_terminal, topic, columns, left_out
):
    name = f"{topic}.{'long' * 10}"
    zaichik("publish", name, "x")
    code, text = on_terminal("topics", topic, COLUMNS=columns, NO_COLOR="1")
    header, first, *rest = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert (code, header.split()) == (
        0,
        [title for title in TITLES.split() if title not in left_out],
    )
    assert name.startswith(first.split()[0])
    told = " ".join(" ".join(rest).split())
    assert (
        f"no room for {', '.join(left_out)}: make the terminal wider" in told
        if left_out
        else "room" not in told
    )


def test_json(zaichik, topic):
    zaichik("publish", topic, "x")
    (state,) = [
        state for state in zaichik("topics", topic, "--json").json if state["name"] == topic
    ]
    assert (state["published"], state["resident"], state["settings"]["compaction_window_ms"]) == (
        1,
        1,
        0,
    )


def test_no_topics(zaichik):
    result = zaichik("topics", "no such prefix")
    assert (result.code, result.out, result.err) == (
        0,
        "",
        "no topic begins with 'no such prefix'\n",
    )
    assert zaichik("topics", "no such prefix", "--json").json == []


def test_a_miscount_of_the_broker_is_shown(zaichik, topic, monkeypatch):
    zaichik("publish", topic, "x")
    state = {
        **zaichik("topics", topic, "--json").json[0],
        "left_over": {"published - stored": 2, "other": 0},
    }
    assert (
        topics.imbalance(state)
        == f"{topic} does not add up, which is a bug of the broker: published - stored = 2, not 0"
    )

    async def topics_there(*_):
        return [state]

    async def topic_there(*_):
        return state

    monkeypatch.setattr("zaichik.client.client.Client.topics", topics_there)
    monkeypatch.setattr("zaichik.client.client.Client.topic", topic_there)
    sentence = (
        f"!! {topic} does not add up, which is a bug of the broker: published - stored = 2, not 0"
    )
    assert zaichik("topics").out.splitlines()[-1] == sentence
    assert sentence in zaichik("describe", topic).out.splitlines()


@pytest.mark.parametrize(("command", "part"), [("describe", "subscriptions"), ("audit", "sums")])
def test_a_reader_of_a_topic_with_a_longer_name_is_not_one_of_this_topic(
    zaichik, topic, broker, command, part
):
    with blocking.connect(endpoint(broker)) as client, client.subscribe(f"{topic}#eu"):
        zaichik("publish", topic, "x")
        assert [it for it in zaichik(command, topic, "--json").json[part] if "#eu" in str(it)] == []
        assert [
            it for it in zaichik(command, f"{topic}#eu", "--json").json[part] if "#eu" in str(it)
        ] != []


@pytest.mark.parametrize("command", ["describe", "audit", "delete", "explain", "record", "stats"])
def test_a_topic_that_is_not_there_is_named_in_the_same_way_by_every_command(
    zaichik, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = zaichik(command, "no.where", *(["--offset", "0"] if command == "explain" else []))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("zaichik: there is no topic 'no.where'")
