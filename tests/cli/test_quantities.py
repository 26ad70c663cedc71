"""Durations and sizes as people write them."""

import argparse
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.cli.quantities import (
    duration,
    natural,
    positive,
    show_duration,
    show_time,
    size,
)
from zaichik_protocol import FOREVER


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("10s", 10),
        ("5m", 300),
        ("6h", 21600),
        ("7d", 604800),
        ("90", 90),
        ("1.5h", 5400),
        ("0", 0),
    ],
)
def test_a_duration_is_a_number_with_a_unit(text, seconds):
    assert duration(text) == seconds


def test_forever_is_a_duration():
    assert duration("forever") == "forever"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("10MB", 10_000_000),
        ("64MiB", 64 * 1024**2),
        ("1 kB", 1000),
        ("1.5KiB", 1536),
        ("2gib", 2**31),
    ],
)
def test_a_size_is_a_number_with_a_unit(text, count):
    assert size(text) == count


@pytest.mark.parametrize(
    "text", ["", "5x", "-1s", "s", "1h30m", "10S", "1e3", "٣s", "ever", " 1s", "1s\n"]
)
def test_other_texts_are_not_durations(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration; write 500ms"):
        duration(text)


@pytest.mark.parametrize("text", ["", "5x", "-1", "64M", "MiB", "1h"])
def test_other_texts_are_not_sizes(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size; write 4096"):
        size(text)


def test_whole_numbers():
    assert natural("0") == 0
    assert positive("7") == 7
    for text in ("-1", "x", "1.5", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number"):
            positive(text)
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        positive("0")


@pytest.mark.parametrize("read", [duration, size, natural])
@pytest.mark.parametrize("text", ["9" * 5000, "9" * 400 + ".5"])
def test_a_number_longer_than_any_quantity_is_refused(read, text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a "):
        read(text)


@given(st.integers(0, 100 * 31_557_600_000))
def test_a_duration_shown_reads_as_itself(ms):
    assert round(float(duration(show_duration(ms))) * 1000) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (500, "500ms"), (90_000, "90s"), (86_400_000, "1d"), (FOREVER, "forever")],
)
def test_a_duration_is_shown_in_its_largest_whole_unit(ms, text):
    assert show_duration(ms) == text


@pytest.mark.parametrize("us", [-(2**63), 2**62])
def test_a_time_that_no_calendar_has_is_shown_as_a_number(us):
    assert show_time(us) == f"{us} µs"


def test_a_time_is_shown_where_the_reader_is(monkeypatch):
    """Truncated, not rounded: a message of 23:59:59.9999 is of that day."""
    us = 1_767_175_199_999_999
    with monkeypatch.context() as there:
        there.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        shown = [
            show_time(us),
            show_time(us, "microseconds"),
            show_time(us / 1e6 * 1e6, with_offset=False),
        ]
    time.tzset()
    assert shown == [
        "2025-12-31 23:59:59.999+14:00",
        "2025-12-31 23:59:59.999999+14:00",
        "2025-12-31 23:59:59.999",
    ]
