"""A record's headers, there and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.apps.replication import record
from zaichik.apps.replication.gaps import Gaps
from zaichik.apps.replication.record import Header, NotOurs, header_of

NUMBERS = st.integers(0, 2**64 - 1)


def fields(epoch=5, offset=7, us=9, *more):
    return [
        record.epoch_field(epoch),
        record.offset_field(offset),
        record.time_field(us),
        *more,
    ]


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_message(epoch, offset, us):
    found = header_of(fields(epoch, offset, us))
    assert found == Header(epoch, offset, us)
    assert found.next == offset + 1


def test_a_gap():
    found = header_of(fields(5, 7, 9, record.gap_field(12)))
    assert (found.offset, found.end, found.next) == (7, 12, 12)


def test_settings_and_gaps():
    gaps = Gaps(((1, 3),), 1)
    found = header_of(fields(5, 7, 9, record.settings_field({"a": 1}), record.gaps_field(gaps)))
    assert json.loads(found.settings) == {"a": 1}
    assert Gaps.decoded(found.gaps) == gaps


def test_headers_of_others_do_no_harm():
    assert header_of([("traceparent", None), *fields()]) == Header(5, 7, 9)


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        (None, "no header zaichik-epoch"),
        ([], "no header zaichik-epoch"),
        (fields()[:1], "no header zaichik-offset"),
        (fields()[:2], "no header zaichik-us"),
        ([("zaichik-epoch", b"-1")], "zaichik-epoch is b'-1', and no number"),
        ([("zaichik-epoch", b"")], "and no number"),
        ([("zaichik-epoch", None)], "no header zaichik-epoch"),
        (fields(5, 7, 9, record.gap_field(7)), "a gap from 7 to 7"),
    ],
)
def test_a_record_that_no_bridge_has_written(headers, problem):
    with pytest.raises(NotOurs, match=problem):
        header_of(headers)


def test_the_largest_headers_are_allowed_for():
    gaps = Gaps()
    for number in range(100):
        gaps = gaps.with_gap(2**64 - 1000 + 2 * number, 2**64 - 999 + 2 * number)
    settings = {f"a_setting_with_a_long_name_{number}": 2**64 - 1 for number in range(20)}
    largest = 2**64 - 1
    headers = fields(
        largest,
        largest,
        largest,
        record.settings_field(settings),
        record.gaps_field(Gaps(gaps.ranges, largest)),
    )
    assert sum(len(name) + len(value) + 20 for name, value in headers) < record.MOST_OVERHEAD
