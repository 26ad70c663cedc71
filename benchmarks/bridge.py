"""Messages a second that `zaichik bridge` copies to Kafka, beside a plain producer.

    python benchmarks/bridge.py [--messages 500000] [--size 100] [--runs 3]

Both use the same library and the same Kafka, of one server on this machine, and take turns. The
plain producer sends a payload that it has in memory, without headers or transactions: as fast as
Python can. The bridge is timed from its first round to its last commit, with a topic that has all
messages already; its broker and Kafka are processes of their own. Look at the ratios: the rates are
those of the machine, and of whatever else it does. The processor time is that of the client's
process, all threads together.

Then the time from a publish until the watermark says that Kafka has it, one message at a time,
beside a transaction of one record.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from zaichik.apps.replication.bridge import Bridge, Progress
from zaichik.apps.replication.servers import Servers
from zaichik.blocking import Client
from zaichik.client.replication.watermark import Watermark, topic_of

sys.path[:0] = [str(Path(__file__).parent.parent / "tests" / "apps" / "replication")]

from kafka_server import SILENT, Kafka, running_kafka  # noqa: E402 (found there)
from killable import Broker, ending  # noqa: E402

ROUND = 5000
SINGLE = 100  # messages whose time is taken


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="messages a second that a bridge copies")
    parser.add_argument("--messages", type=int, default=500_000, help="(default: %(default)s)")
    parser.add_argument("--size", type=int, default=100, help="bytes (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_kafka(folder / "kafka") as kafka:
            broker = Broker(folder)
            broker.start()
            broker.wait_ready()
            with ending(broker):
                measure(kafka, broker, arguments.messages, bytes(arguments.size), arguments.runs)


def measure(kafka: Kafka, broker: Broker, count: int, payload: bytes, runs: int) -> None:
    """Take turns, and print."""
    print(f"{'run':>4} {'producer/s':>12} {'bridge/s':>12} {'ratio':>6}   us of processor, each")
    for run in range(1, runs + 1):
        plain, cost = plain_rate(kafka, f"plain-{run}", count, payload)
        bridged, its_cost = bridge_rate(kafka, broker, f"bridged-{run}", count, payload)
        rates = f"{run:>4} {plain:>12,.0f} {bridged:>12,.0f} {bridged / plain:>6.2f}"
        print(f"{rates} {cost:>12.1f} {its_cost:>13.1f}", flush=True)
    alone = transaction_ms(kafka)
    acknowledged = acknowledged_ms(kafka, broker)
    print(f"a transaction of one record: {alone:.1f} ms (median)")
    print(f"from publish to watermark:   {acknowledged:.1f} ms, {acknowledged / alone:.1f} times")


class Meter:
    """Counts from its making: messages a second, and microseconds of processor time a message."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begin, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Returns both."""
        seconds, processor = time.perf_counter() - self._begin, time.process_time()
        return self._count / seconds, (processor - self._processor) / self._count * 1e6


def plain_rate(kafka: Kafka, topic: str, count: int, payload: bytes) -> tuple[float, float]:
    """Returns what a `Meter` reads of a producer that does nothing else."""
    kafka.create(topic)
    producer = Producer(
        {
            "bootstrap.servers": kafka.address,
            "logger": SILENT,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
        }
    )
    producer.list_topics(topic, timeout=10)
    meter = Meter(count)
    for number in range(count):
        producer.produce(topic, payload)
        if number % ROUND == 0:
            producer.poll(0)
    producer.flush()
    return meter.read()


def bridge_rate(
    kafka: Kafka, broker: Broker, topic: str, count: int, payload: bytes
) -> tuple[float, float]:
    """Returns what a `Meter` reads of a bridge with a topic that has them all."""
    with broker.connect() as client:
        client.create_topic(
            topic, durable=True, overflow="reject", retention_ttl="forever", capacity=count
        )
        for _ in range(0, count, ROUND):
            client.publish_batch(topic, [(None, payload)] * ROUND)
        meters: list[Meter] = []
        stop = threading.Event()

        def tell(progress: Progress) -> None:
            if progress.next >= count:
                stop.set()
            elif not meters:
                meters.append(Meter(count))

        bridge(kafka, client, topic, stop, tell).run()
        return meters[0].read()


def bridge(
    kafka: Kafka,
    client: Client,
    topic: str,
    stop: threading.Event,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Bridge:
    """Returns a bridge to Kafka's topic of that name."""
    servers = Servers(kafka.address)
    return Bridge(client, topic, servers, topic, stop=stop, create=True, replication=1, tell=tell)


def transaction_ms(kafka: Kafka) -> float:
    """Returns the median of a transaction of one record."""
    kafka.create("alone")
    producer = Producer(
        {"bootstrap.servers": kafka.address, "logger": SILENT, "transactional.id": "alone"}
    )
    producer.init_transactions()
    times = []
    for _ in range(SINGLE):
        begin = time.perf_counter()
        producer.begin_transaction()
        producer.produce("alone", b"one")
        producer.commit_transaction()
        times.append(time.perf_counter() - begin)
    return 1000 * statistics.median(times)


def acknowledged_ms(kafka: Kafka, broker: Broker) -> float:
    """Returns the median from a publish until the watermark has passed it."""
    topic = "acknowledged"
    stop = threading.Event()
    with broker.connect() as client, broker.connect() as other:
        client.create_topic(topic, durable=True, overflow="reject", retention_ttl="forever")
        bridging = threading.Thread(target=bridge(kafka, other, topic, stop).run)
        bridging.start()
        times = []
        with client.subscribe(topic_of(topic)) as subscription:
            marks = (Watermark.of(message.payload).next for message in subscription)
            next(marks)
            for _ in range(SINGLE):
                begin = time.perf_counter()
                offset = client.publish(topic, b"one").offset or 0
                while next(marks) <= offset:
                    pass
                times.append(time.perf_counter() - begin)
        stop.set()
        bridging.join()
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    main()
