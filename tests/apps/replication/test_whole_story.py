"""The promise as a whole: a broker's machine is lost, twice, under programs that publish.

What was acknowledged by Kafka is there once, in Kafka and in the restored topic, at the offset that
was told, whatever else has become of it.
"""

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka_server import running_kafka
from killable import END_SECONDS, BridgeProgram, Broker, ending

from zaichik.apps.replication.record import header_of
from zaichik.apps.replication.restoring import SKIP

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]

PUBLISHERS = 10
ACKNOWLEDGED = 300  # before each loss


class Publishers:
    """The program, and what it has told so far."""

    def __init__(self, process):
        self._process = process
        self.told = []

    def wait_acknowledged(self, count):
        """Return when so many more were acknowledged."""
        while count:
            self._read(self._process.stdout.readline())
            count -= "offset" in self.told[-1]

    def stop(self):
        """Have it end in order."""
        out, _ = self._process.communicate(timeout=END_SECONDS)
        for line in out.splitlines():
            self._read(line)

    def _read(self, line):
        assert line, "the publishers have ended"
        self.told.append(json.loads(line))


@contextmanager
def publishing(broker):
    program = Path(__file__).with_name("publishers.py")
    command = [sys.executable, str(program), str(broker.port), str(PUBLISHERS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Publishers(process)
        finally:
            process.kill()


def restore(folder, kafka):
    command = [sys.executable, "-m", "zaichik", "restore", "orders"]
    command += [f"kafka://{kafka.address}/orders", "--data", str(folder), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=300)
    return json.loads(done.stdout)


def in_topic(client):
    """The offsets of each payload in the topic."""
    found = {}
    with client.subscribe("orders", start=0, until=client.topic("orders")["next_offset"]) as read:
        for message in read:
            found.setdefault(message.payload.decode(), []).append(message.offset)
    return found


def in_kafka(kafka):
    """The same of Kafka, and its gaps; no offset is left out, and none comes twice."""
    found, gaps, following = {}, [], 0
    for one in kafka.records("orders"):
        header = header_of(one.headers())
        assert header.offset == following
        following = header.next
        if header.end:
            gaps.append((header.offset, header.end))
        else:
            found.setdefault(one.value().decode(), []).append(header.offset)
    return found, gaps


@pytest.fixture
def kafka(tmp_path):
    with running_kafka(tmp_path / "kafka") as kafka:
        yield kafka


def test_what_kafka_has_acknowledged_outlives_two_machines(tmp_path, kafka):
    broker = Broker(tmp_path)
    bridge = BridgeProgram(tmp_path, broker, kafka, "--create", "--replication", "1")
    with ending(bridge, broker):
        broker.start()
        broker.wait_ready()
        with broker.connect() as client:
            client.create_topic("orders", durable=True, overflow="reject", retention_ttl="forever")
            settings = client.topic("orders")["settings"]
        bridge.start()
        bridge.wait_ready()
        with publishing(broker) as publishers:
            for _ in range(2):
                publishers.wait_acknowledged(ACKNOWLEDGED)
                bridge.kill()
                broker.kill()
                shutil.rmtree(tmp_path / "topics")
                assert restore(tmp_path / "topics", kafka)["settings"] == settings
                broker.start()
                broker.wait_ready()
                bridge.start()
                bridge.wait_ready()
            publishers.wait_acknowledged(ACKNOWLEDGED)
            publishers.stop()
        assert bridge.stop() == 0
        with broker.connect() as client:
            topic = in_topic(client)
    copied, gaps = in_kafka(kafka)
    assert copied == topic
    assert all(len(offsets) == 1 for offsets in copied.values())
    assert [end - start for start, end in gaps] == [SKIP, SKIP]
    lost = [one["error"] for one in publishers.told if "error" in one]
    assert set(lost) <= {"ReplicationLost", "ProducerUnknown"}
    for one in publishers.told:
        if "offset" in one:
            assert copied[one["payload"]] == [one["offset"]]
