"""`zaichik publish`."""

import json

import pytest
from embedded import embedded_broker

import zaichik
from zaichik.client import blocking
from zaichik.client.errors import ConnectionLost
from zaichik.learn.server import free_port

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def messages(zaichik, topic):
    """Everything in the topic, as (key, payload)."""

    def read(count):
        lines = zaichik("subscribe", topic, "--count", str(count), "--json").json_lines
        return [(line["key"], line["payload"]) for line in lines]

    return read


def test_messages_from_arguments(zaichik, topic, messages):
    result = zaichik("publish", topic, "--key", "k", "one", "two words")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith(f"{topic}: published 2 = stored 2 + compacted 0 in ")
    assert messages(2) == [("k", "one"), ("k", "two words")]


def test_messages_that_look_like_options(zaichik, topic, messages):
    assert zaichik("publish", topic, "--", "-x", "--json").code == 0
    assert messages(2) == [(None, "-x"), (None, "--json")]


def test_the_summary_as_json(zaichik, topic):
    zaichik("create", topic, "--compaction-window", "1h")
    result = zaichik("publish", topic, "a", "b", "c", "--key", "k", "--json")
    summary = result.json
    assert (summary["topic"], summary["published"], summary["stored"], summary["compacted"]) == (
        topic,
        3,
        1,
        2,
    )
    assert summary["seconds"] > 0
    assert summary["messages_per_second"] > 0
    assert result.err == ""


def test_lines_from_a_file(zaichik, topic, messages, tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"one\r\n\nthree\n\xff\nno end")
    assert zaichik("publish", topic, "--file", str(path)).code == 0
    assert messages(5) == [
        (None, "one"),
        (None, ""),
        (None, "three"),
        (None, {"base64": "/w=="}),
        (None, "no end"),
    ]


def test_lines_from_standard_input_leave_at_once(start, topic):
    process, reader = start("publish", topic), start("subscribe", topic)
    for line in ("one\n", "two\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert reader.stdout.readline() == line
    process.stdin.close()
    assert process.wait() == 0
    assert "published 2" in process.stderr.read()


def test_many_lines_are_all_published(zaichik, topic, tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{number} {'x' * 40}\n" for number in range(5000)))
    assert zaichik("publish", topic, "--file", str(path), "--json").json["stored"] == 5000


def test_nothing_to_publish_is_fine(zaichik, topic):
    result = zaichik("publish", topic, "--file", "/dev/null")
    assert result.code == 0
    assert "published 0" in result.err


def test_keys_by_regular_expression(zaichik, topic, messages):
    zaichik("publish", topic, "--key-regex", r"^(\w+) ", "é 1", "nokey", "b 2")
    zaichik("publish", topic, "--key-regex", r"\d|^$", "a7", "")
    assert messages(5) == [("é", "é 1"), (None, "nokey"), ("b", "b 2"), ("7", "a7"), (None, "")]


def test_keys_by_json_field(zaichik, topic, messages):
    lines = ['{"id": "a"}', '{"id": 7}', '{"id": null}', "{}", '{"id": ""}']
    zaichik("publish", topic, "--key-json", "id", *lines)
    assert [key for key, _ in messages(5)] == ["a", "7", None, None, None]


@pytest.mark.parametrize(
    ("bad", "text"),
    [("{", "message 2 is not JSON: "), ("[]", "message 2 is JSON, but not an object")],
)
def test_a_bad_line_is_named_and_those_before_it_are_published(zaichik, topic, tmp_path, bad, text):
    path = tmp_path / "lines"
    path.write_text(f'{{"id": 1}}\n{bad}\n')
    result = zaichik("publish", topic, "--key-json", "id", "--file", str(path))
    assert result.code == 1
    summary, error = result.err.splitlines()
    assert "published 1 = stored 1" in summary
    assert error.startswith(f"zaichik: {text}")


def test_if_one_argument_cannot_be_sent_none_is(zaichik, topic):
    result = zaichik("publish", topic, "--key-json", "id", '{"id": 1}', "junk")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err.startswith("zaichik: message 2 is not JSON: ")


def test_a_line_that_is_too_long_is_named(zaichik, topic, tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"short\n" + b"x" * 2_000_000)
    result = zaichik("publish", topic, "--file", str(path))
    assert result.code == 1
    assert "zaichik: line 2 has more than 1,048,576 bytes, the broker's max_message" in result.err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--key", ""], 2, "an empty key"),
        (["--key-regex", "("], 2, "'(' is not a regular expression"),
        (["--key", "a", "--key-json", "b"], 2, "not allowed with argument"),
        (["--file", "x"], 2, "give either MESSAGE or --file, not both"),
        (["--key", "k" * 2000], 1, "key"),
    ],
)
def test_what_is_refused(zaichik, topic, words, code, text):
    result = zaichik("publish", topic, "message", *words)
    assert result.code == code
    assert text in result.err
    assert result.err.count("\n") == 1


def test_a_file_that_is_not_there(zaichik, topic):
    result = zaichik("publish", topic, "--file", "/nowhere/at all")
    assert (result.code, result.err) == (1, "zaichik: /nowhere/at all: No such file or directory\n")


@pytest.mark.parametrize("name", ["", "$system", "x" * 300, "a\nb"])
def test_a_wrong_topic_name_is_one_sentence(zaichik, name):
    result = zaichik("publish", name, "x")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err.startswith("zaichik: topic")


def test_a_terminal_is_told_that_lines_are_read(on_terminal, topic):
    code, text = on_terminal("publish", topic, keys=b"typed\n\x04")
    assert code == 0
    assert "reading lines from the terminal; Ctrl-D ends the input" in text
    assert "published 1 = stored 1" in text


def test_a_file_has_a_progress_bar_on_a_terminal(on_terminal, topic, tmp_path):
    path = tmp_path / "lines"
    path.write_text("line\n" * 20_000)
    code, text = on_terminal("publish", topic, "--file", str(path))
    assert code == 0
    assert "20,000 messages" in text
    assert "published 20,000 = stored 20,000" in text


def test_a_broker_restarted_meanwhile_is_a_failure(start, topic):
    """TOP-5: what was published before is gone, although it was confirmed."""

    def serve(port):
        process = start(
            "serve", "--port", port, "--json", "--log-level", "error", "--retention", "forever"
        )
        return process, json.loads(process.stdout.readline())

    broker, ready = serve(str(free_port()))
    address = f"{ready['host']}:{ready['port']}"
    process = start("publish", topic, "--connect", address)
    reader = start("subscribe", topic, "--connect", address, "--reconnect", "0")
    process.stdin.write("one\n")
    process.stdin.flush()
    assert reader.stdout.readline() == "one\n"
    broker.kill()
    broker.wait()
    serve(str(ready["port"]))
    process.stdin.write("two\n")
    process.stdin.close()
    assert process.wait() == 1
    told = process.stderr.read()
    assert f"{topic}: published 2 = stored 2" in told
    assert f"zaichik: topic '{topic}' is no longer the same" in told
    assert "the broker has lost what was published before" in told


# -- a topic that keeps nothing, and nobody reads ------------------------------------------------


@pytest.fixture
def publish(zaichik):
    """Publish a message to the topic "t" of a broker of its own; what standard error says after the
    summary.
    """
    with embedded_broker() as broker:

        def run(*words):
            result = zaichik("publish", "t", "x", *words, "--connect", broker.address)
            assert result.code == 0
            return result.err.splitlines()[0 if "--json" in words else 1 :]

        run.broker = broker
        yield run


HINT = (
    "nobody is subscribed to t, and it keeps nothing for later readers (retention 0), so what you "
    "published is lost. "
    "Subscribe first, or create a topic that keeps messages before publishing to it: zaichik "
    "create NAME --retention 1h"
)


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_messages_that_no_one_will_read_give_a_warning(publish, words):
    """PUB-1, RET-1."""
    assert publish(*words) == [HINT]


def test_messages_that_will_be_read_give_no_warning(publish):
    publish.broker.create("t", retention_ttl=60)
    assert publish() == []


def test_with_a_subscriber_there_is_no_warning(publish):
    with blocking.connect(port=publish.broker.port) as client, client.subscribe("t"):
        assert publish() == []


def test_with_a_named_reader_away_there_is_no_warning(publish):
    """CMT-3: its position holds what comes."""

    async def come_and_go():
        async with (
            zaichik.connect(port=publish.broker.port) as client,
            client.subscribe("t", name="billing"),
        ):
            pass

    publish.broker.run(come_and_go)
    assert publish() == []


def test_a_failed_check_afterwards_is_not_a_failure(publish, monkeypatch):
    async def lost(*_):
        raise ConnectionLost("the broker closed it")

    monkeypatch.setattr("zaichik.client.client.Client.topics", lost)
    assert publish() == []


# -- tables --------------------------------------------------------------------------------------


@pytest.fixture
def table(zaichik, topic):
    zaichik("create", topic, "--table", "--capacity", "2")
    zaichik("publish", topic, "1", "--key", "a")
    return topic


def test_a_key_is_deleted(zaichik, table):
    """TAB-5."""
    result = zaichik("publish", table, "--key", "a", "--tombstone", "--json")
    assert (result.code, result.json["stored"]) == (0, 1)
    (state,) = zaichik("topics", table, "--json").json
    assert (state["keys"], state["tombstones"]) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--tombstone"], "name it with --key"),
        (["--tombstone", "--key-regex", "x"], "name it with --key"),
        (["--tombstone", "--key", "a", "1"], "sends no message"),
        (["--tombstone", "--key", "a", "--file", "-"], "sends no message"),
    ],
)
def test_a_tombstone_has_a_key_and_nothing_else(zaichik, table, arguments, text):
    result = zaichik("publish", table, *arguments)
    assert (result.code, result.out) == (2, "")
    assert text in result.err
    assert zaichik("topics", table, "--json").json[0]["stored"] == 1


def test_where_there_are_no_keys_to_delete_a_tombstone_gives_a_warning(zaichik, table, topic):
    """TAB-6: in another topic, it is a message like any other."""
    plain = f"{topic}-plain"
    zaichik("create", plain, "--retention", "1h")
    for name in (plain, f"{topic}-misspelt"):
        result = zaichik("publish", name, "--key", "a", "--tombstone")
        assert (result.code, result.err.count("is not a table: no key was deleted")) == (0, 1)
    assert "table" not in zaichik("publish", table, "--key", "a", "--tombstone").err


def test_an_empty_message_does_not_delete(zaichik, table):
    """TAB-6."""
    result = zaichik("publish", table, "", "--key", "a")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "(zaichik explain INVALID_FIELD)" in result.err
    assert zaichik("topics", table, "--json").json[0]["keys"] == 1


def test_a_full_table_is_a_sentence_at_once(zaichik, table):
    """TAB-1."""
    zaichik("publish", table, "2", "--key", "b")
    result = zaichik("publish", table, "3", "--key", "c")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "its capacity is 2" in result.err
    assert "(zaichik explain TABLE_FULL)" in result.err
