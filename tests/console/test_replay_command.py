"""`zaichik replay`: what a person is told of a recording."""

import json

import pytest
from conversation import Conversation, batch

from zaichik.broker.clock import ManualClock
from zaichik.broker.settings import BrokerSettings
from zaichik.escapes import harmless
from zaichik.flight.format import Recording
from zaichik.flight.recorder import RecordedBroker, Tape
from zaichik_protocol import Publish, Subscribe

BEGUN_US = 1_700_000_000_000_000
NASTY = "\x1b[2Ja\u202eb\u2028c"


@pytest.fixture
def data():
    """A recording of 3.5 s with 5 frames, by somebody whose names are not harmless."""
    data, clock = bytearray(), ManualClock(BEGUN_US)
    broker = RecordedBroker(BrokerSettings(), clock)
    broker.begin(lambda chunk: data.extend(chunk) is None)
    client = Conversation(broker, share=NASTY)
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
    assert steps == "15 steps in 3.500000 s: 1 connections, 5 requests, 6 outputs"
    assert state == "the broker then has 0 connections, 2 topics and 2 messages"
    assert verdict == "the same bytes were sent on every connection"


def test_steps_are_lines_of_which_none_is_raw(zaichik, file):
    result = zaichik("replay", str(file), "--step")
    assert result.code == 0
    *steps, _, _, _, _ = result.out.splitlines()
    assert all(harmless(line) == line for line in steps)
    assert (
        steps[0] == "     1  +0.000000 s  connection 1  connects from ''; it is charged to '\\x1b[2Ja\\u202eb\\u2028c'"
    )
    assert "connection 1  > Hello: id 1, version_min 1" in steps[1]
    assert "+2.500000 s  connection 1  > Publish: id 4, producer 0, sequence 0, topic 't', count 1" in "\n".join(steps)
    assert any("  < Messages: id 3, base 0" in line for line in steps)
    assert "payload_bytes '\\x1b[2Jone'" in result.out
    assert "holds +5 bytes" in result.out
    assert steps[-2].endswith("connection 1  is closed: 'GONE: \\x1b[2Ja\\u202eb\\u2028c'")
    assert steps[-1].endswith("the recording ends")


def test_up_to_a_step(zaichik, file):
    result = zaichik("replay", str(file), "--until", "3", "--step")
    assert result.code == 0
    assert "     3  +" in result.out
    assert "     4  +" not in result.out
    assert "the broker then has 1 connections" in result.out


def test_up_to_a_time(zaichik, file):
    result = zaichik("replay", str(file), "--until", "2s")
    assert "in 0.000000 s: 1 connections, 3 requests" in result.out
    assert "not whole" not in result.out
    assert zaichik("replay", str(file), "--until", "forever").out == zaichik("replay", str(file)).out


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
    assert told[3].startswith("DIFFERENT in ")
    assert told[4].startswith("     7  +0.000000 s  connection 1  < Error: id 2, code 66")
    assert "!! checksum and bytes of the output: (" in told[-1]


def test_a_torn_recording_is_replayed_up_to_the_tear(zaichik, file, data):
    file.write_bytes(data[:-30])
    result = zaichik("replay", str(file))
    assert result.code == 0
    assert "the recording is not whole: it breaks off in the middle of a record, after byte " in result.out
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
        (b"zaichik flight\r\n\x09\0\x01\0\0\0\0\0", "it is from a newer zaichik: its format is 9, this one reads 1"),
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


def test_on_a_terminal_each_step_waits_for_enter(on_terminal, file):
    code, text = on_terminal("replay", str(file), "--step", keys=b"\n\n\x04", COLUMNS="200")
    assert code == 0
    assert "the same bytes were sent on every connection" in text
    assert text.index("     3  +") < text.index("     4  +")


def test_records_that_make_no_sense_are_lines_as_well(zaichik, file, data):
    recording, out, tape = Recording(data), bytearray(), Tape()
    tape.begin(lambda chunk: out.extend(chunk) is None, json.loads(recording.about), is_masked=False)
    for kind in range(1, 14):
        for payload in (b"", b"{}", b"\x1b[2J", b'["\\u001b[2J", 1]'):
            tape.note(kind, 1, payload)
    tape.flush()
    file.write_bytes(out)
    result = zaichik("replay", str(file), "--step")
    assert result.code == 1
    assert all(harmless(line) == line for line in result.out.splitlines())
    assert result.err == ""
