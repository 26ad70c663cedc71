"""zaichik with each message as its own awaited `publish`, many tasks at a time.

This is how a program publishes that has many tasks with one message each instead of a stream.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio

from benchmarks.peers.zaichik import ZaichikLink, ZaichikPeer

TASKS = 500


class ZaichikCallsLink(ZaichikLink):
    """As `ZaichikLink`, without a producer."""

    async def stream(self, payload: bytes, messages: int) -> None:
        publish, topic = self._client.publish, self._job.topic
        left = iter(range(messages))

        async def some() -> None:
            for _ in left:  # all tasks draw from the one iterator
                await publish(topic, payload)

        await asyncio.gather(*(some() for _ in range(min(TASKS, messages))))


class ZaichikCallsPeer(ZaichikPeer):
    """The same broker, another way to publish."""

    label = f"zaichik, {TASKS} tasks of publish()"
    batching = (
        f"{TASKS} tasks that each await publish(): calls of one turn of the event loop "
        "share a batch"
    )
    share = 0.05
    scenarios = frozenset({"throughput"})
    link_class = ZaichikCallsLink


PEER = ZaichikCallsPeer()
