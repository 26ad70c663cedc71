from datetime import UTC, datetime, timedelta, timezone

import pytest

from zaichik import Lagged, Message
from zaichik.client.messages import (
    batch_of,
    key_bytes,
    messages_of,
    milliseconds,
    payload_bytes,
    start_at,
    start_written,
)
from zaichik_protocol import FOREVER, Batch, Messages, Start


def test_a_message_has_its_offset_time_key_and_payload():
    frame = Messages(
        id=1, base=40, accepted_us=1_500_000, batch=Batch.of([(b"k", b"a"), (b"", b"b")])
    )
    assert list(messages_of(frame, "t")) == [
        Message("t", 40, 1.5, b"k", b"a"),
        Message("t", 41, 1.5, None, b"b"),
    ]


def test_offsets_skip_holes():
    batch = Batch.of([(b"", b"a"), (b"", b"b"), (b"", b"c")])
    frame = Messages(id=1, base=40, accepted_us=0, batch=batch, deltas=(0, 3, 7), holes=True)
    assert [message.offset for message in messages_of(frame, "t")] == [40, 43, 47]


def test_a_timestamp_of_today_keeps_its_microseconds():
    now_us = 1_763_700_000_123_457
    frame = Messages(id=1, base=0, accepted_us=now_us, batch=Batch.of([(b"", b"a")]))
    (message,) = messages_of(frame, "t")
    assert round(message.timestamp * 1e6) == now_us


def test_lag_counts_from_its_start_to_before_its_end():
    """LAG-1: `to - from` is exact."""
    assert Lagged("t", 3, 10).count == 7


@pytest.mark.parametrize(
    ("key", "wire"),
    [(None, b""), ("käse", "käse".encode()), (b"\x00", b"\x00"), (bytearray(b"ab"), b"ab")],
)
def test_a_key_is_bytes_on_the_wire(key, wire):
    assert key_bytes(key) == wire


@pytest.mark.parametrize(
    ("key", "payload", "is_tombstone"),
    [(b"k", b"", True), (b"k", b"v", False), (None, b"", False), (None, b"v", False)],
)
def test_a_tombstone_has_a_key_and_no_payload(key, payload, is_tombstone):
    """TAB-5."""
    assert Message("t", 0, 0.0, key, payload).is_tombstone == is_tombstone


@pytest.mark.parametrize("payload", [None, b"", bytearray(), memoryview(b"")])
def test_a_payload_may_be_empty_or_be_none_for_a_key(payload):
    assert payload_bytes(payload, b"k") == b""


def test_a_payload_of_none_needs_a_key_to_delete():
    with pytest.raises(ValueError, match="name the key"):
        payload_bytes(None, b"")


@pytest.mark.parametrize(
    ("rows", "tombstones"),
    [
        ([("a", b"1"), ("b", None)], True),
        ([("a", None), (None, b"")], True),
        ([("a", b"1"), ("b", b"")], False),
        ([(None, b"")], False),
    ],
)
def test_a_batch_has_tombstones_if_a_payload_is_none(rows, tombstones):
    """TAB-6."""
    batch, found = batch_of(rows)
    assert [*batch.each_payload()] == [payload or b"" for _, payload in rows]
    assert found == tombstones


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b"")])
def test_a_batch_in_which_only_some_of_the_empty_payloads_are_meant_is_refused(empty):
    """TAB-6: the flag would delete the others, too."""
    with pytest.raises(ValueError, match="publish it in another batch"):
        batch_of([("a", None), ("b", empty)])
    _, tombstones = batch_of([("a", None), ("b", empty)], tombstones=True)
    assert tombstones


@pytest.mark.parametrize("key", ["", b""])
def test_an_empty_key_is_refused(key):
    """COM-5: an empty key would mean no key."""
    with pytest.raises(ValueError, match="empty key"):
        key_bytes(key)


@pytest.mark.parametrize(
    ("duration", "wire"),
    [
        (0, 0),
        (10, 10_000),
        (0.25, 250),
        (timedelta(minutes=1, milliseconds=5), 60_005),
        (timedelta(0), 0),
        ("forever", FOREVER),
    ],
)
def test_a_duration_is_milliseconds_on_the_wire(duration, wire):
    assert milliseconds(duration) == wire


@pytest.mark.parametrize(
    "duration", [-1, -0.001, timedelta(seconds=-1), "always", None, float("nan")]
)
def test_an_invalid_duration_is_refused(duration):
    with pytest.raises(ValueError, match="a duration must be"):
        milliseconds(duration)


@pytest.mark.parametrize(
    ("start", "wire"),
    [
        ("earliest", (Start.EARLIEST, 0)),
        ("latest", (Start.LATEST, 0)),
        (0, (Start.OFFSET, 0)),
        (7, (Start.OFFSET, 7)),
        (datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC), (Start.TIME, 1_000_005)),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), (Start.TIME, 0)),
        (datetime(1960, 1, 1, tzinfo=UTC), (Start.TIME, 0)),
    ],
)
def test_a_start_is_a_kind_and_a_value_on_the_wire(start, wire):
    """RET-4."""
    assert start_at(start) == wire


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("0", 0),
        ("41", 41),
        ("1970-01-01T01:00+01:00", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_start_may_be_written(text, start):
    assert start_written(text) == start


@pytest.mark.parametrize("text", ["", "first", "-1", "1.5", "\u0661", "2026-13-01", "1" * 5000])
def test_an_invalid_written_start_is_refused(text):
    with pytest.raises(
        ValueError, match=r"write earliest, latest, an offset, or a time such as 2026-01-31T08:00"
    ):
        start_written(text)


@pytest.mark.parametrize("start", [-1, "first", None, 1.5])
def test_an_invalid_start_is_refused(start):
    with pytest.raises(ValueError, match="a start must be"):
        start_at(start)
