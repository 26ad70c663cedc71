"""The time of day in microseconds, on a clock that nobody sets back."""

import time

# The clock on the wall may be set. The monotonic one may not, but it
# counts from some moment or other. So: that moment, plus the monotonic.
START_NS = time.time_ns() - time.monotonic_ns()


def now_us() -> int:
    """Microseconds since 1970."""
    return (START_NS + time.monotonic_ns()) // 1000
