"""The truth about a bridge: a real Kafka, processes, and `kill -9` of each and of each pair.

What the broker has and what Kafka has committed are compared message by message, at the end: each
once, in order, with its key, payload and time.
"""

import queue
import threading

import pytest
from kafka_server import running_kafka
from killable import BridgeProgram, Broker, ending, wait_watermark

from zaichik.apps.replication.record import header_of

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]

BATCH = 100
BATCHES = 20
KILLS = 3


@pytest.fixture(scope="module")
def a_kafka(tmp_path_factory):
    with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture
def kafka(a_kafka):
    """One without topics."""
    a_kafka.delete("orders")
    return a_kafka


@pytest.fixture
def broker(tmp_path):
    broker = Broker(tmp_path)
    broker.start()
    broker.wait_ready()
    with ending(broker):
        with broker.connect() as client:
            client.create_topic("orders", durable=True, overflow="reject", retention_ttl="forever")
        yield broker


def bridge_of(tmp_path, broker, kafka, *words):
    return BridgeProgram(tmp_path, broker, kafka, "--create", "--replication", "1", *words)


def stored(client, topic="orders"):
    """What the broker has: offset, key, payload and time of each message."""
    end = client.topic(topic)["next_offset"]
    rows = []
    with client.subscribe(topic, until=end) as subscription:
        for frame in subscription.batches():
            for offset, key, payload in zip(
                range(frame.base, frame.base + frame.batch.count),
                frame.batch.keys(),
                frame.batch.payloads(),
                strict=True,
            ):
                rows.append((offset, key or None, payload, frame.accepted_us))
    return rows


def replicated(kafka, topic="orders"):
    """What Kafka has committed, in the same form."""
    rows = []
    for one in kafka.records(topic):
        header = header_of(one.headers())
        assert one.timestamp()[1] == header.accepted_us // 1000
        assert header.end == 0
        rows.append((header.offset, one.key(), one.value(), header.accepted_us))
    return rows


class Publisher:
    """Publishes numbered messages from a thread, as many batches as it is told to."""

    def __init__(self, broker):
        self._broker = broker
        self._asked = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self.failure = None
        self.acknowledged = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._asked.put(0)
        self._thread.join()
        assert self.failure is None, self.failure

    def publish(self, batches):
        """Begin to publish so many."""
        self._asked.put(batches)

    def _batch(self):
        numbers = range(self.acknowledged, self.acknowledged + BATCH)
        return [(b"key-%d" % (number % 7), b"message %d" % number) for number in numbers]

    def _run(self):
        try:
            with self._broker.connect() as client:
                while count := self._asked.get():
                    for _ in range(count):
                        client.publish_batch("orders", self._batch())
                        self.acknowledged += BATCH
        except Exception as error:
            self.failure = error


KILLED = [
    ("bridge",),
    ("broker",),
    ("kafka",),
    ("bridge", "broker"),
    ("bridge", "kafka"),
    ("broker", "kafka"),
]


@pytest.mark.parametrize("killed", KILLED, ids="-and-".join)
def test_each_message_once_and_in_order_whatever_is_killed(tmp_path, kafka, broker, killed):
    bridge = bridge_of(tmp_path, broker, kafka)
    bridge.start()
    victims = {"bridge": bridge, "broker": broker, "kafka": kafka.brokers[0]}
    with ending(bridge), broker.connect() as client:
        with Publisher(broker) as publisher:
            bridge.wait_ready()
            for number in range(KILLS):
                publisher.publish(BATCHES)
                wait_watermark(client, (number * BATCHES + BATCHES // 2) * BATCH)
                for name in killed:
                    victims[name].kill()
                # A bridge waits for Kafka, and not for a broker that was not there at its start.
                if "broker" in killed:
                    broker.start()
                    broker.wait_ready()
                for name in set(killed) - {"broker"}:
                    victims[name].start()
            publisher.publish(BATCHES)
        end = client.topic("orders")["next_offset"]
        mark = wait_watermark(client, end)
        assert (mark.next, mark.gaps) == (end, ())
        here, there = stored(client), replicated(kafka)
        assert bridge.stop() == 0, bridge.log()
    assert [row[0] for row in here] == list(range(end))
    assert there == here
    # Of what was acknowledged, nothing is missing.
    assert end >= publisher.acknowledged
