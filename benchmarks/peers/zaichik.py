"""zaichik: `producer()` and `async for`; the broker is `zaichik serve`."""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import importlib.metadata
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import zaichik
from benchmarks.peers.peer import Job, Link, Peer, Receipt
from zaichik import blocking

CREDIT = 10_000
WORKERS = "workers"
# `benchmarks.growth` creates 10,000 from one address, more than an address may by default
MOST_TOPICS = 11_000


class ZaichikLink(Link):
    """A client; its producer is made with the first message.

    The ring is made large enough for a whole run. Without that, a reader slower than the publisher
    would lag, as it should, and the run would be one of lost messages.
    """

    def __init__(self, job: Job, client: zaichik.Client, stack: AsyncExitStack) -> None:
        self._job = job
        self._client = client
        self._stack = stack
        writes = job.role == "publisher"  # made here, so that making them is not measured
        self._keys = zipf_keys(job.keys, job.messages) if job.keys and writes else []
        self._subscription: zaichik.Subscription[zaichik.Message] | None = None
        self._producer: zaichik.Producer | None = None

    async def create(self) -> None:
        """The topic, with the settings the job asks for."""
        window: Any = "forever" if self._job.keep_first else 0
        await self._client.create_topic(
            self._job.topic, retention_ttl="forever", compaction_window=window, **self.settings()
        )

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a ring with room for all messages of the run."""
        room = max(self._job.messages, 100_000)
        return {"capacity": room, "max_bytes": max(2**28, 2 * room * (self._job.size + 64))}

    async def subscribe(self, receipt: Receipt) -> None:
        self._subscription = await self._stack.enter_async_context(
            self._client.subscribe(self._job.topic, credit=CREDIT, until=receipt.expected)
        )

    async def receive(self, receipt: Receipt) -> None:
        assert self._subscription is not None
        take = receipt.take
        async for message in self._subscription:
            take(message.payload)
        self.check_lag()

    def check_lag(self) -> None:
        """Raises `RuntimeError` if the reader has missed a message."""
        assert self._subscription is not None
        if self._subscription.lagged:
            raise RuntimeError(f"the subscription lagged by {self._subscription.lagged} messages")

    async def producer(self) -> zaichik.Producer:
        """The one producer of this link."""
        if self._producer is None:
            self._producer = await self._stack.enter_async_context(
                self._client.producer(self._job.topic)
            )
        return self._producer

    async def stream(self, payload: bytes, messages: int) -> None:
        producer = await self.producer()
        if self._keys:
            for key in self._keys:
                await producer.send(payload, key)
        else:
            for _ in range(messages):
                await producer.send(payload)
        await producer.flush()
        if producer.stored + producer.compacted != messages:
            raise RuntimeError(
                f"{producer.stored} stored + {producer.compacted} compacted, not {messages}"
            )

    async def send(self, payloads: Sequence[bytes]) -> None:
        producer = await self.producer()
        for payload in payloads:
            await producer.send(payload)

    async def publish(self, payload: bytes) -> None:
        await self._client.publish(self._job.topic, payload)

    async def work(self, receipt: Receipt) -> None:
        take = receipt.take
        async with self._client.subscribe(
            self._job.topic, name=WORKERS, shared=True, credit=self._job.prefetch
        ) as work:
            async for message in work:
                async with message:
                    take(message.payload)


class ZaichikPeer(Peer):
    """The broker of this project."""

    label = "zaichik"
    keeps = "in memory, every message of the run"
    batching = (
        "producer: batches of 1000 messages or 256 KiB, 8 in flight, no linger time; "
        "credit "
        "of 10,000 messages"
    )
    share = 1.0
    scenarios = frozenset(
        {
            *Peer.scenarios,
            *("calls", "script", "keepfirst", "replay", "work"),
            *("growth", "tail", "memory", "burst", "startup"),
        }
    )
    link_class: type[ZaichikLink] = ZaichikLink

    def server_version(self) -> str:
        return f"zaichik {importlib.metadata.version('zaichik')}"

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        command = [sys.executable, "-m", "zaichik", "serve", str(port), "--log-level", "warning"]
        return [[*command, "--limit", f"max_topics={MOST_TOPICS}"]]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        async with zaichik.connect(port=job.port) as client, AsyncExitStack() as stack:
            link = self.link_class(job, client, stack)
            await link.create()
            yield link

    @contextmanager
    def caller(self, job: Job) -> Iterator[Callable[[bytes], object]]:
        with blocking.connect(port=job.port) as client:
            yield partial(client.publish, job.topic)

    def script(self, job: Job) -> str:
        return f"""
from zaichik import blocking
with blocking.connect(port={job.port}) as client:
    client.publish({job.topic!r}, b"message")
"""


def zipf_keys(keys: int, messages: int) -> list[bytes]:
    """The same keys for everybody who asks: the first one is twice as frequent as the second, and
    so on.
    """
    names = [b"key-%d" % number for number in range(keys)]
    weights = [1 / (rank + 1) for rank in range(keys)]
    return random.Random(0).choices(names, weights, k=messages)  # noqa: S311 - a workload, no secret


PEER = ZaichikPeer()
