"""`zaichik grpc`."""

import json
import signal
import socket
from pathlib import Path
from urllib.request import urlopen

import grpc
import pytest
import trustme

from zaichik.apps.grpc import broker_pb2 as pb
from zaichik.apps.grpc.broker_pb2_grpc import BrokerStub
from zaichik.cli.commands import grpc as command

QUIET = ("--log-level", "error")
GUARD = 60


def ready(process):
    return json.loads(process.stdout.readline())


def test_a_program_that_speaks_grpc_talks_to_one_of_ours(start, broker, zaichik, topic):
    process = start("grpc", "--port", "0", "--metrics", "0", "--json", "--connect", broker)
    told = ready(process)
    metrics = told.pop("metrics")
    assert told == {"host": "127.0.0.1", "port": told["port"], "pid": process.pid, "broker": broker}
    with grpc.insecure_channel(f"127.0.0.1:{told['port']}") as channel:
        batch = pb.PublishRequest(topic=topic, messages=[pb.NewMessage(key=b"k", payload=b"hello")])
        requests = iter([pb.SubscribeRequest(start=pb.Start(topic=topic))])
        responses = BrokerStub(channel).Subscribe(requests, timeout=GUARD)
        assert next(responses).HasField("started")
        (answer,) = BrokerStub(channel).Publish(iter([batch]), timeout=GUARD)
        assert (answer.stored, answer.subscriptions) == (1, 1)
        (message,) = next(responses).messages.messages
        assert (message.key, message.payload) == (b"k", b"hello")
        with urlopen(f"http://127.0.0.1:{metrics}/metrics") as page:
            text = page.read().decode()
        assert 'zaichik_gateway_connections{protocol="grpc"} 1.0' in text
        assert 'zaichik_gateway_received_messages_total{protocol="grpc"} 1.0' in text
        assert 'zaichik_gateway_sent_messages_total{protocol="grpc"} 1.0' in text
        responses.cancel()
    process.terminate()
    assert (process.wait(), process.stdout.read(), process.stderr.read()) == (0, "", "")


def test_ctrl_c_ends_it_in_silence_although_a_call_is_open(start, broker):
    process = start("grpc", "--port", "0", "--connect", broker)
    line = process.stdout.readline()
    address = line.split()[3].strip(",")
    assert line == f"serving gRPC at {address}, for the broker at {broker}\n"
    with grpc.insecure_channel(address) as channel:
        requests = iter([pb.SubscribeRequest(start=pb.Start(topic="silence"))])
        responses = BrokerStub(channel).Subscribe(requests, timeout=GUARD)
        assert next(responses).HasField("started")
        process.send_signal(signal.SIGINT)
        with pytest.raises(grpc.RpcError) as caught:
            next(responses)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert process.communicate() == ("", "")
    assert process.returncode == 130


def test_over_tls_rubbish_is_no_reason_to_say_anything(start, broker, tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    files = ("--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    process = start("grpc", "--port", "0", "--json", "--connect", broker, *files)
    port = ready(process)["port"]
    with socket.create_connection(("127.0.0.1", port), timeout=GUARD) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while stranger.recv(4096):
            pass
    trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    with grpc.secure_channel(f"127.0.0.1:{port}", trusted) as channel:
        request = pb.CreateTopicRequest(topic="over tls")
        assert BrokerStub(channel).CreateTopic(request, timeout=GUARD).created
    process.terminate()
    assert (process.wait(), process.stderr.read()) == (0, "")


def test_without_a_broker_it_says_so(zaichik):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{1}".format(*free.getsockname())
        result = zaichik("grpc", "--port", "0", "--connect", address)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith(f"zaichik: no broker answers at {address}")


def test_when_the_broker_is_gone_it_says_so_and_ends(start):
    """Even while no call is open."""
    broker = start("serve", "--port", "0", "--json", *QUIET)
    address = f"127.0.0.1:{ready(broker)['port']}"
    process = start(
        "grpc", "--port", "0", "--json", "--reconnect", "0", "--connect", address, *QUIET
    )
    ready(process)
    broker.kill()
    out, err = process.communicate()
    assert (process.returncode, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"zaichik: the connection to {address} was lost")


def test_a_port_in_use_is_named(zaichik, broker):
    port = broker.rpartition(":")[2]
    result = zaichik("grpc", "--port", port, "--connect", broker)
    sentence = (
        f"zaichik: port {port} at 127.0.0.1 is in use, perhaps by another gateway; choose a free "
        "one: zaichik grpc --port PORT\n"
    )
    assert (result.code, result.err) == (1, sentence)


def test_other_machines_are_kept_out_in_a_sentence(zaichik, broker):
    result = zaichik("grpc", "--host", "0.0.0.0", "--port", "0", "--connect", broker)  # noqa: S104
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "add --tls-cert and --tls-key" in result.err


def test_a_certificate_that_cannot_be_used_is_an_error(zaichik, broker, tmp_path):
    (tmp_path / "cert.pem").write_text("no certificate")
    files = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "cert.pem"))
    result = zaichik("grpc", "--port", "0", "--connect", broker, *files)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "cert.pem" in result.err


def test_it_prints_the_declaration(zaichik):
    """Without a broker."""
    path = Path(command.__file__).parents[2] / "apps" / "grpc" / "broker.proto"
    assert zaichik("grpc", "--proto").out == path.read_text(encoding="utf-8")


def test_without_its_packages_it_says_how_to_get_them(zaichik, broker, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zaichik.apps.grpc.gateway", None)
    result = zaichik("grpc", "--port", "0", "--connect", broker)
    assert result.code == 1
    assert "needs grpcio, grpcio-health-checking and grpcio-reflection" in result.err


@pytest.mark.parametrize(
    "words",
    [
        "--port 70000",
        "--port x",
        "--tls-cert cert.pem",
        "--tls-key key.pem",
        "--log-level loud",
        "topic",
        "--reconnect 6m",
    ],
)
def test_wrong_usage(zaichik, words):
    result = zaichik("grpc", *words.split())
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith("zaichik: ")
