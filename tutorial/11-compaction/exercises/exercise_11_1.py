"""Exercise 11.1: the last one wins.

Your broker keeps the first message of a key, and drops others until a window is over. Kafka compacts the other way
round: the last one stays. Here are messages in the order of their times, and a window. A message goes if a later one
of the same key follows it sooner than that: at its own time t, the next one of the key comes before t + window.
Messages without a key (b"") all stay.
"""

Message = tuple[int, bytes, bytes]  # time, key, payload


def last_wins(messages: list[Message], window: int) -> list[Message]:
    """The messages that stay, in order."""
    raise NotImplementedError("this is yours to write")
