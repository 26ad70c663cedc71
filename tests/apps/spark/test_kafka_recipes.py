"""The recipes of docs/use/statistics.md for Kafka are run as they stand there, with a real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from embedded import embedded_broker
from kafka_server import SILENT, running_kafka
from spark_connector import connector_jars

from benchmarks.obtain import Unobtainable
from zaichik import blocking

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]
SECONDS = 300


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with running_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def jars():
    try:
        return ",".join(map(str, connector_jars()))
    except Unobtainable as error:
        pytest.skip(str(error))


@pytest.fixture
def cook(kafka, jars, tmp_path):
    """Run a recipe twice, with that broker."""

    def run(broker, title):
        program = Path(__file__).with_name("kafka_recipe.py")
        folders = [Path(__file__).parent, Path(__file__).parents[2]]
        places = (jars, tmp_path, broker.address, kafka.address)
        done = subprocess.run(
            [sys.executable, str(program), *map(str, places), title],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run


def test_what_is_in_kafka_comes_into_a_topic_once(kafka, cook):
    """Also what is in a micro-batch that Spark repeats."""
    from confluent_kafka import Producer

    kafka.create("payments")
    producer = Producer({"bootstrap.servers": kafka.address, "logger": SILENT})
    for number in range(100):
        producer.produce("payments", b"%d" % number, b"k%d" % number if number % 2 else None)
    assert producer.flush(SECONDS) == 0
    with embedded_broker() as broker:
        broker.create("payments")
        cook(broker, "From Kafka into a topic")
        with blocking.connect(broker.address) as client:
            found = client.subscribe("payments", start=0, until=100)
            with found as subscription:
                rows = [(message.key, message.payload) for message in subscription]
        (state,) = broker.topics("payments")
    assert state["next_offset"] == 100
    assert rows == [
        (b"k%d" % number if number % 2 else None, b"%d" % number) for number in range(100)
    ]


def test_a_topic_comes_into_kafka_at_least_once(kafka, cook):
    kafka.create("orders")
    with embedded_broker() as broker:
        broker.create("orders")
        broker.publish("orders", [(b"k%d" % n if n % 2 else None, b"%d" % n) for n in range(100)])
        cook(broker, "From a topic into Kafka")
    rows = [(record.key(), record.value()) for record in kafka.records("orders")]
    assert len(rows) >= 100
    assert {*rows} == {(b"k%d" % n if n % 2 else None, b"%d" % n) for n in range(100)}
