"""How far a time is from now, in words: people cannot read microseconds since 1970."""

# Not compiled: it makes sentences for people, who read more slowly.

from zaichik.base.clock import DAY_US, MINUTE_US, SECOND_US

_UNITS = (
    ("days", DAY_US),
    ("hours", 60 * MINUTE_US),
    ("minutes", MINUTE_US),
    ("seconds", SECOND_US),
)


def from_now(time_us: int, now_us: int) -> str:
    """Returns how far it is, as in "2.5 hours from now" or "300 µs ago".

    The unit is the largest one of which there are two.
    """
    words = in_words(abs(time_us - now_us))
    if time_us < now_us:
        return f"{words} ago"
    return f"{words} from now"


def in_words(span_us: int) -> str:
    """Returns how long a span is, as in "2.5 hours"; the unit is chosen as in `from_now`."""
    for unit, us in _UNITS:
        if span_us >= 2 * us:
            return f"{span_us / us:,.1f} {unit}"
    return f"{span_us:,} µs"
