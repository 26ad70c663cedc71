import re
import signal

import pytest

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
