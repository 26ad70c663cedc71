"""Redis Streams with redis-py and hiredis: XADD in pipelines of a thousand, XREAD of a thousand.

The blocking and the asynchronous client are used as in `redis_pubsub`. Workers of a queue are a
consumer group; what one has read is acknowledged together with reading more, in one pipeline.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from benchmarks.peers.peer import CHUNK, Job, Receipt
from benchmarks.peers.redis_pubsub import RedisLink, RedisPubsubPeer

BLOCK_MS = 1000
WORKERS = "workers"


class RedisStreamsLink(RedisLink):
    """Reads from the stream's beginning, as every measurement has its own stream."""

    def _add(self, pipeline: Any, payload: bytes) -> None:
        pipeline.xadd(self._topic, {"p": payload})

    async def subscribe(self, receipt: Receipt) -> None:
        await self._client.ping()

    def _receive(self, receipt: Receipt) -> None:
        last: Any = "0"
        while receipt.count < receipt.expected:
            last = self._take(
                self._blocking.xread({self._topic: last}, count=CHUNK, block=BLOCK_MS),
                last,
                receipt,
            )

    async def _receive_async(self, receipt: Receipt) -> None:
        last: Any = "0"
        while receipt.count < receipt.expected:
            last = self._take(
                await self._client.xread({self._topic: last}, count=CHUNK, block=BLOCK_MS),
                last,
                receipt,
            )

    def _take(self, answer: Any, last: Any, receipt: Receipt) -> Any:
        """Take what came; after which entry to read on."""
        entries = answer[0][1] if answer else []
        for last, fields in entries:  # noqa: B007 - the last one's name is the result
            receipt.take(fields[b"p"])
        return last

    async def publish(self, payload: bytes) -> None:
        await self._client.xadd(self._topic, {"p": payload})

    async def work(self, receipt: Receipt) -> None:
        take, topic, me = receipt.take, self._topic, uuid.uuid4().hex
        with suppress(import_module("redis").ResponseError):  # another worker was quicker
            await self._client.xgroup_create(topic, WORKERS, id="0", mkstream=True)
        pipeline = self._client.pipeline(transaction=False)
        while True:
            pipeline.xreadgroup(WORKERS, me, {topic: ">"}, count=self._prefetch, block=BLOCK_MS)
            answer = (await pipeline.execute())[-1]
            for entry, fields in answer[0][1] if answer else ():
                take(fields[b"p"])
                pipeline.xack(topic, WORKERS, entry)


class RedisStreamsPeer(RedisPubsubPeer):
    """The same server, another data type."""

    label = "Redis Streams, redis-py + hiredis"
    keeps = "in memory (no snapshots, no append-only file)"
    batching = (
        "XADD in pipelines of 1000 messages or 4 MiB, XREAD of 1000; awaited publishes one by one"
    )
    scenarios = frozenset(
        {*RedisPubsubPeer.scenarios, "acknowledged", "calls", "script", "replay", "work"}
    )
    link_class = RedisStreamsLink

    @contextmanager
    def caller(self, job: Job) -> Iterator[Callable[[bytes], object]]:
        with import_module("redis").Redis(port=job.port) as client:

            def publish(payload: bytes) -> None:
                client.xadd(job.topic, {"p": payload})

            yield publish

    def script(self, job: Job) -> str:
        return f"""
import redis
with redis.Redis(port={job.port}) as client:
    client.xadd({job.topic!r}, {{"p": b"message"}})
"""


PEER = RedisStreamsPeer()
