"""Records of what was left when a file was rewritten."""

from array import array

import pytest
from tables import keyed

from zaichik.core.tables import durable_table
from zaichik.core.tables.keep_last import Rows
from zaichik.storage.cleaning.kept import COLUMNS, holes, holes_of, is_kept, kept_record, rows_of
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik_protocol import Batch

ROWS = Rows(
    array("q", [7, 9, 10]),
    array("q", [-5, 20, 30]),
    Batch.of([(b"a", b"1"), (b"", b""), (b"c", b"3")]),
)


def test_a_record_says_which_offsets_and_when():
    """DUR-10."""
    record = kept_record(5, 12, ROWS)
    assert (record.base, record.count, record.accepted_us) == (5, 7, 30)
    assert rows_of(record) == ROWS
    assert holes_of(record) == 4
    assert is_kept(record)


def test_of_holes_there_is_no_body():
    record = holes(5, 12, 3)
    assert (record.count, record.body, record.dropped) == (7, b"", b"")
    assert rows_of(record) is None
    assert holes_of(record) == 7
    assert is_kept(record)


def test_other_records_have_messages_without_gaps_or_none():
    rows = rows_of(keyed(3, (b"a", b"1"), (b"b", b"2"), at_us=8))
    assert (list(rows.offsets), list(rows.times)) == ([3, 4], [8, 8])
    assert rows_of(StoredRecord(3, 8, 0, b"{}", RecordKind.POSITIONS)) is None
    assert rows_of(StoredRecord(3, 8, 4, b"", RecordKind.LOST)) is None


def columns(record, **changes):
    fields = {"body": record.body, "dropped": record.dropped, "count": record.count} | changes
    return StoredRecord(record.base, record.accepted_us, kind=RecordKind.KEPT, **fields)


@pytest.mark.parametrize(
    "spoil",
    [
        {"dropped": b""},
        {"dropped": b"\0" * 36},
        {"body": b"no batch"},
        {"body": b""},
        {"count": 5},
    ],
    ids=["no columns", "one offset three times", "no batch", "no body", "beyond what it covers"],
)
def test_what_makes_no_sense_is_damage(spoil):
    """DUR-7."""
    assert not is_kept(columns(kept_record(5, 12, ROWS), **spoil))


def test_the_core_knows_what_a_message_takes():
    assert durable_table.LOGGED == COLUMNS
