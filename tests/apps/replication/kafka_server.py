"""A real Kafka for tests: one broker, or several, each a process that can be killed and started.

Kafka's files are those of the benchmarks, from Maven Central. Where they, Java or a client cannot
be had, a test is skipped and says so. All of it is on loopback and in the test's own folder, and
is ended by process id; each Java has a small heap.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks.obtain import Unobtainable, kafka_jars
from zaichik.learn.server import free_port

CLUSTER = "emFpY2hpay10ZXN0cy0xMg"  # sixteen bytes in Base64, as Kafka wants them
# A server of one test needs little, and starts sooner without the second compiler.
JAVA = ("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_SECONDS = 180.0  # on a busy machine; an idle one takes four
CONFIG = """
process.roles=broker,controller
node.id={node}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={folder}/log
auto.create.topics.enable=false
default.replication.factor={brokers}
min.insync.replicas={synced}
offsets.topic.num.partitions=1
offsets.topic.replication.factor={brokers}
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor={brokers}
transaction.state.log.min.isr={synced}
group.initial.rebalance.delay.ms=0
# How soon it notices that a transaction has taken too long.
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
# A broker that is stopped has nothing to say goodbye to.
controlled.shutdown.enable=false
"""


class KafkaBroker:
    """One server's process.

    Attributes:
        node: its number, from 1.
        port: where clients connect; it stays the same when it is killed and started again.
        process: the process; None before it is started, and after it was killed.
    """

    def __init__(self, node: int, port: int, folder: Path) -> None:
        self.node, self.port, self.folder = node, port, folder
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        """Its file of settings."""
        return self.folder / "server.properties"

    def format(self) -> None:
        """Make its folder ready, which needs a Java of its own."""
        command = [*JAVA, *classes(), "kafka.tools.StorageTool", "format"]
        command += ["--cluster-id", CLUSTER, "--config", str(self.config)]
        subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS)

    def start(self) -> None:
        """Start it; returns at once, see `Kafka.wait`."""
        with (self.folder / "server.log").open("ab") as log:
            command = [*JAVA, *classes(), "kafka.Kafka", str(self.config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """End it as `kill -9` does; returns when it is gone. Its folder stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def suspend(self) -> None:
        """Have it stand still, as a machine does that hangs."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on."""
        os.kill(self.process.pid, signal.SIGCONT)

    def log(self) -> str:
        """What it has printed."""
        return (self.folder / "server.log").read_text(errors="replace")


class Kafka:
    """The servers of one cluster.

    Attributes:
        brokers: its servers.
    """

    def __init__(self, brokers: list[KafkaBroker]) -> None:
        self.brokers = brokers

    @property
    def address(self) -> str:
        """What clients are told to connect to: HOST:PORT, with commas between them."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    def wait(self) -> None:
        """Return when all servers that run are members of the cluster, and serve."""
        running = [broker for broker in self.brokers if broker.process is not None]
        admin = self.admin()
        deadline = time.monotonic() + START_SECONDS
        while True:
            for broker in running:
                if broker.process.poll() is not None:
                    raise RuntimeError(f"Kafka's server {broker.node} ended:\n{broker.log()}")
            try:
                found = admin.list_topics(timeout=1).brokers
            except Exception:
                if time.monotonic() > deadline:
                    raise
                continue
            if {broker.node for broker in running} <= found.keys():
                return
            assert time.monotonic() < deadline, f"{len(found)} of {len(running)} servers are there"
            time.sleep(0.1)  # somebody else's program, which tells nobody when it is ready

    def admin(self):
        """A client for what administrators do."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "logger": SILENT})

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Make a topic; an underscore in the name of a setting stands for a dot."""
        from confluent_kafka.admin import NewTopic

        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(topic, num_partitions=partitions, config=config)
        admin = self.admin()
        admin.create_topics([new])[topic].result()

    def delete(self, topic: str) -> None:
        """Delete a topic, if it is there; returns when it is gone."""
        admin = self.admin()
        while topic in admin.list_topics(timeout=START_SECONDS).topics:
            # Kafka says when it has begun, and a moment later it is done.
            with suppress(Exception):
                admin.delete_topics([topic])[topic].result()

    def records(self, topic: str, isolation: str = "read_committed") -> list:
        """Read what is in a topic's only partition, from its first record to its last.

        Args:
            topic: its name.
            isolation: "read_committed": what a reader of transactions is given.
        """
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        settings = {
            "bootstrap.servers": self.address,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "logger": SILENT,
        }
        consumer = Consumer(settings)
        found = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while True:
                for record in consumer.consume(10_000, timeout=0.2):
                    error = record.error()
                    if error is None:
                        found.append(record)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return found
                    else:
                        raise RuntimeError(str(error))
        finally:
            consumer.close()


class Silent:
    """A logger of a client that says nothing: a server that is killed is what tests are about."""

    def log(self, *_):
        """Drop it."""


SILENT = Silent()


def classes() -> tuple[str, str]:
    """Returns the option of Java that names Kafka's files; downloads those that are missing."""
    return "-cp", ":".join(map(str, kafka_jars()))


@contextmanager
def running_kafka(folder: Path, brokers: int = 1) -> Iterator[Kafka]:
    """A cluster that runs as long as the block. Skips the test if it cannot be had.

    Args:
        folder: where it may keep what it has.
        brokers: how many servers; each is a controller as well.
    """
    pytest.importorskip("confluent_kafka")
    if shutil.which("java") is None:
        pytest.skip("Kafka needs a Java, and there is none")
    try:
        kafka_jars()
    except Unobtainable as error:
        pytest.skip(str(error))
    kafka = Kafka(made(folder, brokers))
    try:
        for broker in kafka.brokers:
            broker.format()
        for broker in kafka.brokers:
            broker.start()
        kafka.wait()
        yield kafka
    finally:
        for broker in kafka.brokers:
            broker.kill()


def made(folder: Path, count: int) -> list[KafkaBroker]:
    """Returns servers that know each other, each with a folder and its settings."""
    brokers = [KafkaBroker(node, free_port(), folder / f"{node}") for node in range(1, count + 1)]
    controllers = {broker.node: free_port() for broker in brokers}
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
    for broker in brokers:
        broker.folder.mkdir(parents=True)
        text = CONFIG.format(
            node=broker.node,
            port=broker.port,
            controller=controllers[broker.node],
            voters=voters,
            folder=broker.folder,
            brokers=count,
            # As with three of which one may be away.
            synced=max(1, count - 1),
        )
        broker.config.write_text(text, encoding="utf-8")
    return brokers
