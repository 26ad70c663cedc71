"""`zaichik mqtt`."""

import json
import signal
import socket
import sys
from urllib.request import urlopen

import pytest
from door import door

from zaichik.apps.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    PacketDecoder,
    PubAck,
    Publish,
    ReasonCode,
    SubAck,
    Subscribe,
    Subscription,
    Version,
    encode,
)

V5 = Version.MQTT_5
EVERYWHERE = "0.0.0.0"  # noqa: S104 (to be refused)
QUIET = ("--log-level", "error")


@pytest.fixture
def connected():
    """Connect a client; the connection is closed when the test ends."""
    clients = []

    def connect(port):
        clients.append(Client(port))
        return clients[-1]

    yield connect
    for client in clients:
        client.socket.close()


def ready(process):
    return json.loads(process.stdout.readline())


class Client:
    """A connection, byte by byte."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self._decoder = PacketDecoder(2**20, V5)
        self._packets = []
        self.send(Connect(V5, "a"))
        assert type(self.read()) is ConnAck

    def send(self, *packets):
        self.socket.sendall(b"".join(encode(packet, V5) for packet in packets))

    def read(self):
        while not self._packets:
            data = self.socket.recv(65536)
            if not data:
                return None
            self._packets = self._decoder.feed(data)
        return self._packets.pop(0)


def test_a_client_of_mqtt_talks_to_one_of_ours(start, broker, zaichik, connected):
    process = start("mqtt", "--port", "0", "--json", "--connect", broker)
    told = ready(process)
    assert told == {"host": "127.0.0.1", "port": told["port"], "pid": process.pid, "broker": broker}
    client = connected(told["port"])
    client.send(Subscribe(1, (Subscription("home/#", 1),)))
    assert type(client.read()) is SubAck
    zaichik("publish", "mqtt", "21.5", "--key", "home/temp", "--connect", broker)
    message = client.read()
    assert (message.topic, message.payload) == ("home/temp", b"21.5")
    client.send(PubAck(message.packet_id), Publish("x", b"1", qos=1, packet_id=1))
    assert client.read() == PubAck(1)
    process.terminate()
    assert client.read() == Disconnect(ReasonCode.SERVER_SHUTTING_DOWN)
    assert (process.wait(), process.stdout.read()) == (0, "")


def test_a_second_gateway_at_the_same_broker_is_refused(start, zaichik, broker):
    first = start("mqtt", "--port", "0", "--json", "--connect", broker)
    ready(first)
    second = zaichik("mqtt", "--port", "0", "--connect", broker, *QUIET)
    assert (second.code, second.out) == (1, "")
    assert second.err.startswith("zaichik: another gateway for MQTT is at this broker (connection")
    assert first.poll() is None


def test_metrics_are_served_for_this_machine(start, broker, connected):
    process = start("mqtt", "--port", "0", "--metrics", "0", "--json", "--connect", broker)
    told = ready(process)
    client = connected(told["port"])
    client.send(Publish("x", b"1", qos=1, packet_id=1))
    client.read()
    with urlopen(f"http://127.0.0.1:{told['metrics']}/metrics") as page:
        text = page.read().decode()
    assert 'zaichik_gateway_connections{protocol="mqtt"} 1.0' in text
    assert 'zaichik_gateway_received_messages_total{protocol="mqtt"} 1.0' in text
    process.terminate()
    assert process.wait() == 0


def test_browsers_are_served_at_a_port_of_their_own(start, broker):
    process = start(
        "mqtt", "--port", "0", "--websocket", "0", "--json", "--connect", broker, *QUIET
    )
    told = ready(process)
    assert list(told) == ["host", "port", "pid", "websocket", "broker"]
    request = (
        f"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1:{told['websocket']}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", told["websocket"])) as browser:
        browser.sendall(request.encode())
        assert browser.recv(4096).startswith(b"HTTP/1.1 101 ")
    process.terminate()
    assert process.wait() == 0


def test_both_ports_are_said(start, broker):
    process = start("mqtt", "--port", "0", "--websocket", "0", "--connect", broker, *QUIET)
    assert process.stdout.readline().startswith("serving MQTT at 127.0.0.1:")
    assert process.stdout.readline().startswith("serving MQTT over WebSocket at 127.0.0.1:")


def test_a_websockets_port_in_use_is_named(zaichik, broker):
    port = broker.rpartition(":")[2]
    result = zaichik("mqtt", "--port", "0", "--websocket", port, "--connect", broker)
    assert result.code == 1
    assert "choose a free one: zaichik mqtt --websocket PORT" in result.err


def test_without_its_package_it_says_how_to_get_it(zaichik, broker, monkeypatch):
    monkeypatch.setitem(sys.modules, "zaichik.apps.mqtt.upgrade", None)
    result = zaichik("mqtt", "--port", "0", "--websocket", "0", "--connect", broker)
    assert result.code == 1
    assert "zaichik mqtt --websocket needs wsproto" in result.err


def test_ctrl_c_ends_it_in_silence_although_a_client_is_connected(start, broker, connected):
    process = start("mqtt", "--port", "0", "--log-level", "warning", "--connect", broker)
    line = process.stdout.readline()
    host, _, port = line.split()[3].strip(",").partition(":")
    assert line == f"serving MQTT at {host}:{port}, for the broker at {broker}\n"
    client = connected(int(port))
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "")
    assert process.returncode == 130
    assert client.read() == Disconnect(ReasonCode.SERVER_SHUTTING_DOWN)
    assert client.read() is None


def test_without_a_broker_it_says_so(zaichik):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{1}".format(*free.getsockname())
        result = zaichik("mqtt", "--port", "0", "--connect", address)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"zaichik: no broker answers at {address}")


def test_when_the_broker_is_gone_it_says_so_and_ends(start, broker, connected):
    # Bytes of what it needs to start, and some more.
    with door(int(broker.rpartition(":")[2]), 60_000) as port:
        address = f"127.0.0.1:{port}"
        process = start(
            "mqtt", "--port", "0", "--json", "--reconnect", "0", "--connect", address, *QUIET
        )
        client = connected(ready(process)["port"])
        for number in range(1, 60):
            client.socket.sendall(encode(Publish("gone", bytes(2000), qos=1, packet_id=number), V5))
        out, err = process.communicate()
    assert (process.returncode, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"zaichik: the connection to {address} was lost")


def test_a_port_in_use_is_named(zaichik, broker):
    port = broker.rpartition(":")[2]
    result = zaichik("mqtt", "--port", port, "--connect", broker)
    sentence = (
        f"zaichik: port {port} at 127.0.0.1 is in use, perhaps by another MQTT broker; choose a "
        "free one: zaichik mqtt --port PORT\n"
    )
    assert (result.code, result.err) == (1, sentence)


def test_other_machines_are_served_only_with_a_login_and_tls_or_if_one_insists(
    start, zaichik, broker
):
    result = zaichik("mqtt", "--host", EVERYWHERE, "--port", "0", "--connect", broker)
    assert result.code == 1
    assert "it has no login for the broker, so its clients need none" in result.err
    process = start(
        "mqtt", "--host", EVERYWHERE, "--port", "0", "--insecure", "--json", "--connect", broker
    )
    assert ready(process)["host"] == EVERYWHERE


@pytest.mark.parametrize(
    "words",
    [
        "--port 70000",
        "--port x",
        "--tree mqtt",
        "--tree mqtt/x",
        "--tree $SYS",
        "--tree a/#",
        "--tree /a",
        "--max-retained 0",
        "--tls-cert x",
        "--websocket x",
        "--websocket 0 --allow-origin app.example",
        "--websocket 0 --allow-host a/b",
        "--allow-origin https://app.example",
        "--allow-host broker.example",
        "--log-level loud",
        "topic",
        "--reconnect 6m",
    ],
)
def test_wrong_usage(zaichik, words):
    result = zaichik("mqtt", *words.split())
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith("zaichik: ")


def test_help_has_examples(zaichik):
    assert "mosquitto_sub -t 'home/#' -v" in zaichik("mqtt", "--help").out
