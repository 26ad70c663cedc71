"""What is wrong with a file is found, wherever it is, and said in one sentence."""

import json
from zlib import crc32

import pytest
from conversation import Conversation, batch

from zaichik.apps.flight import format as replayed_format
from zaichik.apps.flight.format import (
    CHECK,
    HEADER,
    MAGIC,
    VERSION,
    FlightRecord,
    Recording,
    Unreadable,
)
from zaichik.apps.flight.tape import Tape
from zaichik_protocol import PROTOCOL_VERSION, Publish, Subscribe

AT_VERSION = len(MAGIC)


@pytest.fixture
def data(flight):
    """A small recording."""
    client = Conversation(flight.broker)
    client.ask(Subscribe(2, "t"), Publish(3, "t", batch((b"k", b"payload"))))
    flight.broker.disconnect(client.manager, "CLOSED")
    return flight.landed()


def begin(data):
    """How long its header is."""
    return len(data) - sum(17 + len(record.payload) + 4 for record in Recording(data).records())


def test_the_layout_of_a_record(flight):
    flight.broker.memory.take("ana", 5)
    data = flight.landed()
    payload = b"\x05" + bytes(7) + b"ana"
    record = b"\x0b\0\0\0" + b"\x08" + bytes(4) + bytes(8) + payload
    assert data[begin(data) :].startswith(record)
    assert data.startswith(b"zaichik flight\r\n" + bytes([VERSION, 0, PROTOCOL_VERSION, 0]))
    (first, end) = Recording(data).records()
    assert first == FlightRecord(8, 0, 0, payload)
    assert (end.kind.name, end.payload) == ("END", b"")


def test_the_header_tells_what_was_recorded(flight):
    about = json.loads(Recording(flight.landed()).about)
    assert about["broker"] == flight.broker.name
    assert about["boot"] == flight.broker.boot
    assert about["begun_us"] == 1_000_000
    assert about["build"] in {"compiled", "pure Python"}
    assert about["settings"]["max_topics"] == flight.broker.settings.max_topics
    assert about["settings"]["topic"]["capacity"] == 10_000


def test_every_prefix_is_replayed_up_to_the_tear(data, replay):
    whole, head = replay(data), begin(data)
    ends = {head}
    for record in Recording(data).records():
        ends.add(max(ends) + 17 + len(record.payload) + 4)
    for size in range(len(data)):
        if size < head:
            with pytest.raises(Unreadable):
                Recording(data[:size])
            continue
        torn = replay(data[:size])
        assert torn.recording.problem.startswith(
            "it has no end" if size in ends else "it breaks off in the middle"
        )
        assert not torn.recording.is_damaged
        assert torn.differences == []
        assert [step.output for step in torn.steps] == [
            step.output for step in whole.steps[: len(torn.steps)]
        ]
    assert len(torn.steps) == len(whole.steps) - 1


def test_every_flipped_byte_is_found(data):
    head, whole = begin(data), list(Recording(data).records())
    for at in range(len(data)):
        flipped = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        if at < head:
            with pytest.raises(Unreadable):
                Recording(flipped)
        else:
            recording = Recording(flipped)
            believed = list(recording.records())
            assert recording.problem
            assert believed == whole[: len(believed)] != whole


def test_records_that_are_left_out_repeated_or_swapped_are_found(data):
    """Each checksum continues the one before."""
    start, parts = begin(data), []
    for record in Recording(data).records():
        size = 17 + len(record.payload) + 4
        parts.append(data[start : start + size])
        start += size
    head = data[: begin(data)]
    for wrong in (parts[:1] + parts[2:], parts[:2] + parts[1:], [parts[1], parts[0], *parts[2:]]):
        recording = Recording(head + b"".join(wrong))
        list(recording.records())
        assert recording.is_damaged
        assert recording.problem.startswith("it is damaged after byte ")


def test_what_follows_the_end_is_no_part_of_it(data):
    recording = Recording(data + b"more")
    list(recording.records())
    assert recording.problem.startswith("it breaks off")


@pytest.mark.parametrize("data_", [b"", b"PAR1", b"zaichik flight\n" * 9, MAGIC])
def test_a_foreign_file(data_):
    with pytest.raises(Unreadable, match="not a zaichik recording"):
        Recording(data_)


def test_a_newer_format(data):
    newer = data[:AT_VERSION] + bytes([VERSION + 1]) + data[AT_VERSION + 1 :]
    with pytest.raises(
        Unreadable, match=f"a newer zaichik: its format is {VERSION + 1}, this one reads {VERSION}"
    ):
        Recording(newer)


def test_an_older_format_is_read(flight, replay, monkeypatch):
    """It had no durable topics, and its header did not say so."""
    Conversation(flight.broker).ask(Publish(2, "t", batch(b"x")))
    data = flight.landed()
    known, records, older, tape = (
        replay(data).player.about,
        list(Recording(data).records()),
        bytearray(),
        Tape(),
    )
    del known["has_disk"]
    monkeypatch.setattr(replayed_format, "VERSION", 1)
    tape.begin(lambda chunk: older.extend(chunk) is None, known, is_masked=False)
    monkeypatch.undo()
    for record in records:
        tape.note(record.kind, record.number, record.payload, record.now_us)
    tape.flush()
    assert older[AT_VERSION] == 1
    again = replay(older)
    assert (again.differences, again.recording.problem) == ([], "")
    assert [step.output for step in again.steps] == [step.output for step in replay(data).steps]


def test_a_record_of_an_unknown_kind_is_damage(data, rewrite):
    """Somebody who knows the checksum wrote it, or a zaichik that has not raised its version."""

    def unknown(records):
        records[3] = records[3]._replace(kind=99)
        return records

    recording = Recording(rewrite(data, unknown))
    assert len(list(recording.records())) == 3
    assert recording.is_damaged
    assert recording.problem.startswith("it has a record of an unknown kind, 99, after byte ")


def test_another_version_of_the_protocol():
    start = HEADER.pack(MAGIC, VERSION, 9, 2) + b"{}"
    with pytest.raises(
        Unreadable, match=r"version 9 of the protocol; this zaichik speaks version 1"
    ):
        Recording(start + CHECK.pack(crc32(start)))
