"""Messages a second over MQTT, beside Mosquitto: from one client to one, and to many.

    python benchmarks/mqtt.py [--readers 200] [--messages 20000] [--runs 2]

The client is the same for both, and counts bytes: it knows how long the packets are that it must
get. Broker, gateway and Mosquitto are processes of their own, and take turns. Look at the ratio:
the rates are those of the machine, and of whatever else it does.
"""

import argparse
import json
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zaichik.apps.mqtt.packets import (
    Connect,
    Packet,
    PubAck,
    Publish,
    Subscribe,
    Subscription,
    Version,
    encode,
)
from zaichik.learn.server import free_port

V4 = Version.MQTT_3_1_1
TOPIC = "benchmark/topic"
PAYLOAD = bytes(100)
ACK_BYTES = 4
# Messages of QoS 1 that the publisher has not had acknowledged.
WINDOW = 200
SILENCE_SECONDS = 20.0


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="messages a second over MQTT")
    parser.add_argument("--readers", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--messages", type=int, default=20_000, help="(default: %(default)s)")
    parser.add_argument("--runs", type=int, default=2, help="of each (default: %(default)s)")
    arguments = parser.parse_args()
    with gateway() as own, mosquitto() as other:
        print(f"{'QoS':4} {'readers':>8} {'gateway/s':>12} {'mosquitto/s':>12} {'ratio':>6}")
        for qos in (0, 1):
            for readers in (1, arguments.readers):
                count = max(arguments.messages // readers, 10)
                best = [0.0, 0.0]
                for _ in range(arguments.runs):
                    for index, port in enumerate((own, other)):
                        if port:
                            best[index] = max(best[index], rate(port, qos, readers, count))
                print(row(qos, readers, *best))


def row(qos: int, readers: int, own: float, other: float) -> str:
    """Returns a line of the table."""
    text = f"{qos:<4} {readers:>8} {own:>12,.0f}"
    if not other:
        return f"{text} {'not there':>12}"
    return f"{text} {other:>12,.0f} {own / other:>6.2f}"


def rate(port: int, qos: int, readers: int, count: int) -> float:
    """Returns the messages a second that all readers get together."""
    streams = [reader(port, number, qos) for number in range(readers)]
    publisher = connection(port, "publisher")
    try:
        begin = time.perf_counter()
        publishing = threading.Thread(target=publish, args=(publisher, qos, count))
        publishing.start()
        receive(streams, qos, count)
        took = time.perf_counter() - begin
        publishing.join()
    finally:
        for stream in (*streams, publisher):
            stream.close()
    return readers * count / took


def connection(port: int, name: str) -> socket.socket:
    """Returns a client's connection."""
    stream = socket.create_connection(("127.0.0.1", port), SILENCE_SECONDS)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask(stream, Connect(V4, name), ACK_BYTES)
    return stream


def reader(port: int, number: int, qos: int) -> socket.socket:
    """Returns the connection of one that has subscribed."""
    stream = connection(port, f"reader {number}")
    ask(stream, Subscribe(1, (Subscription(TOPIC, qos),)), ACK_BYTES + 1)
    return stream


def ask(stream: socket.socket, packet: Packet, size: int) -> None:
    """Send a packet, and wait for an answer of that many bytes."""
    stream.sendall(encode(packet, V4))
    skip(stream, size)


def skip(stream: socket.socket, size: int) -> None:
    """Receive that many bytes."""
    while size:
        data = stream.recv(size)
        if not data:
            raise RuntimeError("the server has closed the connection")
        size -= len(data)


def publish(stream: socket.socket, qos: int, count: int) -> None:
    """Publish messages; with QoS 1, as fast as they are acknowledged."""
    for first in range(0, count, WINDOW):
        numbers = range(first, min(first + WINDOW, count))
        packets = [Publish(TOPIC, PAYLOAD, qos=qos, packet_id=qos * (n + 1)) for n in numbers]
        stream.sendall(b"".join(encode(packet, V4) for packet in packets))
        skip(stream, qos * ACK_BYTES * len(numbers))


def receive(streams: list[socket.socket], qos: int, count: int) -> None:
    """Returns when all have got all messages; they acknowledge them."""
    size = len(encode(Publish(TOPIC, PAYLOAD, qos=qos, packet_id=qos), V4))
    # Where the packet identifier is.
    at = 2 + 2 + len(TOPIC)
    kept = {stream: bytearray() for stream in streams}
    left = count * len(streams)
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while left:
            ready = selector.select(SILENCE_SECONDS)
            if not ready:
                raise RuntimeError(f"{left} messages did not come")
            for key, _ in ready:
                stream = next(one for one in (key.fileobj,) if isinstance(one, socket.socket))
                data = kept[stream]
                data += stream.recv(256 * 1024)
                complete = len(data) // size
                if qos:
                    acknowledge(stream, data, [number * size + at for number in range(complete)])
                del data[: complete * size]
                left -= complete


def acknowledge(stream: socket.socket, data: bytearray, places: list[int]) -> None:
    """Acknowledge the messages whose packet identifiers are at these places."""
    identifiers = [int.from_bytes(data[at : at + 2]) for at in places]
    stream.sendall(b"".join(encode(PubAck(one), V4) for one in identifiers))


@contextmanager
def gateway() -> Iterator[int]:
    """Returns the port of a gateway, with a broker of its own; both end with the block."""
    with command("serve", "--port", "0", "--json") as broker:
        address = f"127.0.0.1:{broker}"
        with command("mqtt", "--port", "0", "--json", "--connect", address) as port:
            yield port


@contextmanager
def command(*words: str) -> Iterator[int]:
    """Returns the port of one of our servers."""
    line = [sys.executable, "-m", "zaichik", *words, "--log-level", "error"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port: int = json.loads(process.stdout.readline())["port"]
            yield port
        finally:
            process.terminate()


@contextmanager
def mosquitto() -> Iterator[int]:
    """Returns the port of a Mosquitto that keeps what the gateway does; 0 if there is none."""
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        yield 0
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "mosquitto.conf"
        settings.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\n"
            "max_inflight_messages 1000\nmax_queued_messages 1000000\n",
            encoding="utf-8",
        )
        line = [program, "-c", str(settings)]
        nothing = subprocess.DEVNULL
        with subprocess.Popen(line, stdout=nothing, stderr=nothing) as process:
            try:
                wait_for(port)
                yield port
            finally:
                process.terminate()


def wait_for(port: int) -> None:
    """Returns when something listens there."""
    deadline = time.monotonic() + SILENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("Mosquitto does not listen")


if __name__ == "__main__":
    main()
