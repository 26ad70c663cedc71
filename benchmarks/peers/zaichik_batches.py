"""zaichik with batches on both sides: made by the program, like a pipeline of Redis, and read in
pieces.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
from itertools import repeat

from benchmarks.peers.peer import CHUNK, Receipt
from benchmarks.peers.zaichik import ZaichikLink, ZaichikPeer

BATCH_BYTES = 256 * 1024
IN_FLIGHT = 4


class ZaichikBatchesLink(ZaichikLink):
    """As `ZaichikLink`, without a producer."""

    async def receive(self, receipt: Receipt) -> None:
        assert self._subscription is not None
        take = receipt.take
        async for piece in self._subscription.pieces():
            for message in piece:
                take(message.payload)
        self.check_lag()

    async def stream(self, payload: bytes, messages: int) -> None:
        publish, topic = self._client.publish_batch, self._job.topic
        size = max(1, min(CHUNK, BATCH_BYTES // len(payload)))
        firsts = iter(range(0, messages, size))

        async def some() -> None:
            for first in firsts:  # all tasks draw from the one iterator
                await publish(topic, repeat((None, payload), min(size, messages - first)))

        await asyncio.gather(*(some() for _ in range(IN_FLIGHT)))


class ZaichikBatchesPeer(ZaichikPeer):
    """The same broker, another way to publish and to read."""

    label = "zaichik, publish_batch() and pieces()"
    batching = (
        f"publish_batch of {CHUNK} messages or 256 KiB, {IN_FLIGHT} in flight; read with pieces()"
    )
    scenarios = frozenset({"throughput"})
    link_class = ZaichikBatchesLink


PEER = ZaichikBatchesPeer()
