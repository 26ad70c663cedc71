"""`zaichik explain TOPIC`: why a message did not arrive."""

from datetime import datetime

import pytest

from zaichik.client.client import Client
from zaichik.client.errors import Unsupported
from zaichik_protocol import Error, ErrorCode, Explain

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def orders(zaichik, topic):
    """Two messages of one key in a topic with a window of an hour: the second was kept out."""
    zaichik("create", topic, "--retention", "1h", "--compaction-window", "1h")
    zaichik("publish", topic, "one", "--key", "4711")
    zaichik("publish", topic, "two", "--key", "4711")
    return topic


def test_verdicts_are_shown_with_rule_evidence_and_what_to_do(zaichik, orders):
    result = zaichik("explain", orders, "--key", "4711")
    title, _, kept_out, evidence, advice, *rest = result.out.splitlines()
    assert (result.code, result.err, title) == (0, "", f"a message of {orders}, key 4711")
    assert (
        kept_out
        == "kept out: compaction dropped it: offset 0 had opened the window of key 4711 (COM-2)"
    )
    assert ", compaction window 1h, winner 0, opened " in evidence
    assert advice.startswith("    next: ")
    assert rest[1].startswith("window open: ")


def test_a_message_that_a_table_has_superseded(zaichik, topic):
    """TAB-7."""
    zaichik("create", topic, "--table")
    zaichik("publish", topic, "one", "two", "--key", "k")
    _, _, verdict, *_ = zaichik("explain", topic, "--offset", "0").out.splitlines()
    assert verdict.startswith("superseded: a later message has its key")
    assert verdict.endswith(" (TAB-2)")
    assert zaichik("audit", topic).code == 0


def test_a_message_and_its_subscription(zaichik, start, orders):
    program = start("subscribe", orders, "--name", "billing")
    program.stdout.readline()
    out = zaichik("explain", orders, "--offset", "0").out
    title, _, readable, evidence, *_ = out.splitlines()
    assert (title, readable) == (
        f"offset 0 of {orders}",
        "readable: it is stored, and can be read (RET-2)",
    )
    assert evidence.startswith("    head 0, next offset 1, accepted 2")
    assert ", subscription billing, " in out
    assert ", zaichik subscribe: it was delivered" in out
    alone = zaichik("explain", orders, "--offset", "0", "--subscription", "billing", "--json").json
    assert [it["evidence"].get("name") for it in alone["verdicts"]] == [None, "billing"]


def test_a_terminal_has_lines_that_end_between_words(zaichik, on_terminal, orders):
    words = "explain", orders, "--key", "4711"
    code, output = on_terminal(*words, TERM="dumb", COLUMNS="80")
    lines = output.splitlines()
    assert (code, max(map(len, lines)) <= 80) == (0, True)
    assert any(line.startswith("    next: ") for line in lines)
    assert output.split() == zaichik(*words).out.split()  # no word is cut


def test_the_message_nearest_to_a_time(zaichik, orders):
    for time in ("2020-01-31T08:00", datetime.now().astimezone().isoformat()):
        answer = zaichik("explain", orders, "--key", "4711", "--at", time, "--json").json
        assert (answer["topic"], answer["key"]) == (orders, "4711")
    assert (
        zaichik("explain", orders, "--key", "4711", "--at", "2020-01-31", "--json").json["offset"]
        == 0
    )


def test_keys_that_are_no_text(zaichik, topic):
    """They are the bytes that were typed, and are shown escaped, once."""
    zaichik("publish", topic, "one", "--key", "\x1b[2J")
    out = zaichik("explain", topic, "--key", "\x1b[2J\udcff").out
    assert "\x1b" not in out
    assert out.count(r"key \x1b[2J\xff") == 2
    assert zaichik("explain", topic, "--key", "\x1b[2J", "--json").json["offset"] == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--offset", "0"], 1, "there is no topic"),
        (["--key", "k"], 1, "there is no topic"),
        (["--json"], 2, "give either --offset or --key"),
        (["--offset", "0", "--key", "k"], 2, "give either --offset or --key"),
        (["--offset", "-1"], 2, "--offset"),
        (["--offset", "18446744073709551616"], 2, "is not a whole number from 0 to"),
        (["--offset", "0", "--at", "2026-01-01"], 2, "--at goes with --key"),
        (["--key", ""], 2, "a message without a key has no key to be found by"),
        (["--key", "k", "--at", "yesterday"], 2, "'yesterday' is not a time"),
        (["--key", "k", "--at", "17"], 2, "'17' is not a time"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(zaichik, topic, words, code, sentence):
    result = zaichik("explain", topic + "-that-is-not-there", *words)
    assert (result.code, result.out, result.err.count("\n")) == (code, "", 1)
    assert sentence in result.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--offset", "0", "--subscription", "nobody"], "has no subscription 'nobody'"),
        (["--key", "k" * 2000], "key is 2000"),
        (["--key", "k", "--at", "2100-01-01"], " days from now; it must be now or earlier"),
    ],
)
def test_what_never_was_is_one_sentence(zaichik, orders, words, sentence):
    result = zaichik("explain", orders, *words)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert sentence in result.err


def test_an_older_broker(zaichik, monkeypatch, topic):
    async def refused(*_, **__):
        raise Unsupported(
            Error(1, ErrorCode.UNSUPPORTED, Explain.TYPE, "type", 0, "not known here")
        )

    monkeypatch.setattr(Client, "explain", refused)
    result = zaichik("explain", topic, "--offset", "0")
    assert (result.code, "is too old to explain" in result.err) == (1, True)


def test_a_pattern_is_refused_with_what_to_do(zaichik, orders):
    result = zaichik("explain", f"{orders}*", "--offset", "0")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"zaichik: there is no topic {orders}*, and explain takes no pattern: a message is in one "
        "topic; zaichik watch PATTERN lists those that match\n"
    )


def test_a_topic_whose_name_looks_like_a_pattern_is_explained(zaichik, orders):
    name = f"{orders}.*"
    zaichik("publish", name, "one")
    assert zaichik("explain", name, "--offset", "0").out.startswith(f"offset 0 of {name}\n")
