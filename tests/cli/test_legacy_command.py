"""`zaichik legacy`."""

import errno
import json
import os
import signal
import socket

import pytest
from door import door

from zaichik.apps.legacy.frames import Publish, Subscribe, encode
from zaichik.apps.legacy.gateway import Gateway

QUIET = ("--log-level", "error")


def ready(process):
    return json.loads(process.stdout.readline())


def receive(connection, size):
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def test_a_client_of_the_original_talks_to_one_of_ours(start, broker, zaichik, topic):
    process = start("legacy", "--port", "0", "--json", "--connect", broker)
    told = ready(process)
    assert told == {"host": "127.0.0.1", "port": told["port"], "pid": process.pid, "broker": broker}
    message = encode(Publish(topic, "key", b"hello"))
    with socket.create_connection((told["host"], told["port"])) as connection:
        connection.sendall(message + encode(Subscribe(topic)))
        assert receive(connection, len(message)) == message
        peer = "{}:{}".format(*connection.getsockname())
        connection.sendall(encode(Subscribe("")))
        dropped = [process.stderr.readline() for _ in range(2)][1]
    assert (
        f"WARNING zaichik.legacy.session: {peer}: Subscribe to '' was dropped: topic name"
        in dropped
    )
    read = zaichik("subscribe", topic, "--count", "1", "--json", "--connect", broker)
    assert (read.json["key"], read.json["payload"]) == ("key", "hello")
    process.terminate()
    assert (process.wait(), process.stdout.read()) == (0, "")


def test_ctrl_c_ends_it_in_silence_although_a_client_is_connected(start, broker):
    process = start("legacy", "--port", "0", "--log-level", "warning", "--connect", broker)
    line = process.stdout.readline()
    host, _, port = line.split()[6].strip(",").partition(":")
    assert line == f"serving clients of the original at {host}:{port}, for the broker at {broker}\n"
    with socket.create_connection((host, int(port))) as connection:
        message = encode(Publish("silence", None, b""))
        connection.sendall(encode(Subscribe("silence")) + message)
        assert receive(connection, len(message)) == message
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
        assert process.returncode == 130
        assert connection.recv(1) == b""


def test_without_a_broker_it_says_so(zaichik):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{1}".format(*free.getsockname())
        result = zaichik("legacy", "--port", "0", "--connect", address)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"zaichik: no broker answers at {address}")
    assert result.err.count("\n") == 1


def test_when_the_broker_is_gone_it_says_so_and_ends(start, broker):
    with door(int(broker.rpartition(":")[2]), 500) as port:  # bytes of a greeting and a few replies
        address = f"127.0.0.1:{port}"
        process = start(
            "legacy", "--port", "0", "--json", "--reconnect", "0", "--connect", address, *QUIET
        )
        with socket.create_connection(("127.0.0.1", ready(process)["port"])) as connection:
            connection.sendall(100 * encode(Publish("gone", None, b"x")))
            out, err = process.communicate()
    assert (process.returncode, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"zaichik: the connection to {address} was lost")


def test_a_port_in_use_is_named(zaichik, broker):
    port = broker.rpartition(":")[2]
    result = zaichik("legacy", "--port", port, "--connect", broker)
    sentence = (
        f"zaichik: port {port} is in use, perhaps by a broker; choose a free one: zaichik "
        "legacy --port PORT\n"
    )
    assert (result.code, result.err) == (1, sentence)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            errno.EACCES,
            "port 80 needs privileges; choose one from 1024 on: zaichik legacy --port PORT",
        ),
        (errno.EADDRNOTAVAIL, f"cannot listen at port 80: {os.strerror(errno.EADDRNOTAVAIL)}"),
    ],
)
def test_a_port_that_cannot_be_had_is_an_error(zaichik, broker, monkeypatch, code, sentence):
    async def listening(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Gateway, "listening", listening)
    result = zaichik("legacy", "--port", "80", "--connect", broker)
    assert (result.code, result.err) == (1, f"zaichik: {sentence}\n")


@pytest.mark.parametrize(
    "words",
    ["--port 70000", "--port x", "--host 127.0.0.2", "--log-level loud", "topic", "--reconnect 6m"],
)
def test_wrong_usage(zaichik, words):
    result = zaichik("legacy", *words.split())
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith("zaichik: ")


def test_help_has_examples(zaichik):
    assert "PORT=8890 target/debug/examples/echo" in zaichik("legacy", "--help").out
