"""`zaichik bridge`, as far as it gets without a Kafka: what is refused, and how it is stopped.

What it does with one is in tests/apps/replication, and with a real one in `make test-gateways`.
"""

import json
import signal
import socket
from contextlib import contextmanager

import pytest

from zaichik import blocking


@contextmanager
def no_kafka():
    """An address of a topic of Kafka at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        _, port = bound.getsockname()
        yield f"kafka://127.0.0.1:{port}/orders"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("orders", "the following arguments are required: KAFKA"),
        ("orders here", "'here' is not an address of Kafka's: kafka://HOST:PORT"),
        ("orders kafka://one/x --replication 0", "0"),
        ("orders kafka://one/x --accept everything", "'everything' is not one of cleanup.policy"),
        ("orders kafka://one/x --kafka-config /nowhere", "/nowhere cannot be read"),
    ],
)
def test_wrong_usage_is_one_sentence(zaichik, words, problem):
    result = zaichik("bridge", *words.split())
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert result.err.endswith("(see: zaichik bridge --help)\n")


def test_a_file_of_settings_is_read_and_a_secret_in_it_is_not_shown(zaichik, secret_file):
    path = secret_file("sasl.username=me\nmysecret\n")
    result = zaichik("bridge", "orders", "kafka://one/x", "--kafka-config", path)
    assert result.code == 2
    assert f"{path}: line 2 is not NAME=VALUE" in result.err
    assert "mysecret" not in result.err


def test_what_is_the_bridges_own_is_refused(zaichik, broker, secret_file):
    path = secret_file("transactional.id=mine\n")
    words = ("orders", "kafka://one/x", "--kafka-config", path, "--connect", broker)
    result = zaichik("bridge", *words)
    assert result.code == 1
    assert "transactional.id cannot be set with --kafka-config" in result.err


def test_a_topic_that_is_not_there_is_told_before_kafka_is_asked(zaichik, broker):
    with no_kafka() as kafka:
        result = zaichik("bridge", "orders", kafka, "--connect", broker)
    assert (result.code, result.out) == (1, "")
    assert "there is no topic 'orders'; `zaichik topics` lists" in result.err


def test_a_program_learns_from_the_log_why_it_ended(zaichik, broker):
    zaichik("create", "rows", "--table", "--connect", broker)
    with no_kafka() as kafka:
        words = ("rows", kafka, "--connect", broker, "--log-format", "json")
        result = zaichik("bridge", *words)
    assert result.code == 1
    line = json.loads(result.err.splitlines()[0])
    assert line["event"] == "bridge_ended"
    assert "rows is a table" in line["reason"]


def test_without_a_broker_it_says_so(zaichik):
    with no_kafka() as kafka:
        address = kafka.removeprefix("kafka://").partition("/")[0]
        result = zaichik("bridge", "orders", kafka, "--connect", address)
    assert result.code == 1
    assert f"no broker answers at {address}" in result.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_can_be_stopped_while_kafka_is_away(start, until, broker, number, code):
    with no_kafka() as kafka, blocking.connect(broker) as client:
        client.create_topic("payments")
        process = start("bridge", "payments", kafka, "--connect", broker)
        until(lambda: "zaichik bridge" in [it["client"] for it in client.connections()], process)
        process.send_signal(number)
        out, err = process.communicate()
    assert (process.returncode, out) == (code, ""), err
    assert "Traceback" not in err
