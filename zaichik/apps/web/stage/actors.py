"""The actors of a scene: ordinary clients, each with a connection of its own.

A call returns its outcome, in words.

The client commits by itself what its program has stepped past, within 100 ms of the machine's time.
On a stage that would be random, so an actor commits it at the end of each call: the same commit,
only at once.
"""

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import groupby
from operator import itemgetter
from typing import Any

from zaichik import BatchResult, Client, Lagged, Message, NotInFlight, Subscription, TakenOver
from zaichik.apps.web.stage.script import TOPIC
from zaichik.base.counted import counted
from zaichik.net.background import BackgroundTasks

Messages = Sequence[tuple[str, bytes]]
# the producer id of a program that numbers its batches itself: every run of it uses the same
PROGRAM = 99


class Actor:
    """A client with at most one subscription. Its verbs are the methods that return sentences.

    Args:
        client: its connection.
        number: another one for each actor; its producer id.

    Attributes:
        drops: how often compaction has dropped each key.
    """

    def __init__(self, client: Client, number: int) -> None:
        self.drops: Counter[str] = Counter()
        self._client = client
        self._producer, self._next = number, 0
        self._waiting: deque[Messages] = deque()  # batches that the topic had no room for
        self._desk = AsyncExitStack()  # where it reads
        self._reader: Subscription[Message | Lagged] | Any = (
            None  # only scripts know whether there is one
        )
        self._taken = 0  # all offsets below

    async def settle(self) -> None:
        """Commit what was stepped past, and wait until the broker has carried that out."""
        if self._reader:
            self._reader.commit_settled()
        await self._client.ping()

    async def create(self, **settings: Any) -> list[str]:
        """Create the topic, or find it."""
        topic = await self._client.create_topic(TOPIC, **settings)
        return [
            f"creates {TOPIC}" if topic.created else f"wants to create {TOPIC}, and finds it there"
        ]

    async def publish(self, batch: Messages, number: int | None = None) -> list[str]:
        """Publish a batch, after those that had to wait.

        Or, under a number of its program's, by itself.
        """
        if number is not None:
            result = await self._client.publish_batch(TOPIC, batch, producer=PROGRAM, number=number)
            return [f"sends batch {number}; the answer says {_stored(result)}"]
        told = []
        self._waiting.append(batch)
        while self._waiting and (stored := await self._offer(self._waiting[0])):
            published = self._waiting.popleft()
            self.drops.update(published[index][0] for index in stored.dropped)
            told.append(f"publishes {_stored(stored)}")
        if waiting := sum(map(len, self._waiting)):
            told.append(
                f"waits to publish {counted(waiting, 'message')}: {TOPIC} is full of what a reader "
                "still needs"
            )
        return told

    async def _offer(self, batch: Messages) -> BatchResult | None:
        """Returns the result; None if there was no room (RET-9).

        The client would try again, at a random time.
        """
        results: list[BatchResult] = []

        async def send() -> None:
            results.append(
                await self._client.publish_batch(
                    TOPIC, batch, producer=self._producer, number=self._next
                )
            )
            self._next += 1

        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(send)
            # The first may overtake it; the answer comes before the second; then it is handled.
            for _ in range(3):
                await self._client.ping()
        return results[0] if results else None

    async def subscribe(self, **how: Any) -> list[str]:
        """Subscribe; arguments are those of `Client.subscribe`."""
        reader = await self._desk.enter_async_context(
            self._client.subscribe(TOPIC, events=True, **how)
        )
        self._reader, self._taken = reader, reader.start
        name = f" as {reader.name!r}" if reader.name else ""
        verb = "goes on" if reader.resumed else "begins"
        return [f"subscribes{name}, and {verb} at offset {reader.start}"]

    async def take(self, most: int) -> list[str]:
        """Take the next messages, if any, as `async for` does: each step settles the one before."""
        topic: Any = await self._client.topic(TOPIC)
        runs: list[tuple[str, int, int]] = []
        try:
            while len(runs) < most and (self._taken < topic["next_offset"] or self._reader.failure):
                item: Any = await anext(self._reader)
                if isinstance(item, Lagged):
                    verb = "is told of the loss of"
                    first, end = item.start, item.end
                else:
                    verb = "takes again" if self._reader.redelivered else "takes"
                    first, end = item.offset, item.offset + 1
                self._taken = end
                runs.append((verb, first, end))
        except TakenOver:
            return [*_joined(runs), "is told that another reader has its name now: TAKEN_OVER"]
        return _joined(runs) or ["finds nothing to take"]

    async def commit(self, offset: int) -> list[str]:
        """Commit everything below that offset."""
        try:
            await self._reader.commit(Message(TOPIC, offset - 1, 0.0, None, b""))
        except NotInFlight:
            return [f"commits up to {offset}, and is refused: NOT_IN_FLIGHT"]
        return [f"commits up to {offset}"]

    async def leave(self) -> list[str]:
        """End the subscription, if there is one."""
        await self._desk.aclose()
        self._reader = None
        return ["leaves"]


def _stored(result: BatchResult) -> str:
    kept = (
        f"{counted(result.stored, 'message')}: "
        f"{span(result.first_offset, result.first_offset + result.stored)}"
    )
    dropped = f"{counted(result.compacted, 'message')}, dropped: the window of the key is open"
    return "; and ".join([kept] * (result.stored > 0) + [dropped] * (result.compacted > 0))


def _joined(runs: list[tuple[str, int, int]]) -> list[str]:
    """Returns a phrase for each run of offsets to which the same has happened."""
    groups = [[*group] for _, group in groupby(runs, key=itemgetter(0))]
    spans = [(group[0][0], group[0][1], group[-1][2]) for group in groups]
    return [
        f"{verb} {counted(end - first, 'message')}: {span(first, end)}"
        for verb, first, end in spans
    ]


def span(first: int, end: int) -> str:
    """Returns the offsets first .. end - 1."""
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"
