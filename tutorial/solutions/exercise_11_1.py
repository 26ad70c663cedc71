"""Exercise 11.1: the last one wins."""

Message = tuple[int, bytes, bytes]  # time, key, payload


def last_wins(messages: list[Message], window: int) -> list[Message]:
    """The messages that stay, in order."""
    stay: list[Message] = []
    following: dict[bytes, int] = {}  # of each key, when its next message comes
    for time, key, payload in reversed(messages):
        if not key or following.get(key, time + window) >= time + window:
            stay.append((time, key, payload))
        following[key] = time
    return stay[::-1]
