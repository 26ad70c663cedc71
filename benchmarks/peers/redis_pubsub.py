"""Redis publish/subscribe with redis-py and hiredis: PUBLISH in pipelines of a thousand.

A stream of messages, and a reader that is alone in its process, use the blocking client: it is
twice as fast as that of redis.asyncio, which is used where there are many tasks.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import CHUNK, Job, Link, Peer, Receipt

CHUNK_BYTES = 4 * 1024 * 1024
CONFIG = """
bind 127.0.0.1
port {port}
dir {directory}
save ""
appendonly no
# A slow reader is not thrown out.
client-output-buffer-limit pubsub 0 0 0
"""


class RedisLink(Link):
    """A blocking client and one of redis.asyncio; Redis Streams share it."""

    def __init__(self, job: Job, blocking: Any, client: Any) -> None:
        self._topic = job.topic
        self._prefetch = job.prefetch
        self._blocking = blocking
        self._client = client
        self._chunk = max(1, min(CHUNK, CHUNK_BYTES // job.size))
        self._alone = job.role in ("subscriber", "replay") and job.subscribers == 1
        self._pubsub: Any = None

    def _add(self, pipeline: Any, payload: bytes) -> None:
        """The command that publishes one message."""
        pipeline.publish(self._topic, payload)

    async def subscribe(self, receipt: Receipt) -> None:
        if self._alone:
            self._pubsub = self._blocking.pubsub()
            self._pubsub.subscribe(self._topic)
            self._pubsub.get_message(timeout=5)
        else:
            self._pubsub = self._client.pubsub()
            await self._pubsub.subscribe(self._topic)
            await self._pubsub.get_message(timeout=5)

    async def receive(self, receipt: Receipt) -> None:
        if self._alone:
            await asyncio.to_thread(self._receive, receipt)
        else:
            await self._receive_async(receipt)

    def _receive(self, receipt: Receipt) -> None:
        next_message, take = self._pubsub.parse_response, receipt.take
        for _ in range(receipt.expected):
            take(next_message(block=True)[2])

    async def _receive_async(self, receipt: Receipt) -> None:
        next_message, take = self._pubsub.parse_response, receipt.take
        for _ in range(receipt.expected):
            take((await next_message(block=True))[2])
        await self._pubsub.aclose()

    async def stream(self, payload: bytes, messages: int) -> None:
        for first in range(0, messages, self._chunk):
            pipeline = self._blocking.pipeline(transaction=False)
            for _ in range(min(self._chunk, messages - first)):
                self._add(pipeline, payload)
            pipeline.execute()
            await asyncio.sleep(0)  # the other publishers of this process have their turn

    async def send(self, payloads: Sequence[bytes]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for payload in payloads:
            self._add(pipeline, payload)
        await pipeline.execute()


class RedisPubsubPeer(Peer):
    """Redis, nothing on disk."""

    label = "Redis pub/sub, redis-py + hiredis"
    keeps = "nothing is kept"
    batching = "PUBLISH in pipelines of 1000 messages or 4 MiB"
    program = "redis-server"
    modules = ("redis", "hiredis")
    scenarios = Peer.scenarios - {"acknowledged"}  # nothing is kept that could be acknowledged
    link_class: type[RedisLink] = RedisLink
    config = CONFIG

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        config = directory / "redis.conf"
        config.write_text(self.config.format(port=port, directory=directory), encoding="utf-8")
        return [[self.program, str(config)]]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        blocking_client, async_client = (
            import_module("redis").Redis,
            import_module("redis.asyncio").Redis,
        )
        with blocking_client(port=job.port, socket_timeout=job.deadline) as blocking:
            async with async_client(port=job.port) as client:
                yield self.link_class(job, blocking, client)


PEER = RedisPubsubPeer()
