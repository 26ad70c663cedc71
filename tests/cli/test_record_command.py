import json
import re
import signal
import subprocess
import sys
import threading
import time

import pyarrow.dataset as ds
import pytest
from door import door

from zaichik.apps.recording.parts import SCHEMA
from zaichik.client import blocking
from zaichik.learn.server import free_port
from zaichik_protocol import Batch

pytestmark = pytest.mark.usefixtures("connected")


def test_a_topic_is_recorded_and_then_nothing_is_new(zaichik, topic, tmp_path):
    zaichik("publish", topic, "one", "two")
    first = zaichik("record", topic, "--into", str(tmp_path))
    assert (first.code, first.err) == (0, "")
    assert first.out == f"{topic}: 2 messages recorded into {tmp_path} (offsets 0 to 1)\n"
    assert zaichik("record", topic, "--into", str(tmp_path)).out == (
        f"{topic}: nothing new; {tmp_path} has everything below offset 2\n"
    )


def test_missed_deletions_are_reported_and_set_the_exit_code(zaichik, topic, tmp_path):
    """TAB-5."""
    zaichik("create", topic, "--table", "--tombstones", "0")
    zaichik("publish", topic, "1", "--key", "a")
    folder = str(tmp_path)
    assert zaichik("record", topic, "--into", folder).code == 0
    zaichik("publish", topic, "--key", "a", "--tombstone")
    zaichik("publish", topic, "2", "--key", "b")
    while zaichik("topics", topic, "--json").json[0]["tombstones"]:
        pass
    result = zaichik("record", topic, "--into", folder, "--json")
    assert (result.code, result.json["missing"], result.json["deletions_missed"]) == (3, 0, 2)
    assert result.err.count("\n") == 1
    assert "keys may have been deleted unseen, below offset 2" in result.err


@pytest.mark.unmeasured
def test_all_topics_of_a_pattern_are_recorded(zaichik, topic, tmp_path):
    for end in ("de", "fr"):
        zaichik("publish", f"{topic}.{end}", end)
    result = zaichik("record", f"{topic}.*", "--into", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    assert [line.partition(": ")[::2] for line in result.out.splitlines()] == [
        (f"{topic}.{end}", f"1 message recorded into {tmp_path} (offsets 0 to 0)")
        for end in ("de", "fr")
    ]


def test_a_pattern_that_nothing_matches_is_said(zaichik, topic, tmp_path):
    result = zaichik("record", f"{topic}.none.*", "--into", str(tmp_path))
    assert (result.code, result.out) == (0, "")
    assert result.err == f"no topic matches {topic}.none.*\n"


def test_a_star_may_be_a_character_of_the_name(zaichik, topic, tmp_path):
    zaichik("publish", f"{topic}*", "one")
    result = zaichik("record", f"{topic}*", "--exact", "--into", str(tmp_path))
    assert result.out.startswith(f"{topic}*: 1 message recorded")


def test_a_pattern_that_can_match_nothing_is_refused(zaichik, tmp_path):
    result = zaichik("record", "$journal/*", "--into", str(tmp_path))
    assert result.code == 2
    assert "match nothing" in result.err


@pytest.mark.unmeasured
def test_topics_that_come_later_are_recorded_while_they_are_followed(
    start, until, zaichik, topic, tmp_path
):
    zaichik("publish", f"{topic}.de", "one")
    following = start("record", f"{topic}.*", "--into", str(tmp_path), "--follow")
    until(lambda: list(tmp_path.rglob(".unfinished.parquet")), following)
    zaichik("publish", f"{topic}.fr", "two")
    until(lambda: len(list(tmp_path.rglob(".unfinished.parquet"))) == 2, following)
    zaichik("delete", f"{topic}.de")
    until(lambda: list(tmp_path.rglob("*-0-1.parquet")), following)
    following.send_signal(signal.SIGINT)
    out, err = following.communicate()
    assert following.returncode == 130
    assert f"{topic}.fr: 1 message recorded" in out
    assert f"{topic}.de: the topic is gone; what was recorded of it is kept" in err


def test_missing_messages_are_reported_and_set_the_exit_code(zaichik, topic, tmp_path):
    zaichik("create", topic, "--capacity", "2", "--retention", "forever")
    zaichik("publish", topic, "a", "b")
    zaichik("record", topic, "--into", str(tmp_path))
    for letter in "cde":
        zaichik("publish", topic, letter)
    result = zaichik("record", topic, "--into", str(tmp_path), "--json")
    assert result.code == 3
    assert {name: result.json[name] for name in ("start", "next", "recorded", "missing")} == {
        "start": 2, "next": 5, "recorded": 2, "missing": 1,
    }  # fmt: skip
    assert result.err == f"{topic}: 1 message is missing: the broker no longer had it\n"


@pytest.mark.unmeasured
def test_ctrl_c_finishes_the_file(start, until, zaichik, topic, tmp_path):
    zaichik("publish", topic, "one", "two")
    following = start("record", topic, "--into", str(tmp_path), "--follow")
    until(lambda: list(tmp_path.rglob(".unfinished.parquet")), following)
    following.send_signal(signal.SIGINT)
    out, err = following.communicate()
    assert (following.returncode, err) == (130, "")
    assert "2 messages recorded" in out
    assert len(list(tmp_path.rglob("*-0-2.parquet"))) == 1


def publish(broker, topic, numbers):
    """Messages of 100 kB that say their number."""
    host, port = broker.split(":")
    with blocking.connect(host, int(port)) as client:
        for first in numbers[::10]:
            client.publish_batch(
                topic, Batch.of((b"", b"%d" % n + bytes(100_000)) for n in range(first, first + 10))
            )


def recorded(folder):
    """Offset and number of each message."""
    table = ds.dataset(folder, schema=SCHEMA).to_table(["offset", "payload"])
    return sorted((row["offset"], int(row["payload"].rstrip(b"\0"))) for row in table.to_pylist())


def test_after_a_recorder_was_killed_nothing_is_missing_or_duplicated(
    start, until, zaichik, broker, topic, tmp_path
):
    """Killed when it had written some of a file: there is more than it keeps in memory."""
    publish(broker, topic, range(50))
    zaichik("record", topic, "--into", str(tmp_path))
    publish(broker, topic, range(50, 450))
    killed = start("record", topic, "--into", str(tmp_path), "--follow")
    until(
        lambda: any(
            path.stat().st_size > len(b"PAR1") for path in tmp_path.rglob(".unfinished.parquet")
        ),
        killed,
    )
    killed.kill()
    killed.wait()
    assert recorded(tmp_path) == [(number, number) for number in range(50)]
    again = zaichik("record", topic, "--into", str(tmp_path), "--json")
    assert (again.code, again.json["start"], again.json["recorded"]) == (0, 50, 400)
    assert recorded(tmp_path) == [(number, number) for number in range(450)]
    assert not list(tmp_path.rglob(".unfinished*"))


# A recorder that kills itself at the second call of a function; its files have 20 messages, written
# in two groups. How many folders it syncs depends on how deep they are, so that only files count.
DOOMED = """
import os, pathlib, signal, stat
import pyarrow.parquet
from zaichik.apps.recording import recording
from zaichik.cli.main import main

def deadly(owner, name, when):
    calls, function = [], getattr(owner, name)
    def call(*arguments, **options):
        if name == "fsync" and not stat.S_ISREG(os.fstat(arguments[0]).st_mode):
            return function(*arguments, **options)
        calls.append(arguments)
        if (when, len(calls)) == ("before", 2):
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        if (when, len(calls)) == ("after", 2):
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, call)

recording.FILE_MESSAGES, recording.GROUP_BYTES = 20, 500_000
deadly({}, {!r}, {!r})
main({!r})
"""


@pytest.mark.unmeasured  # what is killed tells nobody what it has run
@pytest.mark.parametrize(
    ("owner", "function", "when", "appeared"),
    [
        pytest.param("recording._File", "__init__", "before", 20, marks=pytest.mark.long),
        pytest.param("recording._File", "__init__", "after", 20, marks=pytest.mark.long),
        pytest.param(
            "pyarrow.parquet.ParquetWriter", "write_batch", "before", 0, marks=pytest.mark.long
        ),
        ("pyarrow.parquet.ParquetWriter", "write_batch", "after", 0),
        pytest.param(
            "pyarrow.parquet.ParquetWriter", "close", "before", 20, marks=pytest.mark.long
        ),
        pytest.param("pyarrow.parquet.ParquetWriter", "close", "after", 20, marks=pytest.mark.long),
        ("os", "fsync", "after", 20),
        pytest.param("recording", "sync_folder", "before", 20, marks=pytest.mark.long),
        pytest.param("recording", "sync_folder", "after", 20, marks=pytest.mark.long),
        pytest.param("pathlib.Path", "replace", "before", 20, marks=pytest.mark.long),
        ("pathlib.Path", "replace", "after", 40),
    ],
)
def test_wherever_a_recorder_was_killed_nothing_is_missing_or_duplicated(
    zaichik, broker, topic, tmp_path, owner, function, when, appeared
):
    publish(broker, topic, range(60))
    words = ["record", topic, "--into", str(tmp_path), "--connect", broker]
    killed = subprocess.run(
        [sys.executable, "-c", DOOMED.format(owner, function, when, words)], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert recorded(tmp_path) == [(number, number) for number in range(appeared)]
    publish(broker, topic, range(60, 80))
    again = zaichik(*words, "--json")
    assert (again.code, again.json["start"], again.json["recorded"]) == (0, appeared, 80 - appeared)
    assert recorded(tmp_path) == [(number, number) for number in range(80)]
    assert not list(tmp_path.rglob(".unfinished*"))


@pytest.mark.unmeasured
def test_a_bar_on_a_terminal(on_terminal, zaichik, topic, tmp_path):
    zaichik("publish", topic, "one", "two")
    code, shown = on_terminal("record", topic, "--into", str(tmp_path))
    assert code == 0
    assert "2/2 messages" in re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", shown)


def test_a_topic_that_is_not_there_is_one_sentence(zaichik, tmp_path):
    result = zaichik("record", "nowhere", "--into", str(tmp_path))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "zaichik: there is no topic 'nowhere'; `zaichik topics` lists the broker's topics "
        "(zaichik explain NO_SUCH_RECORDED_TOPIC)\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.unmeasured
def test_several_topics_are_followed_until_ctrl_c(start, until, zaichik, topic, tmp_path):
    topics = [topic, f"{topic}-too"]
    for name in topics:
        zaichik("publish", name, "one", "two")
    following = start("record", *topics, "--into", str(tmp_path), "--follow")
    until(lambda: len(list(tmp_path.rglob(".unfinished.parquet"))) == 2, following)
    following.send_signal(signal.SIGINT)
    out, err = following.communicate()
    assert (following.returncode, err) == (130, "")
    lines = out.splitlines()
    assert {*lines[:2]} == {f"{name}: recording into {tmp_path} from offset 0" for name in topics}
    assert lines[2:] == [
        f"{name}: 2 messages recorded into {tmp_path} (offsets 0 to 1)" for name in topics
    ]


def test_a_recorder_that_fails_ends_the_others_with_what_they_have(zaichik, topic, tmp_path):
    zaichik("publish", topic, "one", "two")
    result = zaichik("record", topic, "nowhere", "--into", str(tmp_path), "--follow")
    assert result.code == 1
    assert "there is no topic 'nowhere'" in result.err


def test_a_broker_that_stops_while_it_is_recorded_is_one_sentence_and_what_came_is_kept(
    zaichik, broker, topic, tmp_path
):
    publish(broker, topic, range(60))
    with door(int(broker.rpartition(":")[2]), most=2_500_000) as port:
        result = zaichik("record", topic, "--into", str(tmp_path), "--connect", f"127.0.0.1:{port}")
    assert (result.code, result.out) == (1, "")
    lost = f"the connection to 127.0.0.1:{port} was lost: the broker closed it"
    assert result.err == f"zaichik: {lost} (zaichik explain CONNECTION_LOST)\n"
    kept = recorded(tmp_path)
    assert 10 <= len(kept) < 60
    assert kept == [(number, number) for number in range(len(kept))]


@pytest.fixture
def stopping(start, zaichik):
    """Address and process of a broker that is about to stop, with two messages in topic t."""
    process = start("serve", "--port", "0", "--json", "--log-level", "error")
    address = f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
    zaichik("create", "t", "--retention", "forever", "--connect", address)
    zaichik("publish", "t", "one", "two", "--connect", address)
    return address, process


@pytest.mark.unmeasured
def test_a_recorder_that_follows_says_that_it_waits_for_the_broker_until_ctrl_c(
    start, until, stopping, tmp_path
):
    address, process = stopping
    following = start("record", "t", "--into", str(tmp_path), "--follow", "--connect", address)
    assert following.stdout.readline() == f"t: recording into {tmp_path} from offset 0\n"
    until(lambda: list(tmp_path.rglob(".unfinished.parquet")), following)
    process.send_signal(signal.SIGTERM)
    assert following.stderr.readline() == (
        f"zaichik: the connection to {address} was lost (the broker is stopping; come back later); "
        "reconnecting\n"
    )
    following.send_signal(signal.SIGINT)
    out, err = following.communicate()
    assert (following.returncode, err) == (130, "")
    assert out == f"t: 2 messages recorded into {tmp_path} (offsets 0 to 1)\n"


@pytest.mark.unmeasured
def test_a_recorder_goes_on_when_the_broker_of_a_durable_topic_is_there_again(
    start, until, tmp_path
):
    """Killed and started again: it is a pause for the recorder, and for those who publish."""
    port = str(free_port())

    def serve():
        words = ["--json", "--log-level", "error", "--data", str(tmp_path / "data")]
        process = start("serve", "--port", port, *words)
        process.stdout.readline()
        return process

    broker = serve()
    with blocking.connect(port=int(port)) as client:
        client.create_topic("t", durable=True, capacity=100)
        publish(f"127.0.0.1:{port}", "t", range(50))
        words = [
            "record",
            "t",
            "--into",
            str(tmp_path / "recording"),
            "--follow",
            "--connect",
            f"127.0.0.1:{port}",
        ]
        following = start(*words)
        until(lambda: list((tmp_path / "recording").rglob(".unfinished.parquet")), following)
        broker.kill()
        assert "reconnecting" in following.stderr.readline()
        serve()
        for first in range(50, 100, 10):
            client.publish_batch(
                "t", Batch.of((b"", b"%d" % number) for number in range(first, first + 10))
            )
        assert client.topic("t")["next_offset"] == 100
        until(
            lambda: max((it["committed"] for it in client.subscriptions("t#")), default=0) == 100,
            following,
        )
    following.send_signal(signal.SIGINT)
    out, _ = following.communicate()
    assert "100 messages recorded" in out
    assert recorded(tmp_path / "recording") == [(number, number) for number in range(100)]


def test_a_lost_connection_is_told_above_the_bar(on_terminal, stopping, tmp_path):
    address, process = stopping
    stopper = threading.Thread(target=_stop_when_recorded, args=(process, tmp_path))
    stopper.start()
    words = ["record", "t", "--into", str(tmp_path), "--follow", "--connect", address]
    code, shown = on_terminal(*words, interrupt_at=b"reconnecting")
    stopper.join()
    assert code == 130
    assert re.search("\x1b\\[2Kzaichik: the connection to \\S+ was lost", shown), (
        "on a line that was cleared before"
    )


def _stop_when_recorded(broker, folder):
    while not list(folder.rglob(".unfinished.parquet")) and broker.poll() is None:
        time.sleep(0.01)
    broker.send_signal(signal.SIGTERM)


def test_a_topic_that_keeps_nothing_says_what_is_gone_and_why(zaichik, topic, tmp_path):
    zaichik("create", topic, "--retention", "0")
    zaichik("publish", topic, "one", "two")
    while zaichik("describe", topic, "--json").json["topic"]["resident"]:  # until the next sweep
        pass
    result = zaichik("record", topic, "--into", str(tmp_path))
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith(
        f"{topic}: nothing to record: 2 messages are gone, because the topic has no retention"
    )
