"""A restore from a real Kafka, with real bridges: what was acknowledged is there, in its place."""

import json
import signal
import subprocess
import sys

import pytest
from embedded import embedded_broker
from kafka_server import running_kafka

import zaichik
from zaichik import blocking

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]
SECONDS = 120


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with running_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def run(*words, code=0):
    """What a command has printed: its objects."""
    done = subprocess.run(
        [sys.executable, "-m", "zaichik", *map(str, words), "--json"],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr if code else json.loads(done.stdout.splitlines()[-1])


class Bridge:
    """A bridge's process."""

    def __init__(self, broker, where):
        command = [sys.executable, "-m", "zaichik", "bridge", "orders", where, "--json"]
        command += ["--create", "--replication", "1", "--connect", broker.address]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.told = json.loads(self.process.stdout.readline() or "null")

    def ended(self):
        """Wait until it has ended; its code, and what it has said."""
        _, log = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, log

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def where(kafka, request):
    """A topic of Kafka of the test's own, which is not there yet."""
    name = request.node.name.translate(str.maketrans("[]", "--"))
    return f"kafka://{kafka.address}/{name}"


def replicated(broker, count):
    """Wait until Kafka has everything below that offset."""
    with (
        blocking.connect(broker.address) as client,
        client.subscribe("replicated/orders", start="earliest") as marks,
    ):
        for mark in marks:
            if json.loads(mark.payload)["next"] >= count:
                return


def all_of(broker):
    """All that there is to be read, and what a reader is told besides."""
    (state,) = broker.topics("orders")
    with (
        blocking.connect(broker.address) as client,
        client.subscribe("orders", start=0, until=state["next_offset"], events=True) as found,
    ):
        return [*found]


def publish(broker, *numbers):
    """Publish batches, a second apart."""
    for number in numbers:
        broker.publish("orders", [(b"%d" % number, b"x" * number), (None, b"")])
        broker.clock.advance(1)


def lost(folder, where, numbers=range(10)):
    """A topic that was replicated when its machine was lost: what was in it."""
    with embedded_broker(data=folder) as broker:
        broker.create("orders", durable=True, overflow="reject", log_bytes=2**24)
        bridge = Bridge(broker, where)
        publish(broker, *numbers)
        replicated(broker, 2 * len(numbers))
        bridge.kill()
        (state,) = broker.topics("orders")
        return all_of(broker), state


def test_a_topic_is_restored_bridged_and_restored_again(where, tmp_path):
    """RS-1, RS-3."""
    before, state = lost(tmp_path / "a", where)
    done = run("restore", "orders", where, "--data", tmp_path / "b")
    assert (done["messages"], done["epoch"]) == (20, state["epoch"])
    assert done["settings"] == state["settings"]
    checked = run("check", tmp_path / "b")
    assert (checked["problems"], checked["messages"]) == ([], 20)
    with embedded_broker(data=tmp_path / "b") as broker:
        broker.clock.advance(60)
        bridge = Bridge(broker, where)
        publish(broker, 10)
        replicated(broker, done["next"] + 2)
        bridge.kill()
        between = all_of(broker)
    assert between[:20] == before
    assert between[20] == zaichik.Lagged("orders", 20, done["next"])
    again = run("restore", "orders", where, "--data", tmp_path / "c", "--skip", 5)
    assert (again["messages"], again["missing"]) == (22, done["next"] - 20)
    with embedded_broker(data=tmp_path / "c") as broker:
        broker.clock.advance(90)
        last = zaichik.Lagged("orders", done["next"] + 2, done["next"] + 7)
        assert all_of(broker) == [*between, last]


def test_a_bridge_that_still_runs_is_fenced_before_anything_is_read(where, tmp_path, kafka):
    with embedded_broker(data=tmp_path / "a") as broker:
        broker.create("orders", durable=True)
        bridge = Bridge(broker, where)
        publish(broker, 1, 2)
        replicated(broker, 4)
        assert run("restore", "orders", where, "--data", tmp_path / "b")["messages"] == 4
        publish(broker, 3)
        code, log = bridge.ended()
        assert code == 4, log
        assert "another bridge" in log
    assert len(kafka.records(where.rpartition("/")[2])) == 4


def test_without_fencing_the_bridge_goes_on(where, tmp_path):
    with embedded_broker(data=tmp_path / "a") as broker:
        broker.create("orders", durable=True)
        bridge = Bridge(broker, where)
        publish(broker, 1)
        replicated(broker, 2)
        done = run("restore", "orders", where, "--data", tmp_path / "b", "--no-fence")
        assert done["messages"] == 2
        publish(broker, 2)
        replicated(broker, 4)
        bridge.kill()


def test_what_a_bridge_had_begun_when_it_was_lost_is_not_waited_for(where, tmp_path, kafka):
    """Kafka would abort its transaction after a minute."""
    from confluent_kafka import Producer
    from kafka_server import SILENT

    from zaichik.apps.replication.transactions import identity

    lost(tmp_path / "a", where, range(3))
    topic = where.rpartition("/")[2]
    begun = Producer(
        {
            "bootstrap.servers": kafka.address,
            "transactional.id": identity(kafka.admin().list_topics().cluster_id, topic),
            "logger": SILENT,
        }
    )
    begun.init_transactions(60)
    begun.begin_transaction()
    begun.produce(topic, b"never committed", partition=0)
    assert begun.flush(60) == 0
    assert run("restore", "orders", where, "--data", tmp_path / "b")["messages"] == 6


def restoring(where, folder):
    """A restore's process."""
    command = [sys.executable, "-m", "zaichik", "restore", "orders", where, "--data", str(folder)]
    return subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_kafka_that_is_away_is_waited_for_until_ctrl_c(where, tmp_path, kafka):
    lost(tmp_path / "a", where, range(3))
    (server,) = kafka.brokers
    server.kill()
    try:
        first, second = restoring(where, tmp_path / "b"), restoring(where, tmp_path / "c")
        for process in (first, second):
            assert "Kafka does not answer" in process.stderr.readline()
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=SECONDS)
        assert first.returncode == 130
        assert [*(tmp_path / "b" / "topics").iterdir()] == []
    finally:
        server.start()
        kafka.wait()
    out, log = second.communicate(timeout=SECONDS)
    assert json.loads(out)["messages"] == 6, log
    assert run("restore", "orders", where, "--data", tmp_path / "b")["messages"] == 6


def test_what_cannot_be_restored_is_said_in_a_sentence(where, tmp_path, kafka):
    name = where.rpartition("/")[2]
    told = run("restore", "orders", where, "--data", tmp_path / "b", code=1)
    assert f"Kafka has no topic {name} that can be read: Broker: Unknown topic" in told
    kafka.create(name, partitions=2)
    assert "has 2 partitions" in run("restore", "orders", where, "--data", tmp_path / "b", code=1)
    kafka.create(f"{name}-2")
    where += "-2"
    assert "no committed record" in run(
        "restore", "orders", where, "--data", tmp_path / "b", code=1
    )
    with embedded_broker(data=tmp_path / "b"):
        told = run("restore", "orders", where, "--data", tmp_path / "b", code=73)
        assert "another broker uses" in told
