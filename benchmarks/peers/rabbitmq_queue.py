"""RabbitMQ with aio-pika as a work queue: one queue of the classic kind, with acknowledgements."""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import anyio

from benchmarks.peers.peer import Job, Link, Receipt
from benchmarks.peers.rabbitmq import RabbitmqPeer


class RabbitmqQueueLink(Link):
    """A channel, and the queue."""

    def __init__(self, channel: Any, queue: Any, message: Any) -> None:
        self._channel = channel
        self._queue = queue
        self._message = message

    async def subscribe(self, receipt: Receipt) -> None:
        raise NotImplementedError

    async def stream(self, payload: bytes, messages: int) -> None:
        publish, name = self._channel.default_exchange.publish, self._queue.name
        for _ in range(messages):
            await publish(self._message(payload), routing_key=name)
        await self._all_there(messages)

    async def _all_there(self, messages: int) -> None:
        """Wait until the queue has them: publishing is not confirmed."""
        while True:
            declared = await self._channel.declare_queue(self._queue.name, passive=True)
            if declared.declaration_result.message_count >= messages:
                return

    async def send(self, payloads: Sequence[bytes]) -> None:
        raise NotImplementedError

    async def work(self, receipt: Receipt) -> None:
        take = receipt.take

        async def callback(message: Any) -> None:
            take(message.body)
            await message.ack()

        await self._queue.consume(callback)
        await anyio.sleep_forever()


class RabbitmqQueuePeer(RabbitmqPeer):
    """The same server, used as a queue."""

    label = "RabbitMQ, classic queue"
    keeps = "in memory (transient messages, a classic queue)"
    batching = "one frame a message, and one for each acknowledgement"
    share = 0.05
    scenarios = frozenset({"work"})
    kind = "classic"
    delivery_mode = 1  # transient

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        aio_pika = import_module("aio_pika")
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{job.port}/")
        async with connection:
            channel = await connection.channel(publisher_confirms=False)
            await channel.set_qos(prefetch_count=job.prefetch)
            queue = await channel.declare_queue(
                job.topic, durable=True, arguments={"x-queue-type": self.kind}
            )

            def message(payload: bytes) -> Any:
                return aio_pika.Message(payload, delivery_mode=self.delivery_mode)

            yield RabbitmqQueueLink(channel, queue, message)


PEER = RabbitmqQueuePeer()
