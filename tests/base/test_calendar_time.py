"""Times that a calendar has are shown as such, and others are no error."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from zaichik.base.calendar_time import calendar_time

DAY_US = 86_400_000_000


def us_of(year):
    return (datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


@pytest.mark.parametrize(
    "us", [0, -1_000_000, 1_700_000_000_123_456, us_of(2), us_of(9999) - DAY_US]
)
def test_a_time_of_the_calendar(us):
    found = calendar_time(us)
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    assert abs(found - expected) < timedelta(milliseconds=1)
    for hours in (-23, 23):
        found.astimezone(timezone(timedelta(hours=hours)))


@pytest.mark.parametrize(
    "us", [-(2**63), 2**63 - 1, us_of(2) - DAY_US, us_of(9999), -(10**30), 10**30, float("inf")]
)
def test_a_time_that_no_calendar_has(us):
    assert calendar_time(us) is None
