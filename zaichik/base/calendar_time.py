"""Times that a calendar has, and others.

A broker's times are 64-bit counts of microseconds. They reach 292,000 years to both sides of 1970,
and calendars from year 1 to 9999. Nothing forbids a broker whose clock is wrong, so a time that no
calendar has is no error: it is shown as the number it is.
"""

from datetime import MAXYEAR, MINYEAR, UTC, datetime


def calendar_time(us: float) -> datetime | None:
    """Returns the time that many microseconds since 1970, in UTC; None if no calendar has it.

    A day and more is left to both ends of the calendar, for every time zone.
    """
    try:
        moment = datetime.fromtimestamp(us / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    if not MINYEAR < moment.year < MAXYEAR:
        return None
    return moment
