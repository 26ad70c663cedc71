"""Programs written for Kafka, unchanged, and a gateway in a process of its own.

kcat is Debian's package; confluent-kafka is on PyPI; Kafka's console tools and Spark's connector
are files of Maven Central, kept where the benchmarks keep theirs. What is missing is skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from embedded import embedded_broker
from kafka_client import TOKENS, tls_of_both
from kafka_client import gateway as in_process
from spark_connector import connector_jars

from benchmarks.obtain import Unobtainable, downloaded, kafka_jars

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]

SECONDS = 300.0
# SHA-256 and path on Maven Central: what the list of Kafka's server does not have.
TOOLS = (
    (
        "8a6939f310a61119cedaffc144119e9b2a374e32a7ec18f78e49ce5aeb71d6b0",
        "org/apache/kafka/kafka-tools/4.1.1/kafka-tools-4.1.1.jar",
    ),
)


class Gateway:
    """A gateway's process, and the broker behind it."""

    def __init__(self, broker, process, port):
        self.broker, self.process, self.port = broker, process, port
        self.address = f"127.0.0.1:{port}"


@contextmanager
def running_gateway(broker, port=0):
    """One that runs as long as the block, which fails if there was a bug."""
    command = [sys.executable, "-m", "zaichik", "kafka", "--port", str(port), "--json"]
    command += ["--connect", broker.address, "--log-level", "warning"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            told = json.loads(process.stdout.readline())
            yield Gateway(broker, process, told["port"])
        finally:
            process.terminate()
            _, log = process.communicate()
    assert "Traceback" not in log, log


@pytest.fixture
def gateway():
    with embedded_broker() as broker, running_gateway(broker) as running:
        yield running


def run(*command, given=""):
    """What a program has printed, which must end well."""
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- kcat ----------------------------------------------------------------------------------------


@pytest.fixture
def kcat(gateway):
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")

    def call(*words, given=""):
        return run("kcat", "-b", gateway.address, "-q", *words, given=given)

    return call


def test_kcat_lists_writes_and_reads(kcat, gateway):
    kcat("-t", "orders", "-P", "-K:", given="apple:two\npear:three\n")
    assert 'topic "orders" with 1 partitions' in kcat("-L")
    read = kcat("-t", "orders", "-C", "-e", "-f", "%o %k %s\n")
    assert read == "0 apple two\n1 pear three\n"
    assert kcat("-t", "orders", "-C", "-o", "-1", "-e") == "three\n"
    (state,) = gateway.broker.topics("orders")
    assert state["next_offset"] == 2


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_kcat_compresses(kcat, codec):
    given = "".join(f"line {number}\n" for number in range(1000))
    kcat("-t", "orders", "-P", "-z", codec, given=given)
    assert kcat("-t", "orders", "-C", "-e") == given


def test_kcat_reads_in_a_group_and_goes_on(kcat):
    kcat("-t", "orders", "-P", given="1\n2\n3\n")
    assert (
        kcat("-G", "readers", "-c", "2", "-X", "auto.offset.reset=earliest", "orders") == "1\n2\n"
    )
    assert kcat("-G", "readers", "-c", "1", "-X", "auto.offset.reset=earliest", "orders") == "3\n"


# -- confluent-kafka -----------------------------------------------------------------------------


@pytest.fixture
def confluent():
    return pytest.importorskip("confluent_kafka")


def produce(confluent, address, topic, values, **settings):
    """Publish with an idempotent producer; the offsets."""
    offsets = []

    def delivered(error, message):
        assert error is None, error
        offsets.append(message.offset())

    options = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5}
    producer = confluent.Producer(options | settings)
    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    return offsets


def consumer(confluent, address, group, topic, **settings):
    options = {
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "check.crcs": True,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    found = confluent.Consumer(options | settings)
    found.subscribe([topic])
    return found


def read(one, count):
    """So many messages: offsets and values."""
    found = []
    until = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < until:
        for message in one.consume(count - len(found), 1.0):
            assert message.error() is None, message.error()
            found.append((message.offset(), message.value()))
    return found


def test_an_idempotent_producer_and_a_group_that_goes_on(confluent, gateway):
    values = [b"%d" % number for number in range(20_000)]
    assert produce(confluent, gateway.address, "a", values) == [*range(20_000)]
    with closing_consumer(consumer(confluent, gateway.address, "g", "a")) as one:
        assert read(one, 15_000) == [*enumerate(values[:15_000])]
        one.commit(asynchronous=False)
    with closing_consumer(consumer(confluent, gateway.address, "g", "a")) as other:
        assert read(other, 5000) == [*enumerate(values)][15_000:]


@contextmanager
def closing_consumer(one):
    try:
        yield one
    finally:
        one.close()


def test_another_member_takes_over(confluent, gateway):
    produce(confluent, gateway.address, "a", [b"1"] * 10)
    with closing_consumer(consumer(confluent, gateway.address, "g", "a")) as first:
        assert len(read(first, 5)) == 5
        first.commit(asynchronous=False)
        second = consumer(confluent, gateway.address, "g", "a")
    with closing_consumer(second):
        assert [offset for offset, _ in read(second, 5)] == [*range(5, 10)]
        produce(confluent, gateway.address, "a", [b"2"])
        assert read(second, 1) == [(10, b"2")]


def test_a_gateway_that_is_killed_loses_nothing_that_was_acknowledged(confluent, tmp_path):
    """Positions come back, and the producer goes on: at least once."""
    with embedded_broker(data=tmp_path) as broker:
        with running_gateway(broker) as running:
            produce(confluent, running.address, "a", [b"%d" % n for n in range(100)])
            with closing_consumer(consumer(confluent, running.address, "g", "a")) as one:
                assert len(read(one, 60)) == 60
                one.commit(asynchronous=False)
            running.process.kill()
        with running_gateway(broker) as running:
            produce(confluent, running.address, "a", [b"more"])
            with closing_consumer(consumer(confluent, running.address, "g", "a")) as one:
                assert [offset for offset, _ in read(one, 41)] == [*range(60, 101)]


def test_a_producer_goes_on_when_its_gateway_is_started_again(confluent, tmp_path):
    """It does not know the producer any more, and takes its next number."""
    with embedded_broker(data=tmp_path) as broker:
        with running_gateway(broker) as running:
            port = running.port
            acknowledged = []
            options = {"bootstrap.servers": running.address, "enable.idempotence": True}
            producer = confluent.Producer(options | {"log_level": 0})
            producer.produce("a", b"1", on_delivery=lambda error, _: acknowledged.append(error))
            producer.flush(SECONDS)
        with running_gateway(broker, port):
            producer.produce("a", b"2", on_delivery=lambda error, _: acknowledged.append(error))
            assert producer.flush(SECONDS) == 0
        assert acknowledged == [None, None]
        (state,) = broker.topics("a")
        assert state["next_offset"] == 2


def test_a_message_that_is_too_large_is_an_error_and_not_sent_for_ever(confluent, gateway):
    errors = []
    producer = confluent.Producer(
        {"bootstrap.servers": gateway.address, "message.max.bytes": 10_000_000, "log_level": 0}
    )
    producer.produce("a", bytes(6_000_000), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert errors[0].code() == confluent.KafkaError.MSG_SIZE_TOO_LARGE


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_login_over_tls(confluent, tmp_path, anyio_backend):
    shown, _, authority = tls_of_both()
    (tmp_path / "ca").write_bytes(authority)
    async with in_process(with_users=True, tls=shown) as running:
        login = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "ca"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ana",
            "sasl.password": TOKENS["ana"],
        }
        address = f"127.0.0.1:{running.gateway.port}"
        send = partial(produce, confluent, address, "mine/a", [b"1", b"2"], **login)
        assert await anyio.to_thread.run_sync(send) == [0, 1]
        one = consumer(confluent, address, "g", "mine/a", **login)
        assert await anyio.to_thread.run_sync(read, one, 2) == [(0, b"1"), (1, b"2")]
        await anyio.to_thread.run_sync(one.close)


# -- kafka-python --------------------------------------------------------------------------------


def test_kafka_python_writes_and_reads_in_a_group(gateway):
    program = (
        "import sys\n"
        "from kafka import KafkaConsumer, KafkaProducer\n"
        "producer = KafkaProducer(bootstrap_servers=sys.argv[1], compression_type='gzip')\n"
        "sent = [producer.send('a', b'%d' % n, key=b'k') for n in range(500)]\n"
        "producer.flush()\n"
        "assert [one.get(10).offset for one in sent] == [*range(500)]\n"
        "consumer = KafkaConsumer(\n"
        "    'a', bootstrap_servers=sys.argv[1], group_id='g', auto_offset_reset='earliest')\n"
        "for offset in range(500):\n"
        "    message = next(consumer)\n"
        "    assert (message.offset, message.value) == (offset, b'%d' % offset)\n"
        "consumer.commit()\n"
        "consumer.close()\n"
        "producer.close()\n"
        "print('done')\n"
    )
    assert run(sys.executable, "-c", program, gateway.address) == "done\n"


# -- Java ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def class_path():
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    try:
        jars = [*kafka_jars(), *(downloaded(*pair) for pair in TOOLS)]
    except Unobtainable as error:
        pytest.skip(str(error))
    return os.pathsep.join(map(str, jars))


@pytest.fixture
def tool(class_path, gateway):
    def call(name, *words, given=""):
        command = ("java", "-cp", class_path, f"org.apache.kafka.tools.{name}")
        return run(*command, "--bootstrap-server", gateway.address, *words, given=given)

    return call


def test_javas_console_tools(tool):
    assert "Created topic orders" in tool("TopicCommand", "--create", "--topic", "orders")
    assert "orders" in tool("TopicCommand", "--list").split()
    described = tool("TopicCommand", "--describe", "--topic", "orders")
    assert "PartitionCount: 1" in described
    given = "".join(f"line {number}\n" for number in range(1000))
    tool("ConsoleProducer", "--topic", "orders", given=given)
    words = ("--topic", "orders", "--from-beginning", "--group", "g", "--max-messages", "1000")
    assert tool("consumer.ConsoleConsumer", *words) == given
    assert "orders:0:1000" in tool("GetOffsetShell", "--topic", "orders")
    assert "g" in tool("consumer.group.ConsumerGroupCommand", "--list").split()
    group = tool("consumer.group.ConsumerGroupCommand", "--describe", "--group", "g")
    (row,) = [line.split() for line in group.splitlines() if line.startswith("g ")]
    assert row[:6] == ["g", "orders", "0", "1000", "1000", "0"]
    tool("TopicCommand", "--delete", "--topic", "orders")
    assert "orders" not in tool("TopicCommand", "--list").split()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_java_compresses(tool, codec):
    given = "".join(f"line {number}\n" for number in range(1000))
    tool("ConsoleProducer", "--topic", "orders", "--compression-codec", codec, given=given)
    words = ("--topic", "orders", "--from-beginning", "--max-messages", "1000")
    assert tool("consumer.ConsoleConsumer", *words) == given


# -- Spark ---------------------------------------------------------------------------------------


def test_sparks_own_source_and_sink(gateway, tmp_path):
    pytest.importorskip("pyspark")
    try:
        jars = connector_jars()
    except Unobtainable as error:
        pytest.skip(str(error))
    gateway.broker.create("read", capacity=10_000)
    gateway.broker.publish("read", *[[(None, b"%d" % n)] * 100 for n in range(10)])
    program = Path(__file__).with_name("spark_program.py")
    with suppress(KeyError):
        os.environ.pop("COVERAGE_PROCESS_CONFIG")
    out = run(
        *(sys.executable, str(program), str(gateway.port), ",".join(map(str, jars))),
        str(tmp_path),
    )
    found = json.loads(out.splitlines()[-1])
    assert (found["rows"], found["last"]) == (1000, 999)
    assert found["streamed"] == [1000, 1000, 999]
    assert found["batches"] >= 3
    (state,) = gateway.broker.topics("written")
    assert state["next_offset"] == 100
