"""Copies dead messages to another topic, and then forgets them, if that is wanted.

A message is forgotten when the broker has confirmed its copy. If that is interrupted, it may be
copied again, and is never lost.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from zaichik.client.client import Client
from zaichik.client.work.dead import DeadMessage

MOST_AT_ONCE = 100  # so that little is copied again


async def export(
    client: Client,
    topic: str,
    into: str,
    dead: Iterable[DeadMessage],
    forget: Callable[[list[int]], Awaitable[object]] | None = None,
) -> int:
    """Returns how many messages were copied; the others can no longer be read.

    Args:
        client: a client.
        topic: the topic of the messages.
        into: the topic that gets their keys and payloads.
        dead: the messages.
        forget: forgets the messages at these offsets, which were copied; None: they stay.
    """
    copied = 0
    offsets = [message.offset for message in dead if message.is_readable]
    for part in _chunks(offsets):
        found = await _copy(client, topic, into, part)
        copied += len(found)
        if forget is not None and found:
            await forget(found)
    return copied


async def _copy(client: Client, topic: str, into: str, part: range) -> list[int]:
    """Returns the offsets of what was copied."""
    copied = []
    async with client.subscribe(topic, start=part.start, until=part.stop) as messages:
        async for message in messages:
            await client.publish(into, message.payload, key=message.key)
            copied.append(message.offset)
    return copied


def _chunks(offsets: Sequence[int]) -> Iterator[range]:
    """Yields offsets that follow one another, so many at most."""
    start = 0
    for index, offset in enumerate(offsets):
        first = offsets[start]
        is_last = index + 1 == len(offsets) or offsets[index + 1] != offset + 1
        if is_last or offset + 1 - first == MOST_AT_ONCE:
            yield range(first, offset + 1)
            start = index + 1
