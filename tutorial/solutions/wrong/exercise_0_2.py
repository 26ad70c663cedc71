"""Each message begins the window anew: a key that is sent often enough is never stored again.

Fails at: what is dropped does not prolong the window
"""


def stored(times: list[int], window: int) -> list[int]:
    """The times that are at least a window later than the time before."""
    return [time for place, time in enumerate(times) if place == 0 or time >= times[place - 1] + window]
