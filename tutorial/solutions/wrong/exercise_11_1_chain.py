"""Only messages that stay are remembered, as first-wins does it.

Fails at: a message that goes still counts
"""

Message = tuple[int, bytes, bytes]


def last_wins(messages: list[Message], window: int) -> list[Message]:
    """The messages that stay, in order."""
    stay: list[Message] = []
    following: dict[bytes, int] = {}
    for time, key, payload in reversed(messages):
        if not key or following.get(key, time + window) >= time + window:
            stay.append((time, key, payload))
            following[key] = time
    return stay[::-1]
