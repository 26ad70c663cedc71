"""`zaichik subscribe`."""

import json
import signal
import subprocess
import sys

import pytest
from blocking_brokers import peer

from zaichik_protocol import (
    Batch,
    DeletionsMissed,
    EndCode,
    Messages,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    encode,
)

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def ten(zaichik, topic):
    """A topic with the messages 0 to 9, key "k"."""
    zaichik("publish", topic, "--key", "k", *map(str, range(10)))
    return topic


@pytest.fixture
def lagging(zaichik, topic):
    """A topic whose ring has only offsets 6 to 9."""
    zaichik("create", topic, "--capacity", "4", "--retention", "forever")
    zaichik("publish", topic, *map(str, range(10)))
    return topic


def test_a_pipe_gets_the_payload_alone(zaichik, ten):
    result = zaichik("subscribe", ten, "--until", "3")
    assert (result.code, result.out, result.err) == (0, "0\n1\n2\n", "")


def test_json_has_everything(zaichik, ten):
    (line,) = zaichik("subscribe", ten, "--from", "4", "--count", "1", "--json").json_lines
    assert line.pop("timestamp") > 1_700_000_000
    assert line == {"topic": ten, "offset": 4, "key": "k", "payload": "4"}


def test_verbose_has_offset_time_and_key(zaichik, ten):
    offset, date, clock, key, payload = zaichik(
        "subscribe", ten, "--from", "7", "--count", "1", "-v"
    ).out.split()
    assert (offset, key, payload) == ("7", "k", "7")
    assert (len(date), len(clock)) == (10, 12)


@pytest.mark.parametrize(
    ("where", "first"),
    [("earliest", "0"), ("6", "6"), ("2001-02-03T04:05:06Z", "0"), ("2001-02-03", "0")],
)
def test_where_to_begin(zaichik, ten, where, first):
    assert zaichik("subscribe", ten, "--from", where, "--count", "1").out == f"{first}\n"


def test_latest_begins_with_new_messages(zaichik, ten):
    assert zaichik("subscribe", ten, "--from", "latest", "--until", "10").out == ""


@pytest.mark.parametrize("word", ["yesterday", "-1", "2001-02-30"])
def test_an_invalid_start(zaichik, ten, word):
    result = zaichik("subscribe", ten, f"--from={word}")
    assert result.code == 2
    assert f"argument --from: '{word}' is not a start" in result.err


def test_an_offset_beyond_the_end_is_refused(zaichik, ten):
    result = zaichik("subscribe", ten, "--from", "11")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err.startswith("zaichik: ")


def test_bytes_that_are_not_utf_8(zaichik, topic, tmp_path):
    (tmp_path / "lines").write_bytes(b"a\xffb\n")
    zaichik("publish", topic, "--file", str(tmp_path / "lines"))
    assert zaichik("subscribe", topic, "--count", "1").out == "a\\xffb\n"
    assert zaichik("subscribe", topic, "--count", "1", "--json").json["payload"] == {
        "base64": "Yf9i"
    }


def test_lag_is_reported_exactly(zaichik, lagging):
    result = zaichik("subscribe", lagging, "--from", "0", "--until", "10", "--events")
    assert result.out == "6\n7\n8\n9\n"
    assert result.err == "lag: 6 messages, offsets 0 to 5, were gone\n"
    result = zaichik("subscribe", lagging, "--from", "5", "--count", "1", "--events")
    assert result.err == "lag: 1 message, offset 5, was gone\n"


def test_lag_in_json(zaichik, lagging):
    lines = zaichik(
        "subscribe", lagging, "--from", "0", "--until", "10", "--events", "--json"
    ).json_lines
    assert lines[0] == {"lagged": {"topic": lagging, "start": 0, "end": 6, "count": 6}}
    assert [line["offset"] for line in lines[1:]] == [6, 7, 8, 9]


def test_without_events_lag_is_a_warning(zaichik, lagging):
    result = zaichik("subscribe", lagging, "--from", "0", "--until", "10")
    assert result.out == "6\n7\n8\n9\n"
    assert result.err.startswith(
        f"zaichik: {lagging}: 6 messages were gone before they could be read"
    )


def test_ctrl_c_ends_it_with_a_summary(start, ten):
    process = start("subscribe", ten)
    assert [process.stdout.readline() for _ in range(10)] == [f"{n}\n" for n in range(10)]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.startswith(f"{ten}: 10 messages, ")
    assert err.count("\n") == 1


def test_the_summary_of_ctrl_c_includes_lag(start, lagging):
    process = start("subscribe", lagging, "--from", "0", "--events")
    assert process.stdout.readline() == "6\n"
    process.send_signal(signal.SIGINT)
    assert ", 6 gone, " in process.communicate()[1]


def test_head_ends_it_although_nothing_more_comes(ten):
    """It must not wait for the next message to find out that nobody reads it."""
    command = f"{sys.executable} -m zaichik subscribe {ten} | head -n 2; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, check=True
    )
    assert (result.stdout, result.stderr) == ("0\n1\n0\n", "")


def test_head_ends_it_while_it_writes(zaichik, topic, tmp_path):
    (tmp_path / "lines").write_text(f"{'x' * 100}\n" * 9000)  # more than a pipe holds
    zaichik("publish", topic, "--file", str(tmp_path / "lines"))
    command = (
        f"{sys.executable} -m zaichik subscribe {topic} --json | head -n 2; echo ${{PIPESTATUS[0]}}"
    )
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout.splitlines()[2:] == ["0"]
    assert result.stderr == ""


def test_on_a_terminal_control_characters_are_harmless(zaichik, on_terminal, topic):
    zaichik("publish", topic, "--key", "k\x07", "red \x1b[31m alert")
    code, text = on_terminal("subscribe", topic, "--count", "1")
    assert code == 0
    assert f"{topic}: from offset 0; Ctrl-C ends" in text
    assert "red \\x1b[31m alert" in text
    assert "0x6b07" in text


@pytest.mark.parametrize("option", ["--count=0", "--until=x", "--credit=-1"])
def test_wrong_numbers(zaichik, option):
    assert zaichik("subscribe", "t", option).code == 2


def test_more_credit_than_the_broker_grants(zaichik, topic):
    result = zaichik("subscribe", topic, "--credit", "2000000")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "credit" in result.err


def test_a_name_resumes_where_it_stopped(zaichik, ten):
    """CMT-3."""
    assert zaichik("subscribe", ten, "--name", "n", "--count", "4").out == "0\n1\n2\n3\n"
    assert (
        zaichik("subscribe", ten, "--name", "n", "--from", "latest", "--count", "2").out == "4\n5\n"
    )


def test_a_name_can_be_forgotten(zaichik, ten):
    zaichik("subscribe", ten, "--name", "n", "--count", "4")
    for text in ("is forgotten", "was not known"):
        result = zaichik("subscribe", ten, "--name", "n", "--forget")
        assert (result.code, result.out, result.err) == (
            0,
            "",
            f"{ten}: the position of n {text}\n",
        )
    assert zaichik("subscribe", ten, "--name", "n", "--count", "1").out == "0\n"


def test_forgetting_needs_a_name(zaichik, ten):
    result = zaichik("subscribe", ten, "--forget")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "--forget needs a --name" in result.err


@pytest.mark.parametrize("patience", ["6m", "forever", "soon"])
def test_reconnecting_is_limited(zaichik, ten, patience):
    result = zaichik("subscribe", ten, "--reconnect", patience)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "argument --reconnect" in result.err


# -- tables --------------------------------------------------------------------------------------


@pytest.fixture
def table(zaichik, topic):
    """A table with a superseded message, a tombstone and a value."""
    zaichik("create", topic, "--table")
    zaichik("publish", topic, "1", "2", "--key", "a")
    zaichik("publish", topic, "3", "--key", "b")
    zaichik("publish", topic, "--key", "a", "--tombstone")
    return topic


def test_a_table_is_read_without_what_was_superseded(zaichik, table):
    """TAB-2, TAB-5."""
    lines = zaichik("subscribe", table, "--until", "4", "--json", "--events").json_lines
    assert [(line["offset"], line["key"], line["payload"]) for line in lines] == [
        (2, "b", "3"),
        (3, "a", ""),
    ]


def test_a_deletion_is_shown_as_one_in_a_table_only(zaichik, table):
    value, deletion = zaichik("subscribe", table, "--until", "4", "-v").out.splitlines()
    assert value.endswith("  b  3")
    assert deletion.endswith("  a  (deleted)")
    plain = f"{table}.plain"
    zaichik("publish", plain, "", "--key", "a")
    (empty,) = zaichik("subscribe", plain, "--until", "1", "-v").out.splitlines()
    assert empty.endswith("  a  ")


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("events", [False, True])
def test_missed_deletions_are_reported(zaichik, monkeypatch, as_json, events):
    """TAB-5: once, by the client's warning or by --events."""
    arguments = ["--json"] * as_json + ["--events"] * events

    def read(request):
        frames = (
            Subscribed(request.id, 1, 0, 2, 0, table=True),
            DeletionsMissed(request.id, 7),
            Messages(request.id, 0, 0, Batch.of([(b"k", b"x")])),
            SubscriptionEnded(request.id, EndCode.UNTIL, 2, "it has ended"),
        )
        return b"".join(map(encode, frames))

    with peer({Subscribe: read}) as server:
        monkeypatch.setenv("ZAICHIK_CONNECT", f"127.0.0.1:{server.port}")
        result = zaichik("subscribe", "rates", "--until", "2", *arguments)
    first = result.out.splitlines()[0]
    assert result.code == 0
    report = {"deletions_missed": {"topic": "rates", "below": 7}}
    assert (json.loads(first) == report) == (as_json and events) if as_json else first == "x"
    assert (result.err.count("\n"), "offset 7" in result.err) == (
        (0, False) if as_json and events else (1, True)
    )


# -- patterns ------------------------------------------------------------------------------------


@pytest.fixture
def orders(zaichik, topic):
    """Two topics that match the pattern `{topic}.*`, with a message each."""
    for country in ("de", "fr"):
        zaichik("create", f"{topic}.{country}", "--retention", "forever")
        zaichik("publish", f"{topic}.{country}", "--key", "k", country)
    return topic


def test_a_pattern_names_the_topic_of_each_line_before_a_tab(zaichik, orders):
    result = zaichik("subscribe", f"{orders}.*", "--count", "2")
    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == [f"{orders}.de\tde", f"{orders}.fr\tfr"]


def test_a_pattern_with_offset_time_topic_and_key(zaichik, orders):
    lines = zaichik("subscribe", f"{orders}.**", "--count", "2", "-v").out.splitlines()
    columns = sorted(line.split()[3:] for line in lines)
    assert columns == [[f"{orders}.de", "k", "de"], [f"{orders}.fr", "k", "fr"]]


def test_a_pattern_in_json(zaichik, orders):
    lines = zaichik("subscribe", f"{orders}.*", "--count", "2", "--json").json_lines
    assert sorted((line["topic"], line["offset"]) for line in lines) == [
        (f"{orders}.de", 0),
        (f"{orders}.fr", 0),
    ]


def test_topics_that_come_later_and_those_that_go(zaichik, start, orders):
    process = start("subscribe", f"{orders}.*", "--json", "--events")
    assert {json.loads(process.stdout.readline())["payload"] for _ in range(2)} == {"de", "fr"}
    zaichik("publish", f"{orders}.it", "new")
    told = json.loads(process.stdout.readline())
    assert (told["topic"], told["offset"], told["payload"]) == (f"{orders}.it", 0, "new")
    zaichik("delete", f"{orders}.it")
    gone = json.loads(process.stdout.readline())["topic_gone"]
    assert (gone["topic"], gone["next"]) == (f"{orders}.it", 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert err.startswith(f"{orders}.*: 3 messages, ")
    assert err.count("\n") == 1


def test_exactly_a_topic_with_a_star_in_its_name(zaichik, orders):
    zaichik("create", f"{orders}.*", "--retention", "forever")
    zaichik("publish", f"{orders}.*", "star")
    assert zaichik("subscribe", f"{orders}.*", "--exact", "--count", "1").out == "star\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--from", "3"], "--from 3 is an offset of one"),
        (["--until", "3"], "--until is an offset of one"),
        (["--name", "n", "--forget"], "--forget is for one at a time"),
    ],
)
def test_what_is_of_one_topic_is_refused_for_a_pattern(zaichik, arguments, problem):
    result = zaichik("subscribe", "orders.*", *arguments)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert "--exact" in result.err


def test_a_pattern_of_the_brokers_own_topics_is_refused(zaichik):
    result = zaichik("subscribe", "$journal/*")
    assert result.code == 2
    assert "which no pattern matches" in result.err
