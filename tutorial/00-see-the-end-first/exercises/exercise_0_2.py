"""Exercise 0.2: which messages are stored?

A topic with a compaction window keeps the first message of a key, and drops others of that key until the window is
over. The window begins with a stored message, at its time t, and covers t up to, but not including, t + window. A
dropped message does not prolong it.
"""


def stored(times: list[int], window: int) -> list[int]:
    """Of messages of one key, sent at these times in this order, the times of those that are stored."""
    raise NotImplementedError("this is yours to write")
