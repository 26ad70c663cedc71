"""Exponential backoff with jitter: waits before retries that grow, and are partly random.

When a broker goes down, all its clients lose it at the same moment. If all of them waited for the
same time, they would all come back at once.
"""

import random
from collections.abc import Callable, Iterator


def backoff(
    first: float, most: float, random: Callable[[], float] = random.random
) -> Iterator[float]:
    """Yields the seconds to wait before each retry, without end.

    Args:
        first: the longest first wait; it doubles with each retry. Each wait is at least half of its
            longest value.
        most: where the doubling ends.
        random: returns a new random number from 0 to 1 with each call.
    """
    span = first
    while True:
        yield span * (0.5 + random() / 2)
        span = min(2 * span, most)
