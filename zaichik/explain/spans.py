"""How far a time is from now, in words: people cannot read microseconds since 1970."""

_UNITS = (("days", 86_400_000_000), ("hours", 3_600_000_000), ("minutes", 60_000_000), ("seconds", 1_000_000))


def from_now(time_us: int, now_us: int) -> str:
    """Returns how far it is, as in "2.5 hours from now" or "300 µs ago": in the largest unit of which there are two."""
    span_us = abs(time_us - now_us)
    words = next((f"{span_us / us:,.1f} {unit}" for unit, us in _UNITS if span_us >= 2 * us), f"{span_us:,} µs")
    return f"{words} {'ago' if time_us < now_us else 'from now'}"
