"""A real Kafka can be started, killed and started again, and keeps what it has acknowledged."""

import pytest
from kafka_server import SILENT, running_kafka

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]


@pytest.mark.parametrize("brokers", [1, 3])
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path, brokers):
    with running_kafka(tmp_path, brokers) as kafka:
        from confluent_kafka import Producer

        kafka.create("orders")
        producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "logger": SILENT})
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
        kafka.brokers[0].kill()
        kafka.brokers[0].start()
        kafka.wait()
        assert [record.value() for record in kafka.records("orders")] == [b"one"]
