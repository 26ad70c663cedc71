"""`zaichik kafka`."""

import json
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
import trustme
from door import door

ROOT = Path(__file__).parents[2]
EVERYWHERE = "0.0.0.0"  # noqa: S104 (nothing is served there)
QUIET = ("--log-level", "error")
# ApiVersions, version 0, number 7, without a client's id.
ASKED = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def ready(process):
    return json.loads(process.stdout.readline())


def receive_frame(connection):
    with connection.makefile("rb") as file:
        (size,) = struct.unpack(">i", file.read(4))
        return file.read(size)


def test_a_client_of_kafka_is_answered(start, broker):
    process = start("kafka", "--port", "0", "--json", "--connect", broker)
    told = ready(process)
    assert told == {"host": "127.0.0.1", "port": told["port"], "pid": process.pid, "broker": broker}
    with socket.create_connection((told["host"], told["port"])) as connection:
        connection.sendall(ASKED)
        assert receive_frame(connection)[:6] == struct.pack(">ih", 7, 0)
    process.terminate()
    assert (process.wait(), process.stdout.read()) == (0, "")


def test_a_second_gateway_at_the_same_broker_is_refused(start, zaichik, broker):
    first = start("kafka", "--port", "0", "--metrics", "0", "--json", "--connect", broker)
    told = ready(first)
    second = zaichik("kafka", "--port", "0", "--connect", broker, *QUIET)
    assert (second.code, second.out) == (1, "")
    assert "another gateway for Kafka's protocol is at this broker (connection" in second.err
    with urlopen(f"http://127.0.0.1:{told['metrics']}/metrics") as page:
        assert 'zaichik_gateway_connections{protocol="kafka"} 0.0' in page.read().decode()


def test_ctrl_c_ends_it_in_silence_although_a_client_is_connected(start, broker):
    process = start("kafka", "--port", "0", "--log-level", "warning", "--connect", broker)
    line = process.stdout.readline()
    host, _, port = line.split()[4].strip(",").partition(":")
    assert line == f"serving Kafka's protocol at {host}:{port}, for the broker at {broker}\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(ASKED)
        receive_frame(connection)
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
        assert process.returncode == 130
        assert connection.recv(1) == b""


def test_what_is_refused_is_logged_for_programs(start, broker):
    process = start(
        *("kafka", "--port", "0", "--json", "--connect", broker),
        *("--log-format", "json", "--log-level", "warning"),
    )
    with socket.create_connection(("127.0.0.1", ready(process)["port"])) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 24, 0, 7, -1))
        line = json.loads(process.stderr.readline())
    assert (line["event"], line["request"], line["version"]) == (
        "not_offered",
        "AddPartitionsToTxn",
        0,
    )
    assert line["logger"] == "zaichik.kafka.connection"


def test_clients_are_told_the_address_that_is_advertised(start, broker):
    process = start(
        *("kafka", "--port", "0", "--json", "--connect", broker, *QUIET),
        *("--advertise", "kafka.example:1234"),
    )
    with socket.create_connection(("127.0.0.1", ready(process)["port"])) as connection:
        connection.sendall(struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0))  # Metadata of no topics
        answer = receive_frame(connection)
    assert struct.pack(">h", 13) + b"kafka.example" + struct.pack(">i", 1234) in answer


def test_without_a_broker_it_says_so(zaichik):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{1}".format(*free.getsockname())
        result = zaichik("kafka", "--port", "0", "--connect", address)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"zaichik: no broker answers at {address}")


def test_when_the_broker_is_gone_it_says_so_and_ends(start, broker):
    with door(int(broker.rpartition(":")[2]), 4000) as port:  # bytes of a start and some pings
        address = f"127.0.0.1:{port}"
        process = start(
            *("kafka", "--port", "0", "--json", "--reconnect", "0", "--connect", address, *QUIET)
        )
        with socket.create_connection(("127.0.0.1", ready(process)["port"])) as connection:
            for _ in range(200):
                connection.sendall(struct.pack(">ihhihi", 14, 3, 1, 7, -1, -1))
            out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert f"the connection to {address} was lost" in err


def test_other_machines_need_a_login_and_tls(zaichik, broker, tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    certificate, key = tmp_path / "cert", tmp_path / "key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    files = ("--tls-cert", str(certificate), "--tls-key", str(key))
    for given in ((), ("--sasl",), files):
        result = zaichik(
            *("kafka", "--port", "0", "--host", EVERYWHERE, "--connect", broker),
            *given,
        )
        assert result.code == 1
        assert result.err.startswith(f"zaichik: other machines can reach {EVERYWHERE}")


@pytest.mark.parametrize(
    "words",
    [
        "--port 70000",
        "--port x",
        "--advertise nowhere",
        "--capacity 0",
        "--log-level loud",
        "topic",
        "--reconnect 6m",
        "--tls-cert only",
    ],
)
def test_wrong_usage(zaichik, words):
    result = zaichik("kafka", *words.split())
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith("zaichik: ")


def test_a_package_that_is_missing_is_named(zaichik, monkeypatch):
    monkeypatch.setitem(sys.modules, "zaichik.apps.kafka.gateway", None)
    result = zaichik("kafka")
    assert result.code == 1
    assert "make .venv/.installed-kafka" in result.err


def test_help_has_examples(zaichik):
    assert "kcat -b 127.0.0.1:9092" in zaichik("kafka", "--help").out


@pytest.mark.unmeasured
def test_the_page_has_the_requests_that_are_offered():
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", "docs/use/kafka.md"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `make docs`\n{done.stdout}{done.stderr}"
