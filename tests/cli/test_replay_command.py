"""`zaichik replay`: what a person is told of a recording."""

import argparse
import json
import os
from zlib import crc32

import anyio
import pytest
from conversation import Conversation, batch
from rich.console import Console

from zaichik.apps.flight.format import CHECK, MAGIC, RECORD, FlightKind, Recording
from zaichik.apps.flight.recorder import RecordedBroker
from zaichik.apps.flight.tape import Tape
from zaichik.base.clock import ManualClock
from zaichik.base.escapes import harmless
from zaichik.cli.arguments import add
from zaichik.cli.commands import replay
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik_protocol import AdvanceClock, CreateTopic, Publish, Setting, Subscribe

BEGUN_US = 1_700_000_000_000_000
NASTY = "\x1b[2Ja\u202eb\u2028c"


@pytest.fixture
def data():
    """A recording of 3.5 s with 5 frames, by somebody whose names are not harmless."""
    data, clock = bytearray(), ManualClock(BEGUN_US)
    broker = RecordedBroker(BrokerSettings(), clock)
    broker.begin(lambda chunk: data.extend(chunk) is None)
    client = Conversation(broker, client=NASTY)
    client.ask(Publish(2, "t\u202e", batch(b"\x1b[2Jone")), Subscribe(3, "t"))
    clock.advance(2.5)
    client.ask(Publish(4, "t", batch(b"two")), Subscribe(2, NASTY))
    broker.memory.take(NASTY, 5)
    clock.advance(1)
    broker.disconnect(client.manager, f"GONE: {NASTY}")
    broker.tape.end()
    return bytes(data)


@pytest.fixture
def file(tmp_path, data):
    path = tmp_path / "flight"
    path.write_bytes(data)
    return path


def test_the_same_answers(zaichik, file):
    result = zaichik("replay", str(file))
    assert result.code == 0
    name, steps, state, verdict = result.out.splitlines()
    assert name.startswith("zaichik ")
    assert name.endswith("from 2023-11-14 22:13:20 UTC")
    assert steps == "15 steps in 3.500000 s: 1 connection, 5 requests, 6 outputs"
    assert state == "the broker then has 0 connections, 2 topics and 2 messages"
    assert verdict == "the same bytes were sent on every connection"


def test_steps_are_lines_of_which_none_is_raw(zaichik, file):
    result = zaichik("replay", str(file), "--step")
    assert result.code == 0
    *steps, _, _, _, _ = result.out.splitlines()
    assert all(harmless(line) == line for line in steps)
    assert (
        steps[0] == "     1  +0.000000 s  connection 1  connects from ''; it is charged to "
        "'\\x1b[2Ja\\u202eb\\u2028c'"
    )
    assert "connection 1  > Hello: id 1, version_min 1" in steps[1]
    assert (
        "+2.500000 s  connection 1  > Publish: id 4, producer 0, sequence 0, topic 't', count 1"
        in "\n".join(steps)
    )
    assert any("  < Messages: id 3, base 0" in line for line in steps)
    assert "payload_bytes '\\x1b[2Jone'" in result.out
    assert "holds +5 bytes" in result.out
    assert steps[-2].endswith("connection 1  is closed: 'GONE: \\x1b[2Ja\\u202eb\\u2028c'")
    assert steps[-1].endswith("the recording ends")


def test_records_that_make_no_sense_are_shown_as_sentences(zaichik, file, data):
    """Only somebody who knows the checksum can write them; what it has written is harmless."""
    out, tape, deep = bytearray(), Tape(), b"[" * 100_000
    recording = Recording(data)
    tape.begin(
        lambda chunk: out.extend(chunk) is None, json.loads(recording.about), is_masked=False
    )
    records = list(recording.records())
    tape.note(
        FlightKind.RECOVERED, 1, json.dumps([NASTY, [], 1, 2, {"durable": 1}, [], ""]).encode()
    )
    for record in records[:-1]:
        tape.note(record.kind, record.number, record.payload, record.now_us)
    for kind in FlightKind:
        tape.note(kind, 77, deep)
        tape.note(kind, 1, json.dumps([NASTY] * 3).encode())
    tape.note(FlightKind.END, 0)
    tape.flush()
    file.write_bytes(out)
    result = zaichik("replay", str(file), "--step")
    assert (result.code, result.err) == (1, "")
    assert all(harmless(line) == line for line in result.out.splitlines())
    assert "log 77  an entry" in result.out
    assert "!! there is no such log" in result.out
    assert zaichik("replay", str(file), "--explain", "t", "--offset", "0").code == 1


def test_up_to_a_step(zaichik, file):
    result = zaichik("replay", str(file), "--until", "3", "--step")
    assert result.code == 0
    assert "     3  +" in result.out
    assert "     4  +" not in result.out
    assert "the broker then has 1 connection, " in result.out


def test_up_to_a_time(zaichik, file):
    result = zaichik("replay", str(file), "--until", "2s")
    assert "in 0.000000 s: 1 connection, 3 requests" in result.out
    assert "not whole" not in result.out
    assert (
        zaichik("replay", str(file), "--until", "forever").out == zaichik("replay", str(file)).out
    )


@pytest.mark.parametrize("until", ["0", "soon", "-1", "1.5x"])
def test_up_to_nonsense(zaichik, file, until):
    result = zaichik("replay", str(file), f"--until={until}")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1


def test_a_difference_is_shown_and_is_the_exit_code(zaichik, file, data):
    recording, out, tape = Recording(data), bytearray(), Tape()
    about = json.loads(recording.about)
    about["settings"]["auto_create"] = False
    records = list(recording.records())
    tape.begin(lambda chunk: out.extend(chunk) is None, about, is_masked=False)
    for record in records:
        tape.note(record.kind, record.number, record.payload, record.now_us)
    tape.flush()
    file.write_bytes(out)
    result = zaichik("replay", str(file))
    assert result.code == 1
    told = result.out.splitlines()
    assert told[3] == "DIFFERENT in 2 steps; the first difference:"
    assert told[4].startswith("     7  +0.000000 s  connection 1  < Error: id 2, code 66")
    assert "!! checksum and bytes of the output: (" in told[-1]
    warning, refusal = zaichik(
        "replay", str(file), "--explain", "t", "--offset", "0"
    ).err.splitlines()
    assert "DIFFERENT in 2 steps: " in warning
    assert "there is no topic 't'" in refusal


def test_a_torn_recording_is_replayed_up_to_the_tear(zaichik, file, data):
    file.write_bytes(data[:-30])
    result = zaichik("replay", str(file))
    assert result.code == 0
    assert (
        "the recording is not whole: it breaks off in the middle of a record, after byte "
        in result.out
    )
    assert "the same bytes were sent on every connection" in result.out


def test_a_damaged_recording_fails(zaichik, file, data):
    file.write_bytes(data[:-30] + b"\xff" + data[-29:])
    result = zaichik("replay", str(file))
    assert result.code == 1
    assert "the recording is not whole: it is damaged after byte " in result.out


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is not a zaichik recording, or it breaks off in its header"),
        (b"PAR1 and more", "it is not a zaichik recording, or it breaks off in its header"),
        (
            b"zaichik flight\r\n\x09\0\x01\0\0\0\0\0",
            "it is from a newer zaichik: its format is 9, this one reads 2",
        ),
    ],
)
def test_what_is_no_recording_is_said_in_one_sentence(zaichik, file, content, sentence):
    file.write_bytes(content)
    result = zaichik("replay", str(file))
    assert result.code == 1
    assert result.err == f"zaichik: {file}: {sentence}\n"
    assert result.out == ""


def test_no_such_file(zaichik, tmp_path):
    result = zaichik("replay", str(tmp_path / "none"))
    assert result.code == 1
    assert result.err.endswith("none: No such file or directory\n")


@pytest.mark.anyio
async def test_a_long_replay_can_be_interrupted(file, capsys):
    """Ctrl-C cancels it."""
    data = bytearray()
    broker = RecordedBroker(BrokerSettings(), ManualClock(BEGUN_US))
    broker.begin(lambda chunk: data.extend(chunk) is None)
    for _ in range(replay.STEPS):
        broker.sweep()
    file.write_bytes(data)
    parser = argparse.ArgumentParser()
    add(parser, replay.ARGUMENTS)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await replay.run(parser.parse_args([str(file)]), Console())
    assert scope.cancelled_caught
    assert capsys.readouterr().out == ""


def test_a_pipe_is_not_waited_for(zaichik, tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    result = zaichik("replay", str(pipe))
    assert result.code == 1
    assert (
        result.err
        == f"zaichik: {pipe}: it is a pipe; write the recording to a file, and replay that\n"
    )


def test_on_a_terminal_each_step_waits_for_enter(on_terminal, file):
    code, text = on_terminal("replay", str(file), "--step", keys=b"\n\n\x04", COLUMNS="200")
    assert code == 0
    assert "the same bytes were sent on every connection" in text
    assert text.index("     3  +") < text.index("     4  +")


def test_records_that_make_no_sense_are_lines_as_well(zaichik, file, data):
    recording, out, tape = Recording(data), bytearray(), Tape()
    tape.begin(
        lambda chunk: out.extend(chunk) is None, json.loads(recording.about), is_masked=False
    )
    for kind in range(1, 14):
        for payload in (b"", b"{}", b"\x1b[2J", b'["\\u001b[2J", 1]'):
            tape.note(kind, 1, payload)
    tape.flush()
    file.write_bytes(out)
    result = zaichik("replay", str(file), "--step")
    assert result.code == 1
    assert all(harmless(line) == line for line in result.out.splitlines())
    assert result.err == ""


@pytest.fixture
def orders(tmp_path):
    """A recording of 90 s: a topic keeps messages for 60 s, and one of a key every 40 s.

    Two of a key come in 1 s.
    """
    data, clock = bytearray(), Time()
    broker = RecordedBroker(BrokerSettings(), clock)
    broker.begin(lambda chunk: data.extend(chunk) is None)
    client = Conversation(broker)
    settings = ((Setting.RETENTION_TTL_MS, 60_000), (Setting.COMPACTION_WINDOW_MS, 40_000))
    client.ask(CreateTopic(2, "orders", settings), Subscribe(3, "orders", name="billing"))
    clock.seconds = 10
    client.ask(Publish(4, "orders", batch((b"4711", b"one"))))
    clock.seconds = 11
    client.ask(Publish(5, "orders", batch((b"4711", b"two"))))
    clock.seconds = 90
    broker.disconnect(client.manager, "GONE")
    broker.tape.end()
    path = tmp_path / "orders"
    path.write_bytes(data)
    return str(path)


class Time:
    """A clock like a machine's: nobody moves it by a request."""

    seconds = 0

    def now_us(self):
        return BEGUN_US + self.seconds * 1_000_000


OFFSET = "--explain", "orders", "--offset", "0"
KEY = "--explain", "orders", "--key", "4711"


@pytest.mark.parametrize(
    ("until", "seconds", "fate"),
    [
        (["--until", "5s"], 5, "never_seen"),
        (["--until", "10s"], 10, "readable"),
        (["--until", "69.999s"], 69.999, "readable"),
        (["--until", "70s"], 70, "expired"),
        (["--until", "2h"], 90, "expired"),
        (["--until", "8"], 0, "never_seen"),
        (["--until", "9"], 10, "readable"),
        ([], 90, "expired"),
    ],
)
def test_what_became_of_a_message_is_answered_as_at_that_moment(
    zaichik, orders, until, seconds, fate
):
    """After the end of the recording no time passes: nobody knows what would have happened then."""
    result = zaichik("replay", orders, *until, *OFFSET, "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json["now_us"] == BEGUN_US + round(seconds * 1e6)
    assert result.json["verdicts"][0]["fate"] == fate


@pytest.mark.parametrize(
    ("until", "fates", "winner"),
    [
        ("9s", ["never_seen"], None),
        ("10s", ["readable", "in_flight", "window_open"], None),
        ("11s", ["kept_out", "window_open"], 0),
        ("60s", ["kept_out"], 0),
        ("90s", ["kept_out", "unknown"], None),
    ],
)
def test_a_message_that_was_kept_out_is_known_with_its_winner(
    zaichik, orders, until, fates, winner
):
    verdicts = zaichik("replay", orders, "--until", until, *KEY, "--json").json["verdicts"]
    assert [it["fate"] for it in verdicts] == fates
    assert verdicts[0]["evidence"].get("winner") == winner


def test_the_screen_is_that_of_explain(zaichik, orders):
    result = zaichik("replay", orders, "--until", "60s", *OFFSET, "--subscription", "billing")
    title, _, readable, evidence, _, at_billing, *_ = result.out.splitlines()
    assert (result.code, result.err, title) == (0, "", "offset 0 of orders")
    assert readable == "readable: it is stored, and can be read (RET-2)"
    assert evidence.startswith("    head 0, next offset 1, accepted 2023-11-14 ")
    assert ", subscription billing, 1.3, somebody: " in at_billing


def test_a_clock_that_clients_move_is_read_after_they_have_moved_it(zaichik, tmp_path):
    data, clock = bytearray(), ManualClock(BEGUN_US)
    broker = RecordedBroker(BrokerSettings(topic=TopicSettings(retention_ttl_ms=60_000)), clock)
    broker.begin(lambda chunk: data.extend(chunk) is None)
    client = Conversation(broker)
    client.ask(
        Publish(2, "orders", batch(b"one")),
        AdvanceClock(3, BEGUN_US + 80_000_000),
        Subscribe(4, "orders"),
    )
    broker.tape.end()
    (tmp_path / "moved").write_bytes(data)
    answer = zaichik("replay", str(tmp_path / "moved"), "--until", "20s", *OFFSET, "--json").json
    assert (answer["now_us"], answer["verdicts"][0]["fate"]) == (BEGUN_US + 80_000_000, "expired")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ["--explain", "letters", "--offset", "0"],
            1,
            "there is no topic 'letters' (zaichik explain NO_SUCH_TOPIC)",
        ),
        ([*OFFSET, "--subscription", "nobody"], 1, "has no subscription 'nobody'"),
        (
            [*KEY, "--until", "10s", "--at", "2023-11-14T22:13:31+00:00"],
            1,
            "time is 1,000,000 µs from now; it must be",
        ),
        (["--explain", "orders"], 2, "give either --offset or --key"),
        ([*OFFSET, "--at", "2023-11-14"], 2, "--at goes with --key"),
        ([*OFFSET, "--step"], 2, "give either --step or --explain"),
        (["--offset", "0"], 2, "go with --explain TOPIC"),
        (["--json"], 2, "go with --explain TOPIC"),
        (["--explain", "\udcff", "--offset", "0"], 2, "is not UTF-8"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(zaichik, orders, words, code, sentence):
    result = zaichik("replay", orders, *words)
    assert (result.code, result.out, result.err.count("\n")) == (code, "", 1)
    assert sentence in result.err


def test_an_answer_that_may_be_wrong_comes_with_a_warning(zaichik, file, data):
    file.write_bytes(data[:-30] + b"\xff" + data[-29:])
    result = zaichik("replay", str(file), "--explain", "t", "--offset", "0", "--json")
    assert (result.code, result.json["topic"], result.err.count("\n")) == (1, "t", 1)
    assert "flight: the recording is not whole: it is damaged after byte " in result.err


def rewritten(data, change_header=lambda about: about, change_payload=lambda _, payload: payload):
    """A recording with right checksums, by somebody who can compute them."""
    recording = Recording(data)
    about = change_header(recording.about)
    begin = data[: len(MAGIC) + 4] + len(about).to_bytes(4, "little") + about
    crc = crc32(begin)
    made = begin + CHECK.pack(crc)
    for number, kept in enumerate(recording.records()):
        payload = change_payload(number, kept.payload)
        head = RECORD.pack(len(payload), kept.kind, kept.number, kept.now_us)
        crc = crc32(payload, crc32(head, crc))
        made += head + payload + CHECK.pack(crc)
    return made


DEEP = b"[" * 30_000 + b"]" * 30_000


@pytest.mark.parametrize(
    "change",
    [
        lambda _: DEEP,
        lambda about: about[:-1] + b', "x": ' + DEEP + b"}",
        lambda about: about.replace(str(BEGUN_US).encode(), b"9" * 5000),
        lambda _: b"[]",
    ],
    ids=["nested", "nested in a value", "digits", "a list"],
)
def test_a_header_of_anything_is_one_sentence(zaichik, file, data, change):
    file.write_bytes(rewritten(data, change))
    result = zaichik("replay", str(file))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"zaichik: {file}: its header makes no sense: ")


@pytest.mark.parametrize("payload", [DEEP, b"[" * 500 + b"]" * 500, b"{}", b""], ids=len)
def test_a_record_of_anything_is_a_difference(zaichik, file, data, payload):
    for number in range(6):

        def change(at, old, number=number):
            return payload if at == number else old

        file.write_bytes(rewritten(data, change_payload=change))
        result = zaichik("replay", str(file), "--step")
        assert (result.code, result.err) == (1, "")
