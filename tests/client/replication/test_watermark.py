"""The watermark's form: what it says, and what is none."""

import json

import pytest

from zaichik.client import messages
from zaichik.client.replication.watermark import (
    KAFKA,
    MOST_GAPS,
    UnreadableWatermark,
    Watermark,
    topic_of,
)

FULL = {
    "format": 1,
    "by": "kafka",
    "epoch": 5,
    "next": 42,
    "gaps": [[7, 9], [20, 30]],
    "gaps_from": 3,
}


def payload(**changed):
    return json.dumps(FULL | changed).encode()


def test_it_is_the_object_that_the_page_shows():
    assert json.loads(Watermark(5, 42, ((7, 9),)).encoded()) == {
        "format": 1,
        "by": "kafka",
        "epoch": 5,
        "next": 42,
        "gaps": [[7, 9]],
    }


def test_what_is_written_can_be_read():
    mark = Watermark(5, 42, ((7, 9), (20, 30)), 3)
    assert Watermark.of(mark.encoded()) == mark == Watermark.of(payload())


def test_fields_of_later_versions_are_passed_over():
    assert Watermark.of(payload(lag=3)).next == 42


def test_only_the_newest_gaps_are_written_and_it_is_said_from_where_they_are_complete():
    gaps = tuple((10 * number, 10 * number + 1) for number in range(MOST_GAPS + 2))
    mark = Watermark.of(Watermark(5, 10_000, gaps).encoded())
    assert mark.gaps == gaps[2:]
    assert mark.gaps_from == 11


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"7",
        b"[]",
        b"[" * 100_000,
        payload(format=2),
        payload(format=True),
        payload(by=None),
        payload(next=-1),
        payload(next=2**64),
        payload(next=1.0),
        payload(next=True),
        payload(epoch="5"),
        payload(gaps=None),
        payload(gaps=[7, 9]),
        payload(gaps=[[7]]),
        payload(gaps=[[9, 7]]),
        payload(gaps=[[7, 7]]),
        payload(gaps=[[20, 30], [7, 9]]),
        payload(gaps=[[40, 43]]),
        payload(gaps_from=None),
    ],
    ids=range(21),
)
def test_what_is_no_watermark_is_refused(text):
    with pytest.raises(UnreadableWatermark):
        Watermark.of(text)


@pytest.mark.parametrize(
    ("start", "end", "missing"),
    [
        (10, 20, None),
        (30, 42, None),
        (30, 43, 42),
        (50, 51, 50),
        (5, 8, 7),
        (8, 12, 8),
        (15, 35, 20),
        (2, 4, 2),
        (3, 7, None),
        (9, 20, None),
        (7, 7, None),
        (99, 99, None),
    ],
)
def test_an_offset_is_replicated_below_the_watermark_and_in_no_gap(start, end, missing):
    """AK-1."""
    assert Watermark.of(payload()).first_missing(start, end) == missing


def test_the_topic_of_a_watermark_has_a_name_that_the_broker_takes():
    assert topic_of("orders") == "replicated/orders"
    assert len(topic_of("x" * 189)) == 200
    with pytest.raises(ValueError, match="at most 189 bytes"):
        topic_of("ü" * 95)


def test_kafka_has_one_name():
    assert KAFKA == messages.KAFKA
