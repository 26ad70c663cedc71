"""Exercise 0.2: which messages are stored?"""


def stored(times: list[int], window: int) -> list[int]:
    """Of messages of one key, sent at these times in this order, the times of those that are stored."""
    kept: list[int] = []
    for time in times:
        if not kept or time >= kept[-1] + window:
            kept.append(time)
    return kept
