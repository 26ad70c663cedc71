"""The same Kafka with aiokafka, on the event loop: batches made with `create_batch`, read with
`getmany` of 1000.

`create_batch` and `send_batch` are four times as fast as `send` for each message of a stream;
`send` is used where single messages are awaited or timed.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.peers.kafka import BATCH_BYTES, GREETING, LINGER_MS, KafkaPeer
from benchmarks.peers.peer import CHUNK, Job, Link, Peer, Receipt

WAIT_MS = 1000


class AiokafkaLink(Link):
    """A producer, and a consumer that is made when it is needed."""

    def __init__(self, job: Job, stack: AsyncExitStack) -> None:
        self._job = job
        self._stack = stack
        self._aiokafka = import_module("aiokafka")
        self._server = {"bootstrap_servers": f"127.0.0.1:{job.port}"}
        linger = LINGER_MS if job.role in ("publisher", "replay") else 0
        self._producer: Any = self._aiokafka.AIOKafkaProducer(
            **self._server, acks=1, linger_ms=linger, max_batch_size=BATCH_BYTES
        )
        self._consumer: Any = None

    async def open(self) -> None:
        """Starts the producer; creates the topic with a first message, if no other process of this
        run has done so.
        """
        admin, errors = import_module("aiokafka.admin"), import_module("aiokafka.errors")
        client = admin.AIOKafkaAdminClient(**self._server)
        await client.start()
        try:
            topic = admin.NewTopic(self._job.topic, num_partitions=1, replication_factor=1)
            ((_name, code, *_),) = (await client.create_topics([topic])).topic_errors
            if code not in (0, errors.TopicAlreadyExistsError.errno):
                raise errors.for_code(code)
        finally:
            await client.close()
        await self._start(self._producer)
        await self._producer.partitions_for(self._job.topic)
        if code == 0:
            await self.publish(GREETING)

    async def _start(self, client: Any) -> None:
        await client.start()
        self._stack.push_async_callback(client.stop)

    async def subscribe(self, receipt: Receipt) -> None:
        self._consumer = self._aiokafka.AIOKafkaConsumer(
            **self._server, enable_auto_commit=False, auto_offset_reset="earliest", check_crcs=False
        )
        await self._start(self._consumer)
        self._consumer.assign([self._aiokafka.TopicPartition(self._job.topic, 0)])
        await self._consumer.getone()  # the greeting

    async def receive(self, receipt: Receipt) -> None:
        getmany, take = self._consumer.getmany, receipt.take
        while receipt.count < receipt.expected:
            for messages in (await getmany(timeout_ms=WAIT_MS, max_records=CHUNK)).values():
                for message in messages:
                    take(message.value)

    async def stream(self, payload: bytes, messages: int) -> None:
        batch = self._producer.create_batch()
        for _ in range(messages):
            while batch.append(key=None, value=payload, timestamp=None) is None:  # it is full
                batch = await self._send(batch)
        await self._send(batch)
        await self._producer.flush()

    async def _send(self, batch: Any) -> Any:
        """Sends a full batch as soon as there is room for it; returns the next one to fill."""
        await self._producer.send_batch(batch, self._job.topic, partition=0)
        return self._producer.create_batch()

    async def send(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            await self._producer.send(self._job.topic, payload, partition=0)

    async def publish(self, payload: bytes) -> None:
        await self._producer.send_and_wait(self._job.topic, payload, partition=0)


class AiokafkaPeer(KafkaPeer):
    """The same server, another client."""

    label = "Kafka, aiokafka"
    batching = (
        "batches of 256 KiB made with create_batch (single sends, linger 0, where awaited "
        "or timed); getmany(1000)"
    )
    modules = ("aiokafka",)
    share = 0.4
    scenarios = frozenset({*Peer.scenarios, "replay"})

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        async with AsyncExitStack() as stack:
            link = AiokafkaLink(job, stack)
            await link.open()
            yield link


PEER = AiokafkaPeer()
