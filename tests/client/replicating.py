"""A bridge for tests: it copies nothing, and publishes the watermarks that it is told to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

import zaichik
from zaichik.client.replication.watermark import (
    CAPACITY,
    RETENTION,
    Gap,
    Watermark,
    topic_of,
)

LOSSLESS = {"overflow": "reject", "retention_ttl": "forever", "max_bytes": 2**20, "capacity": 1000}


class FakeBridge:
    """What a bridge publishes, and nothing else of it.

    Args:
        client: a client of its own.
        topic: the topic that it is a bridge of, which is there.

    Attributes:
        epoch: of the topic that it copies.
    """

    def __init__(self, client: zaichik.Client, topic: str) -> None:
        self.epoch = 0
        self._client = client
        self._topic = topic

    async def begin(self) -> None:
        """Publish where it begins, as at every start."""
        state = await self._client.topic(self._topic)
        self.epoch = state["epoch"]
        await self._client.create_topic(
            topic_of(self._topic), capacity=CAPACITY, retention_ttl=RETENTION
        )
        await self.has(0)

    async def has(self, end: int, *gaps: Gap, **changed: object) -> None:
        """Publish that everything below an offset is replicated, except for the gaps."""
        mark = Watermark(**({"epoch": self.epoch, "next": end, "gaps": gaps} | changed))
        await self.says(mark.encoded())

    async def says(self, payload: bytes) -> None:
        """Publish something."""
        await self._client.publish(topic_of(self._topic), payload)

    async def copy(self) -> None:
        """Say at once of everything that comes that it is replicated, until cancelled."""
        async with self._client.subscribe(self._topic, start=0) as subscription:
            async for piece in subscription.pieces():
                await self.has(piece[-1].offset + 1)


@asynccontextmanager
async def bridged(
    client: zaichik.Client, topic: str = "t", **settings: object
) -> AsyncIterator[FakeBridge]:
    """Make a lossless topic; returns a bridge of it."""
    await client.create_topic(topic, **(LOSSLESS | settings))
    bridge = FakeBridge(client, topic)
    await bridge.begin()
    yield bridge


@asynccontextmanager
async def copying(bridge: FakeBridge) -> AsyncIterator[None]:
    """A bridge that is never late, for as long as the block lasts."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bridge.copy)
        yield
        tasks.cancel_scope.cancel()


class Waiting:
    """A call in the background: what has become of it.

    Attributes:
        result: what it has returned.
        error: what it has raised.
        done: set when it has done either.
    """

    def __init__(self) -> None:
        self.result: object = None
        self.error: Exception | None = None
        self.done = anyio.Event()

    async def run(self, call) -> None:
        """Call it, and remember what becomes of it."""
        try:
            self.result = await call()
        except Exception as error:
            self.error = error
        finally:
            self.done.set()

    async def outcome(self) -> object:
        """Returns what it returns, or raises what it raises."""
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self.result
