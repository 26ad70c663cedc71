"""The last message of each key, as in Kafka after a long time. But here a window has been given.

Fails at: a message stays if the next one comes a window later
"""

Message = tuple[int, bytes, bytes]


def last_wins(messages: list[Message], window: int) -> list[Message]:
    """The messages that stay, in order."""
    last = {key: time for time, key, _ in messages}
    return [(time, key, payload) for time, key, payload in messages if not key or last[key] == time]
