"""Kafka with confluent-kafka: one node in KRaft mode, a partition a topic, `produce` with linger,
`consume` of 1000.

The client (librdkafka) sends and fetches in threads of its own. Streams are written and read from a
Python thread, too; where the event loop waits for the outcome of a publish, the delivery callback
wakes it up.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.obtain import kafka_jars
from benchmarks.peers.peer import CHUNK, Job, Link, Peer, Receipt

LINGER_MS = 5
BATCH_BYTES = 256 * 1024
# requests, as in Kafka's Java client; without a limit, each single message is a request of its own
IN_FLIGHT = 5
POLL_SECONDS = 0.1
# a reader that has received it is connected and fetching; `assign` returns before that
GREETING = b"greeting"
CLUSTER = "emFpY2hpay1iZW5jaG1hcg"  # sixteen bytes in Base64, as Kafka wants them
RUN_BYTES = 128 * 1024 * 1024  # of payloads in a run: they go to a disk
JAVA = [
    "java",
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
]  # as Kafka's own scripts have it
CONFIG = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={directory}/log
offsets.topic.replication.factor=1
auto.create.topics.enable=false
# The process is paused while other brokers have their turn; its controller must not count it as
# dead afterwards.
broker.session.timeout.ms=3600000
# The topics of past runs are emptied while later ones go on.
log.retention.ms=180000
log.retention.check.interval.ms=30000
file.delete.delay.ms=1000
"""


class KafkaLink(Link):
    """A producer, and a consumer that is made when it is needed, with a thread each.

    Attributes:
        acks: how many replicas must have a message before it is acknowledged.
        settings: of a topic, where they are not the server's.
    """

    acks = "1"
    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, job: Job) -> None:
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._client = import_module("confluent_kafka")
        self._server = server_of(job)
        streams = {"linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
        singles = {"linger.ms": 0, "max.in.flight": IN_FLIGHT}
        is_stream = job.role in ("publisher", "replay")
        self._producer: Any = self._client.Producer(
            {**self._server, "acks": self.acks, **(streams if is_stream else singles)}
        )
        self._consumer: Any = None
        self._writing, self._reading = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._is_open = True

    def create(self) -> None:
        """Creates the topic with a first message in it, unless another process of this run has done
        so.
        """
        topic = self._job.topic
        if is_created(self._server, topic, self.settings):
            self._producer.produce(topic, GREETING)
            self._producer.flush()
        self._producer.list_topics(
            topic, timeout=10
        )  # so that the first message does not wait to know its partition

    def begin(self) -> None:
        """Starts the thread that runs delivery callbacks, if anything awaits them."""
        if self._job.role in ("acknowledged", "roundtrip"):
            self._writing.submit(self._poll)

    def _poll(self) -> None:
        while self._is_open:
            self._producer.poll(POLL_SECONDS)

    async def subscribe(self, receipt: Receipt) -> None:
        self._consumer = self._client.Consumer(
            {**self._server, "group.id": "benchmark", "enable.auto.commit": False}
        )
        self._consumer.assign(
            [self._client.TopicPartition(self._job.topic, 0, 0)]
        )  # every run has its own topic
        await self._loop.run_in_executor(self._reading, self._await_greeting)

    def _await_greeting(self) -> None:
        while self._is_open and self._consumer.poll(POLL_SECONDS) is None:
            pass

    async def receive(self, receipt: Receipt) -> None:
        by_time = self._job.role == "roundtrip"
        await self._loop.run_in_executor(
            self._reading, self._each if by_time else self._all, receipt
        )

    def _all(self, receipt: Receipt) -> None:
        consume, take = self._consumer.consume, receipt.take
        while self._is_open and (left := receipt.expected - receipt.count):
            for message in consume(min(CHUNK, left), POLL_SECONDS):
                take(checked(message).value())

    def _each(self, receipt: Receipt) -> None:
        """Takes messages as they come: `poll` returns the first at once, `consume` would wait for a
        full batch.
        """
        left = receipt.expected
        while self._is_open and left:
            if first := self._consumer.poll(POLL_SECONDS):
                messages = [first, *self._consumer.consume(CHUNK, 0)]
                left -= len(messages)
                self._loop.call_soon_threadsafe(
                    take_each, receipt, [checked(message).value() for message in messages]
                )

    async def stream(self, payload: bytes, messages: int) -> None:
        await self._loop.run_in_executor(self._writing, self._stream, payload, messages)

    def _stream(self, payload: bytes, messages: int) -> None:
        produce = partial(self._producer.produce, self._job.topic, payload)
        for number in range(messages):
            self._produce(produce)
            if number % CHUNK == 0:
                self._producer.poll(0)
        if left := self._producer.flush(self._job.deadline):
            raise RuntimeError(f"{left} messages were not delivered to the broker")

    def _produce(self, produce: Callable[[], None]) -> None:
        """Queues one message, as soon as the queue has room."""
        while True:
            try:
                return produce()
            except BufferError:
                self._producer.poll(POLL_SECONDS)

    async def send(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._producer.produce(self._job.topic, payload)

    async def publish(self, payload: bytes) -> None:
        outcome = self._loop.create_future()

        def delivered(error: Any, _message: Any) -> None:
            self._loop.call_soon_threadsafe(settle, outcome, error)

        self._producer.produce(self._job.topic, payload, on_delivery=delivered)
        await outcome

    def close(self) -> None:
        """Ends the threads, then the consumer; the producer has nothing left to send."""
        self._is_open = False
        self._writing.shutdown()
        self._reading.shutdown()
        if self._consumer is not None:
            self._consumer.close()


def server_of(job: Job) -> dict[str, str]:
    """Returns where the server is, as each of its clients is told."""
    return {"bootstrap.servers": f"127.0.0.1:{job.port}"}


def is_created(server: dict[str, str], topic: str, settings: dict[str, str]) -> bool:
    """Create a topic; returns whether it was not there."""
    kafka, admin = import_module("confluent_kafka"), import_module("confluent_kafka.admin")
    new = admin.NewTopic(topic, num_partitions=1, replication_factor=1, config=settings)
    # It must outlive the answer: without a reference to it, the request is given up.
    client = admin.AdminClient(server)
    try:
        client.create_topics([new])[topic].result()
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def checked(message: Any) -> Any:
    """Returns the message.

    Raises:
        RuntimeError: it is an error in the shape of a message.
    """
    if message.error():
        raise RuntimeError(str(message.error()))
    return message


def settle(outcome: "asyncio.Future[None]", error: Any) -> None:
    """Wakes up the task that waits for this delivery, if it still does."""
    if outcome.done():
        return
    if error:
        outcome.set_exception(RuntimeError(str(error)))
    else:
        outcome.set_result(None)


def take_each(receipt: Receipt, payloads: list[bytes]) -> None:
    """Takes messages, on the event loop."""
    for payload in payloads:
        receipt.take(payload)


class KafkaPeer(Peer):
    """Kafka with its default durability: messages are in the page cache, and the kernel decides
    when to write them.
    """

    label = "Kafka, confluent-kafka"
    keeps = "in a log on disk; never fsynced by Kafka (its default), one replica, acks=1"
    batching = (
        f"linger {LINGER_MS} ms, batches of 256 KiB (linger 0, 5 in flight, where awaited "
        "or timed); consume(1000)"
    )
    program = "java"
    modules: tuple[str, ...] = ("confluent_kafka",)
    share = 0.4
    lasting = True
    warms_up = True
    scenarios = frozenset({*Peer.scenarios, "calls", "script", "replay"})
    link_class = KafkaLink

    def fetch(self) -> None:
        kafka_jars()

    def server_version(self) -> str:
        (server,) = (path for path in kafka_jars() if path.name.startswith("kafka-server-4"))
        return f"Kafka {server.parent.name}, {super().server_version()}"

    def messages(self, job: Job) -> int:
        return min(super().messages(job), RUN_BYTES // job.size)

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        config = directory / "server.properties"
        config.write_text(
            CONFIG.format(port=port, controller=port + 1, directory=directory), encoding="utf-8"
        )
        classes = ["-cp", ":".join(map(str, kafka_jars()))]
        tool = [
            self.program,
            *classes,
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            CLUSTER,
        ]
        server = [*JAVA, *classes, "kafka.Kafka"]
        return [
            [
                "sh",
                "-c",
                (
                    f"{shlex.join([*tool, '--config', str(config)])} && exec "
                    f"{shlex.join([*server, str(config)])}"
                ),
            ]
        ]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        link = self.link_class(job)
        with closing(link):
            await asyncio.to_thread(link.create)
            link.begin()
            yield link

    @contextmanager
    def caller(self, job: Job) -> Iterator[Callable[[bytes], object]]:
        server = server_of(job)
        is_created(server, job.topic, {})
        producer = import_module("confluent_kafka").Producer({**server, "linger.ms": 0, "acks": 1})

        def publish(payload: bytes) -> None:
            producer.produce(job.topic, payload)
            if left := producer.flush(job.deadline):
                raise RuntimeError(f"{left} messages were not delivered to the broker")

        yield publish

    def script(self, job: Job) -> str:
        server = server_of(job)
        is_created(server, job.topic, {})
        return f"""
from confluent_kafka import Producer
producer = Producer({server})
producer.produce({job.topic!r}, b"message")
producer.flush()
"""


PEER = KafkaPeer()
