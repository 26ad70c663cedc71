"""How long to wait before trying again: longer each time, and never in step with others.

When a broker goes down, all its clients lose it in the same moment. If all of them came back after the same time they
would meet again at the door, so each waits for a random part of its time.
"""

import random
from collections.abc import Callable, Iterator


def backoff(first: float, most: float, random: Callable[[], float] = random.random) -> Iterator[float]:
    """Seconds to wait before each further try, without end: up to `first`, then up to twice as long each time.

    Args:
        first: seconds before the first one, at most; half of it at least. All others likewise.
        most: where the doubling ends.
        random: a number from 0 to 1, a new one with each call.
    """
    span = first
    while True:
        yield span * (0.5 + random() / 2)
        span = min(2 * span, most)
