"""`zaichik describe`."""

import re
import signal
import sys
from importlib.metadata import version

import pytest

from zaichik.cli import screen
from zaichik.cli.commands import describe

pytestmark = pytest.mark.usefixtures("connected")


def test_the_broker_shows_its_state_and_limits(zaichik):
    result = zaichik("describe")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == f"zaichik {version('zaichik')}"
    assert any(line.split() == ["connections", "1"] for line in lines)
    assert any(line.startswith("max_frame          1.125 MiB") for line in lines)
    # The broker is shared with other files, which may have left some.
    assert any(re.fullmatch(r"sessions +\d+", line) for line in lines)
    told = zaichik("describe", "--json").json
    assert told["limits"]["max_batch"] == 8192


def test_the_broker_shows_why_connections_have_ended(zaichik, topic):
    zaichik("publish", topic, "1")
    lines = {
        line.split()[0]: line.split()[1:] for line in zaichik("describe").out.splitlines() if line
    }
    assert lines["disconnects"][0] == "CLOSED"
    assert int(lines["disconnects"][1].rstrip(",")) >= 1
    assert int(lines["producers"][0]) >= 1
    assert lines["bytes"][0] != "0"


def test_a_topic_adds_up(zaichik, topic):
    zaichik("create", topic, "--compaction-window", "1h", "--capacity", "5")
    zaichik("publish", topic, *map(str, range(100)), "--key-regex", "[0-7]$")
    lines = {line.partition("  ")[0]: line for line in zaichik("describe", topic).out.splitlines()}
    assert "100 = stored 28 + compacted 72" in lines["published"]
    assert "28 = resident 5 + expired 0 + evicted 23" in lines["stored"]
    assert "offsets 23 to 27" in lines["holds"]
    assert "5" in lines["capacity"]


def test_a_table_adds_up(zaichik, topic):
    """TAB-7: with its keys in place of windows."""
    zaichik("create", topic, "--table", "--tombstones", "0")
    zaichik("publish", topic, *map(str, range(30)), "--key-regex", "[0-7]$")
    zaichik("publish", topic, "--key", "0", "--tombstone")
    result = zaichik("describe", topic)
    lines = {line.partition("  ")[0]: line for line in result.out.splitlines()}
    assert "31 = resident 14 + expired 0 + evicted 0 + superseded 17" in lines["stored"]
    assert lines["keys"].endswith("  7, and 1 tombstone")
    assert lines["table"].endswith("  yes")
    assert "open windows" not in lines
    assert "!!" not in result.out


def test_deletions_that_are_gone_are_shown(capsys):
    """TAB-5."""
    state = {"keys": 1_000, "tombstones": 0, "deleted_below": 1_041}
    assert dict(describe._keys(state)) == {
        "keys": "1,000, and 0 tombstones",
        "deletions": "tombstones below offset 1,041 are gone (TAB-5)",
    }


def test_a_reader_of_a_table_adds_up(zaichik, start, topic):
    """TAB-7."""
    zaichik("create", topic, "--table")
    zaichik("publish", topic, "1", "2", "3", "--key", "k")
    reader = start("subscribe", topic)
    assert reader.stdout.readline() == "3\n"
    assert "3 = delivered 1 + skipped 0 + passed 2 + ahead 0" in zaichik("describe", topic).out


def test_batches_that_a_full_topic_has_refused_are_shown_if_there_are_any(zaichik, start, topic):
    """RET-9."""
    zaichik("create", topic, "--retention", "forever", "--overflow", "reject", "--capacity", "2")
    zaichik("subscribe", topic, "--name", "away", "--until", "0")
    zaichik("publish", topic, "1", "2")
    assert "refused" not in zaichik("describe", topic).out
    publisher = start("publish", topic, "3", "4")
    while not zaichik("describe", topic, "--json").json["topic"]["refused"]:
        assert publisher.poll() is None
    lines = {line.partition("  ")[0]: line for line in zaichik("describe", topic).out.splitlines()}
    assert re.search(r"\d batch(es)?, because the topic was full", lines["refused"])


def test_an_empty_topic(zaichik, topic):
    zaichik("create", topic)
    assert "holds              nothing now" in zaichik("describe", topic).out


def test_a_reader_is_described_with_what_it_waits_for(zaichik, start, topic):
    zaichik("publish", topic, "1", "2", "3")
    reader = start("subscribe", topic, "--until", "9")
    for _ in range(3):
        reader.stdout.readline()
    text = zaichik("describe", topic).out
    assert ": zaichik subscribe" in text
    assert "messages: it is caught up" in text
    assert "until 9" in text
    assert "3 = delivered 3 + skipped 0 + ahead 0" in text
    told = zaichik("describe", topic, "--json").json
    assert told["topic"]["name"] == topic
    assert [state["waiting_for"] for state in told["subscriptions"]] == [
        "messages: it is caught up"
    ]


def test_a_named_reader_is_shown_with_its_name_and_needs_even_while_it_is_away(
    zaichik, start, topic
):
    """CMT-3, RET-9: what holds up the publishers of a full topic is to be found here."""
    zaichik(
        "create", topic, "--retention", "forever", "--overflow", "reject", "--max-bytes", "1MiB"
    )
    zaichik("publish", topic, "1", "2", "3")
    reader = start("subscribe", topic, "--name", "bill\u202eing")
    for _ in range(3):
        reader.stdout.readline()
    zaichik("publish", topic, "4", "5")
    text = zaichik("describe", topic).out
    assert "session      bill\\u202eing\n" in text
    reader.send_signal(signal.SIGSTOP)
    zaichik("publish", topic, "6", "7")
    reader.kill()
    reader.wait()
    lines = {line.partition("  ")[0]: line for line in zaichik("describe", topic).out.splitlines()}
    assert lines["overflow"].split() == ["overflow", "reject"]
    assert lines["subscriptions"].endswith("0, and 1 whose reader is away")
    told = zaichik("describe", topic, "--json").json
    assert told["topic"]["needed"] <= 5
    assert lines["needed"].endswith(f"offset {told['topic']['needed']} and what follows")
    (away,) = told["subscriptions"]
    assert (away["session"], away["committed"]) == ("bill\u202eing", told["topic"]["needed"])
    assert "subscription bill\\u202eing" in lines
    assert "its reader: away; the name is forgotten if none comes within " in lines["waiting for"]
    assert lines["position"].split() == ["position", "committed", str(away["committed"])]
    assert lines["redelivers"].split()[1] == f"{away['delivered']},"
    assert lines["ahead"].split() == ["ahead", str(away["ahead"])]
    assert away["committed"] + away["delivered"] + away["ahead"] == 7
    zaichik("subscribe", topic, "--name", "bill\u202eing", "--forget")
    assert "needed             nothing now\n" in zaichik("describe", topic).out


def test_a_topic_is_not_taken_for_one_that_begins_like_it(zaichik, topic):
    zaichik("create", f"{topic}.eu")
    result = zaichik("describe", topic)
    assert (result.code, result.err) == (
        1,
        f"zaichik: there is no topic '{topic}'; see: zaichik topics\n",
    )


def test_limits_that_a_broker_does_not_tell_take_no_room(capsys):
    state = {"name": "other/1", "boot": 7, "now_us": 0, "limits": {}, "topic_defaults": {}}
    describe._show_broker(screen.on(sys.stdout), state)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_what_was_wrong_with_the_machines_clock_is_shown(capsys):
    state = {"name": "other/1", "boot": 7, "now_us": 0, "limits": {}, "topic_defaults": {}}
    state |= {"clock_jumps": [[0, 172_800_000_000]], "clock_ahead_us": 7_200_000_000}
    describe._show_broker(screen.on(sys.stdout), state)
    shown = capsys.readouterr().out
    assert "set forward by 2.0 days, noticed 1970-01-01" in shown
    assert "at the start 2.0 hours ahead of the machine's" in shown


def test_a_shared_name_adds_up_and_its_workers_say_what_they_have(capsys):
    """SHR-7. Whatever is none is left out."""
    shared = {
        "workers": 1,
        "with_workers": 2,
        "ready": 1,
        "delayed": 1,
        "blocked": 0,
        "absent": 0,
        "open": 4,
        "dead": 3,
        "done": 10,
        "forgotten": 0,
        "oldest_us": 1_000_000,
        "due_us": 2_000_000,
    }
    name = {
        "name": "t#away.thumbs.1",
        "session": "thumbs",
        "user": "",
        "connection": 0,
        "start": 5,
        "committed": 7,
        "cursor": 22,
        "skipped": 0,
        "passed": 0,
        "lag": 9,
        "waiting_for": "its workers: none of them takes more now",
        "shared": shared,
        "left_over": {},
    }
    worker = {
        "session": "thumbs",
        "user": "",
        "connection": 7,
        "id": 1,
        "client": "resize",
        "credit": 2,
        "delivered": 40,
        "waiting_for": "its program: it has 2, and 1 late",
        "worker": {"has": 1, "overdue": 1, "since_us": 1_000_000, "timeout_us": 60_000_000},
        "left_over": {},
    }
    for state in (name, worker):
        describe._show_reader(screen.on(sys.stdout), state)
    lines = capsys.readouterr().out.splitlines()
    told = {line.partition("  ")[0]: " ".join(line.split()) for line in lines}
    assert "shared name thumbs: 1 worker, 3 dead" in told
    assert told["since 5"] == "since 5 17 = done 10 + dead 3 + open 4 + skipped 0"
    assert told["open"] == "open with workers 2, ready 1, delayed 1"
    assert told["to hand out"] == "to hand out 9"
    assert "worker 7.1 of thumbs: resize" in told
    assert told["has"].startswith("has 1 of 2 messages, and 1 overdue, since 1970-01-01")
    for state in (name, worker):
        describe._show_reader(screen.on(sys.stdout), state | {"user": "ann"})
    shown = capsys.readouterr().out
    assert "shared name thumbs of user ann: 1 worker" in shown
    assert "worker 7.1 of thumbs of user ann: resize" in shown
