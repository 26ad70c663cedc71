"""NATS JetStream with nats-py, kept in memory: where messages are acknowledged, or read later.

A stream of messages is published as in `nats`, and then the server is asked whether all of them are
stored: ten times as fast as a request for each. It is read by a push consumer without
acknowledgements, the fastest of the three ways there are (the others are the ordered consumer and
fetching a thousand at a time). Workers of a queue share a pull consumer.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Any

from benchmarks.peers.nats import NatsLink, NatsPeer
from benchmarks.peers.peer import Job, Link, Receipt

WORKERS = "workers"


class JetstreamLink(NatsLink):
    """Each topic is a stream of its own.

    Attributes:
        storage: where it is kept, in the client's words.
    """

    storage = "memory"

    def __init__(self, job: Job, client: Any) -> None:
        super().__init__(job, client)
        self._prefetch = job.prefetch
        self._jetstream = client.jetstream()

    async def create(self) -> None:
        """The stream, if it is not there."""
        await self._jetstream.add_stream(
            name=self._topic, subjects=[self._topic], storage=self.storage
        )

    async def subscribe(self, receipt: Receipt) -> None:
        take, api = receipt.take, import_module("nats.js.api")

        async def callback(message: Any) -> None:
            take(message.data)

        await self._jetstream.subscribe(
            self._topic,
            cb=callback,
            config=api.ConsumerConfig(ack_policy=api.AckPolicy.NONE),
            manual_ack=True,
            pending_msgs_limit=-1,
            pending_bytes_limit=-1,
        )

    async def stream(self, payload: bytes, messages: int) -> None:
        await super().stream(payload, messages)
        stored = (await self._jetstream.stream_info(self._topic)).state.messages
        if stored != messages:
            raise RuntimeError(f"{stored} messages are stored, not {messages}")

    async def publish(self, payload: bytes) -> None:
        await self._jetstream.publish(self._topic, payload)

    async def work(self, receipt: Receipt) -> None:
        take, api = receipt.take, import_module("nats.js.api")
        errors = import_module("nats.errors")
        config = api.ConsumerConfig(
            durable_name=WORKERS, ack_policy=api.AckPolicy.EXPLICIT, max_ack_pending=-1
        )
        pulling = await self._jetstream.pull_subscribe(self._topic, durable=WORKERS, config=config)
        while True:
            with suppress(errors.TimeoutError):  # there was nothing
                for message in await pulling.fetch(self._prefetch):
                    take(message.data)
                    await message.ack()


class JetstreamPeer(NatsPeer):
    """The same server, another service of it."""

    label = "NATS JetStream, nats-py"
    keeps = "in memory (storage=memory)"
    batching = "as NATS; awaited publishes one by one"
    share = 0.1
    scenarios = frozenset({"acknowledged", "script", "replay", "work"})
    link_class: type[NatsLink] = JetstreamLink

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        async with super().link(job) as link:
            assert isinstance(link, JetstreamLink)
            await link.create()
            yield link

    def script(self, job: Job) -> str:
        return f"""
import asyncio, nats
async def main():
    client = await nats.connect("nats://127.0.0.1:{job.port}")
    jetstream = client.jetstream()
    await jetstream.add_stream(name={job.topic!r}, subjects=[{job.topic!r}], storage="memory")
    await jetstream.publish({job.topic!r}, b"message")
    await client.close()
asyncio.run(main())
"""


PEER = JetstreamPeer()
