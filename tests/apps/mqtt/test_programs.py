"""MQTT's own programs and libraries, unchanged: mosquitto's clients, paho, aiomqtt."""

import shutil
import subprocess
import threading
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from mqtt_clients import mqtt_gateway
from websocket_client import serving_browsers

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]

SECONDS = 30


@pytest.fixture
def port() -> Iterator[int]:
    """Of a gateway with a broker of its own, in another thread."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(mqtt_gateway()) as running,
    ):
        yield running.gateway.port


@pytest.fixture
def mosquitto(port):
    """Start one of mosquitto's clients; it is ended with the test."""
    for program in ("mosquitto_pub", "mosquitto_sub", "mosquitto_rr", "stdbuf"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}; it is in the package mosquitto-clients")
    started = []

    def start(name: str, *words: str, stdin: str | None = None) -> subprocess.Popen:
        process = subprocess.Popen(
            # Into a pipe, it would write its lines by the block.
            ["stdbuf", "--output=L", f"mosquitto_{name}", "-p", str(port), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        if stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def until(process, text):
    """Read its lines up to the one with this text."""
    while text not in (line := process.stdout.readline()):
        assert line, f"{text} did not come"


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mosquittos_clients_talk_to_each_other(mosquitto, version, qos):
    reader = mosquitto("sub", "-V", version, "-q", qos, "-t", "home/#", "-v", "-C", "200", "-d")
    until(reader, "received SUBACK")
    lines = "".join(f"{number}\n" for number in range(200))
    writer = mosquitto("pub", "-V", version, "-q", qos, "-t", "home/x", "-l", stdin=lines)
    assert writer.wait(SECONDS) == 0
    out = reader.stdout.read()
    found = [line.split()[1] for line in out.splitlines() if line.startswith("home/x ")]
    assert found == [str(number) for number in range(200)]
    assert reader.wait(SECONDS) == 0


def test_twenty_thousand_retained_messages_all_come(port, mosquitto):
    mqtt = pytest.importorskip("paho.mqtt.client")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(200)
    client.connect("127.0.0.1", port)
    client.loop_start()
    sent = [client.publish(f"r/{n}", str(n), 1, retain=True) for n in range(20_000)]
    for message in sent:
        message.wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()
    reader = mosquitto("sub", "-q", "1", "-t", "r/#", "-C", "20000", "-W", str(SECONDS))
    found = reader.stdout.read().split()
    assert sorted(map(int, found)) == list(range(20_000))


def test_a_request_and_its_response(mosquitto):
    server = mosquitto("sub", "-V", "mqttv5", "-t", "ask", "-F", "%R", "-C", "1", "-d")
    until(server, "received SUBACK")
    client = mosquitto(
        "rr", "-V", "mqttv5", "-t", "ask", "-e", "answer", "-m", "?", "-W", str(SECONDS)
    )
    until(server, "answer")
    assert mosquitto("pub", "-t", "answer", "-m", "!").wait(SECONDS) == 0
    assert client.communicate(timeout=SECONDS)[0] == "!\n"


def test_a_will_of_a_program_that_is_killed(mosquitto):
    reader = mosquitto("sub", "-t", "gone", "-C", "1", "-d")
    until(reader, "received SUBACK")
    doomed = mosquitto("sub", "-t", "x", "--will-topic", "gone", "--will-payload", "bye", "-d")
    until(doomed, "received SUBACK")
    doomed.kill()
    until(reader, "bye")


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_paho_over_websocket(qos):
    mqtt = pytest.importorskip("paho.mqtt.client")
    sizes = [0, 1, 125, 126, 65_535, 65_536, 300_000]
    heard = []
    is_done = threading.Event()

    def on_message(_client, _data, message):
        heard.append(len(message.payload))
        if len(heard) == len(sizes):
            is_done.set()

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, transport="websockets")
    is_subscribed = threading.Event()
    client.on_message = on_message
    client.on_subscribe = lambda *_: is_subscribed.set()
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving_browsers()) as running,
    ):
        client.connect("127.0.0.1", running.gateway.websocket_port)
        client.subscribe("t", qos)
        client.loop_start()
        assert is_subscribed.wait(SECONDS)
        for size in sizes:
            client.publish("t", bytes(size), qos)
        assert is_done.wait(SECONDS)
        client.disconnect()
        client.loop_stop()
    assert heard == sizes


def test_paho_publishes_to_aiomqtt_and_back(port):
    mqtt = pytest.importorskip("paho.mqtt.client")
    properties = pytest.importorskip("paho.mqtt.properties")
    aiomqtt = pytest.importorskip("aiomqtt")
    heard = []
    is_subscribed, is_done = threading.Event(), threading.Event()

    def on_message(_client, _data, message):
        heard.append((int(message.payload), message.properties.UserProperty))
        if len(heard) == 100:
            is_done.set()

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.on_message = on_message
    client.on_subscribe = lambda *_: is_subscribed.set()
    client.connect("127.0.0.1", port)
    client.subscribe("back", 2)
    client.loop_start()
    assert is_subscribed.wait(SECONDS)

    async def echo():
        async with aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5) as other:
            await other.subscribe("there", 2)
            is_ready.set()
            count = 0
            async for message in other.messages:
                await other.publish("back", message.payload, 2, properties=message.properties)
                count += 1
                if count == 100:
                    return

    is_ready = threading.Event()
    with start_blocking_portal() as portal:
        echoing = portal.start_task_soon(echo)
        assert is_ready.wait(SECONDS)
        told = properties.Properties(properties.PacketTypes.PUBLISH)
        told.UserProperty = ("a", "1")
        for number in range(100):
            client.publish("there", str(number), 2, properties=told)
        echoing.result(SECONDS)
    assert is_done.wait(SECONDS)
    client.disconnect()
    client.loop_stop()
    assert heard == [(number, [("a", "1")]) for number in range(100)]
