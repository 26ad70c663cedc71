"""Events out of journals and messages."""

import struct

import oracle
import pyarrow as pa
import pytest

from zaichik.apps.recording.parts import SCHEMA as MESSAGES
from zaichik.apps.statistics.events import (
    SCHEMA,
    NoJournal,
    decode,
    events,
    of_journal,
    of_messages,
)


def record(accepted_us, offset, winner, payload):
    """A journal's payload, written down field by field."""
    hash_ = oracle.blake(payload) % 2**64
    return struct.pack("<qqqQIB3x", accepted_us, offset, winner, hash_, len(payload), offset < 0)


def test_what_is_no_journal_is_refused():
    with pytest.raises(NoJournal, match="40 bytes"):
        decode(pa.array([b"x" * 40, b"y"]))
    with pytest.raises(NoJournal):
        decode(pa.array([b"x" * 40, None]))


def test_a_slice_of_a_journal_is_decoded_from_where_it_begins():
    payloads = pa.array([record(time, time, -1, b"") for time in range(5)])
    assert decode(payloads.slice(2, 2))["accepted_us"].tolist() == [2, 3]
    assert len(decode(payloads.slice(2, 0))) == 0
    assert len(decode(pa.array([], pa.binary()))) == 0


def messages(*rows):
    """A batch as a recording has it."""
    names = ("offset", "timestamp", "key", "payload")
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=MESSAGES
    )


def test_a_journal_tells_what_became_of_a_message():
    kept, dropped = record(7, 3, -1, b"one"), record(9, -1, 3, b"other")
    batch = events(of_journal(messages((10, 0, b"k", kept), (11, 0, b"k", dropped))), epoch=5)
    assert batch.schema == SCHEMA
    common = {"epoch": 5, "key": b"k"}
    assert batch.to_pylist() == [
        common
        | {
            "position": 10,
            "accepted_us": 7,
            "hash": oracle.blake(b"one"),
            "size": 3,
            "status": 0,
            "offset": 3,
            "winner": None,
            "superseded": None,
        },
        common
        | {
            "position": 11,
            "accepted_us": 9,
            "hash": oracle.blake(b"other"),
            "size": 5,
            "status": 1,
            "offset": None,
            "winner": 3,
            "superseded": None,
        },
    ]


def test_a_message_was_stored():
    batch = events(
        of_messages(messages((10, 7, None, b"x"), (12, 9, b"k", b"x"), (13, 9, b"k", b""))), epoch=5
    )
    rows = batch.to_pylist()
    assert [(row["position"], row["offset"], row["accepted_us"], row["size"]) for row in rows] == [
        (10, 10, 7, 1), (12, 12, 9, 1), (13, 13, 9, 0),
    ]  # fmt: skip
    assert [(row["status"], row["winner"], row["key"]) for row in rows] == [
        (0, None, None),
        (0, None, b"k"),
        (0, None, b"k"),
    ]
    assert rows[0]["hash"] == rows[1]["hash"] != rows[2]["hash"]
