import re
import signal

import pyarrow.dataset as ds
import pytest

from zaichik import blocking
from zaichik_protocol import Batch

pytestmark = pytest.mark.usefixtures("connected")


def test_a_topic_is_recorded_and_then_nothing_is_new(zaichik, topic, tmp_path):
    zaichik("publish", topic, "one", "two")
    first = zaichik("record", topic, "--into", str(tmp_path))
    assert (first.code, first.err) == (0, "")
    assert first.out == f"{topic}: 2 messages recorded into {tmp_path} (offsets 0 to 1)\n"
    assert zaichik("record", topic, "--into", str(tmp_path)).out == (
        f"{topic}: nothing new; {tmp_path} reaches to offset 2\n"
    )


def test_missing_messages_are_told_and_are_the_exit_code(zaichik, topic, tmp_path):
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
    assert result.err == f"{topic}: 1 messages are missing: the broker no longer had them\n"


def test_ctrl_c_finishes_the_file(start, zaichik, topic, tmp_path):
    zaichik("publish", topic, "one", "two")
    following = start("record", topic, "--into", str(tmp_path), "--follow")
    while not list(tmp_path.rglob(".unfinished.parquet")):
        assert following.poll() is None
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
            client.publish_batch(topic, Batch.of((b"", b"%d" % n + bytes(100_000)) for n in range(first, first + 10)))


def recorded(folder):
    """Offset and number of each message."""
    table = ds.dataset(folder, partitioning="hive").to_table(["offset", "payload"])
    return sorted((row["offset"], int(row["payload"].rstrip(b"\0"))) for row in table.to_pylist())


def test_after_a_recorder_was_killed_nothing_is_missing_or_there_twice(start, zaichik, broker, topic, tmp_path):
    """Killed when it had written some of a file: there is more than it keeps in memory."""
    publish(broker, topic, range(50))
    zaichik("record", topic, "--into", str(tmp_path))
    publish(broker, topic, range(50, 450))
    killed = start("record", topic, "--into", str(tmp_path), "--follow")
    while not any(path.stat().st_size > len(b"PAR1") for path in tmp_path.rglob(".unfinished.parquet")):
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    assert recorded(tmp_path) == [(number, number) for number in range(50)]
    again = zaichik("record", topic, "--into", str(tmp_path), "--json")
    assert (again.code, again.json["start"], again.json["recorded"]) == (0, 50, 400)
    assert recorded(tmp_path) == [(number, number) for number in range(450)]
    assert not list(tmp_path.rglob(".unfinished*"))


def test_a_bar_on_a_terminal(on_terminal, zaichik, topic, tmp_path):
    zaichik("publish", topic, "one", "two")
    code, shown = on_terminal("record", topic, "--into", str(tmp_path))
    assert code == 0
    assert "2/2 messages" in re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", shown)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere"], 1, "there is no topic nowhere"),
        (["a", "b", "--follow"], 2, "one topic is followed at a time"),
    ],
)
def test_what_cannot_be_recorded_is_explained(zaichik, tmp_path, words, code, sentence):
    result = zaichik("record", *words, "--into", str(tmp_path))
    assert result.code == code
    assert sentence in result.err
    assert result.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
