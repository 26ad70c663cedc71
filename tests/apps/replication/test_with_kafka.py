"""What a real Kafka answers to a bridge: fencing, transactions that took too long, its topics."""

import threading

import pytest
from confluent_kafka import Producer
from embedded import embedded_broker
from kafka_server import SILENT, running_kafka
from killable import BridgeProgram, Broker, ending, wait_watermark

from zaichik import blocking
from zaichik.apps.replication.bridge import Bridge
from zaichik.apps.replication.errors import CannotReplicate, Replaced
from zaichik.apps.replication.record import header_of
from zaichik.apps.replication.servers import Servers, Waiting
from zaichik.apps.replication.transactions import Transactions

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]


@pytest.fixture(scope="module")
def a_kafka(tmp_path_factory):
    with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture
def kafka(a_kafka):
    """One without the topic."""
    a_kafka.delete("orders")
    return a_kafka


@pytest.fixture
def broker(tmp_path):
    with embedded_broker(data=tmp_path) as broker:
        broker.create("orders", durable=True, overflow="reject")
        broker.publish("orders", [(b"key", b"one")], [(None, b"two")])
        yield broker


class Running:
    """A bridge in a thread.

    Attributes:
        progress: the last one it has told.
    """

    def __init__(self, broker, kafka, replication=1, **options):
        self.progress = None
        self.stop = threading.Event()
        self.failure = None
        self._changed = threading.Condition()
        self._ended = False
        arguments = (broker.address, kafka.address, replication, options)
        self._thread = threading.Thread(target=self._run, args=arguments)

    def _run(self, address, servers, replication, options):
        try:
            with blocking.connect(address) as client:
                waiting = Waiting(self.stop, patience=0)
                Bridge(
                    client,
                    "orders",
                    Servers(servers),
                    "orders",
                    stop=self.stop,
                    replication=replication,
                    tell=self._tell,
                    waiting=waiting,
                    **{"create": True} | options,
                ).run()
        except Exception as error:
            self.failure = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _tell(self, progress):
        with self._changed:
            self.progress = progress
            self._changed.notify_all()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self._thread.join()

    def wait(self, offset):
        """Return when Kafka has everything below."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: self._ended or (self.progress is not None and self.progress.next >= offset),
                timeout=120,
            )
        assert self.failure is None, self.failure

    def ended(self):
        """Return why it has ended by itself."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended, timeout=120)
        return self.failure


def offsets(kafka):
    return [header_of(record.headers()).offset for record in kafka.records("orders")]


def test_another_bridge_takes_the_place_of_the_first_which_ends_with_a_sentence(tmp_path, kafka):
    broker = Broker(tmp_path)
    broker.start()
    broker.wait_ready()
    options = ("--create", "--replication", "1")
    first = BridgeProgram(tmp_path, broker, kafka, *options)
    second = BridgeProgram(tmp_path, broker, kafka, *options)
    with ending(first, second, broker), broker.connect() as client:
        client.create_topic("orders", overflow="reject", retention_ttl="forever")
        client.publish("orders", b"one")
        first.start()
        wait_watermark(client, 1)
        second.start()
        second.wait_ready()
        client.publish("orders", b"two")
        assert first.ended() == 4
        assert "another bridge" in first.log()
        wait_watermark(client, 2)
        assert second.stop() == 0
    assert offsets(kafka) == [0, 1]


def test_a_transaction_that_took_too_long_is_done_again(broker, kafka, caplog):
    """Kafka ends it, and then knows the producer no more: as after another bridge."""
    with Running(broker, kafka, timeout_s=2) as bridge:
        bridge.wait(2)
        kafka.brokers[0].suspend()
        try:
            broker.publish("orders", [(None, b"three")])
            # Longer than the transaction may take.
            bridge.stop.wait(10)
        finally:
            kafka.brokers[0].resume()
        bridge.wait(3)
        broker.publish("orders", [(None, b"four")])
        bridge.wait(4)
    assert offsets(kafka) == [0, 1, 2, 3]


def test_a_kafka_that_is_away_at_the_start_is_waited_for(broker, kafka, caplog):
    kafka.brokers[0].kill()
    with Running(broker, kafka) as bridge:
        while "Kafka does not answer" not in caplog.text:
            assert bridge.failure is None
            bridge.stop.wait(0.1)
        kafka.brokers[0].start()
        kafka.wait()
        bridge.wait(2)
    assert offsets(kafka) == [0, 1]
    assert "Kafka answers again" in caplog.text


def test_a_kafka_that_gives_transactions_less_time_is_named(broker, kafka):
    with Running(broker, kafka, timeout_s=24 * 3600) as bridge:
        assert "transaction.max.timeout.ms" in str(bridge.ended())


def test_the_largest_message_of_the_broker_goes_through(broker, kafka):
    with blocking.connect(broker.address) as client:
        payload = bytes(client.welcome.max_message - 3)
        client.publish("orders", payload, key="key")
    with Running(broker, kafka) as bridge:
        bridge.wait(3)
    assert kafka.records("orders")[-1].value() == payload


def test_a_topic_with_kafkas_defaults_is_refused_by_name(broker, kafka):
    kafka.create("orders")
    with Running(broker, kafka, replication=3) as bridge:
        failure = bridge.ended()
    assert isinstance(failure, CannotReplicate)
    for name in ("retention.ms", "min.insync.replicas", "max.message.bytes"):
        assert f"{name} is " in str(failure)
        assert f"--accept {name}" in str(failure)


def test_a_topic_with_several_partitions_is_refused(broker, kafka):
    kafka.create("orders", partitions=2)
    with Running(broker, kafka) as bridge:
        assert "has 2 partitions" in str(bridge.ended())


def test_a_topic_that_is_not_there_is_refused(broker, kafka):
    with Running(broker, kafka, create=False) as bridge:
        assert "; --create makes it" in str(bridge.ended())


def test_more_replicas_than_there_are_servers_are_refused(broker, kafka):
    with Running(broker, kafka, replication=3) as bridge:
        assert "say how many with --replication" in str(bridge.ended())


def test_a_topic_of_kafka_that_was_made_again_ends_it(broker, kafka):
    with Running(broker, kafka) as bridge:
        bridge.wait(2)
        kafka.delete("orders")
        kafka.create("orders")
        broker.publish("orders", [(None, b"three")])
        failure = bridge.ended()
    assert "was deleted and made again" in str(failure)
    # It does not begin in the middle either.
    kafka.delete("orders")
    with Running(broker, kafka) as bridge:
        assert "offsets 0 to 1 of orders are settled" in str(bridge.ended())


def test_a_fenced_producer_ends_the_bridge(broker, kafka):
    """Without a second reader at the broker, as if that was another broker."""
    stop = threading.Event()
    with Running(broker, kafka) as bridge:
        bridge.wait(2)
        admin = kafka.admin()
        cluster = admin.describe_cluster().result().cluster_id
        other = Transactions(Servers(kafka.address), "orders", cluster, 9999, Waiting(stop))
        other.begin()
        broker.publish("orders", [(None, b"three")])
        failure = bridge.ended()
    assert isinstance(failure, Replaced)
    assert "another bridge writes to Kafka's topic orders" in str(failure)
    assert offsets(kafka) == [0, 1]


def test_a_transaction_of_others_is_waited_for(broker, kafka, caplog):
    with Running(broker, kafka) as bridge:
        bridge.wait(2)
    other = Producer(
        {"bootstrap.servers": kafka.address, "transactional.id": "other", "logger": SILENT}
    )
    other.init_transactions(30)
    other.begin_transaction()
    other.produce("orders", b"mine")
    other.flush(30)
    broker.publish("orders", [(None, b"three")])
    with Running(broker, kafka) as bridge:
        while "another program has a transaction open" not in caplog.text:
            assert bridge.failure is None
            bridge.stop.wait(0.1)
        other.abort_transaction(30)
        bridge.wait(3)
    assert offsets(kafka) == [0, 1, 2]


def test_a_topic_in_memory_that_a_restart_has_lost_ends_it_with_both_epochs(tmp_path, kafka):
    broker = Broker(tmp_path)
    broker.start()
    broker.wait_ready()
    bridge = BridgeProgram(tmp_path, broker, kafka, "--create", "--replication", "1")
    with ending(bridge, broker):
        with broker.connect() as client:
            client.create_topic("orders", overflow="reject", retention_ttl="forever")
            first = client.topic("orders")["epoch"]
            client.publish("orders", b"one")
            bridge.start()
            wait_watermark(client, 1)
        broker.kill()
        broker.start()
        broker.wait_ready()
        assert bridge.ended() == 1
        assert f"epoch {first}" in bridge.log()
        with broker.connect() as client:
            client.create_topic("orders", overflow="reject", retention_ttl="forever")
            second = client.topic("orders")["epoch"]
        bridge.start()
        assert bridge.ended() == 1
        assert f"of epoch {second} now" in bridge.log()
    assert offsets(kafka) == [0]


def test_three_servers_of_which_one_is_killed(tmp_path, broker):
    with running_kafka(tmp_path / "kafka", brokers=3) as kafka:
        with Running(broker, kafka, replication=3) as bridge:
            for number, victim in enumerate(kafka.brokers):
                bridge.wait(2 + 5 * number)
                victim.kill()
                for _ in range(5):
                    broker.publish("orders", [(None, b"more")])
                bridge.wait(2 + 5 * number + 5)
                victim.start()
                kafka.wait()
        assert offsets(kafka) == list(range(17))
