"""A client of MQTT over WebSocket, and its frames, byte by byte."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mqtt_clients import MqttClient, Running, Version, mqtt_gateway

from zaichik.apps.mqtt.gateway import WebSockets
from zaichik.apps.mqtt.origins import Origins
from zaichik.apps.mqtt.upgrade import Upgrade
from zaichik.net.listener import Listener
from zaichik.net.socket_stream import SocketStream

MASK = b"\x01\x02\x03\x04"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

# The example of RFC 6455, section 1.3.
KEY, ACCEPT = b"dGhlIHNhbXBsZSBub25jZQ==", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def request(path=b"/mqtt", without=(), **headers: bytes) -> bytes:
    """A handshake; the headers replace or add to what a browser sends."""
    lines = {
        b"host": b"localhost",
        b"upgrade": b"websocket",
        b"connection": b"keep-alive, Upgrade",
        b"sec-websocket-key": KEY,
        b"sec-websocket-version": b"13",
        b"sec-websocket-protocol": b"mqttv3.1, mqtt",
        b"sec-websocket-extensions": b"permessage-deflate; client_max_window_bits",
    }
    lines |= {name.replace("_", "-").encode(): value for name, value in headers.items()}
    for name in without:
        del lines[name]
    head = [b"GET %s HTTP/1.1" % path, *(b"%s: %s" % item for item in lines.items())]
    return b"\r\n".join([*head, b"", b""])


def frame(payload: bytes, opcode: int = BINARY, *, is_last: bool = True, flags: int = 0) -> bytes:
    """A frame of a client's."""
    first = opcode | flags
    if is_last:
        first |= 0x80
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65536:
        length = bytes([0x80 | 126]) + size.to_bytes(2)
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8)
    masked = bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload))
    return bytes([first]) + length + MASK + masked


def parted(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """The opcodes and payloads of a server's frames, and what is no whole frame yet."""
    frames = []
    while len(data) >= 2:
        assert data[0] & 0x70 == 0, "it may not be compressed"
        assert data[1] < 0x80, "a server does not mask"
        begin, size = 2, data[1]
        if size >= 126:
            begin += {126: 2, 127: 8}[size]
            size = int.from_bytes(data[2:begin])
        if len(data) < begin + size:
            break
        frames.append((data[0] & 0x0F, data[begin : begin + size]))
        data = data[begin + size :]
    return frames, data


class WebSocketClient:
    """One connection: for `MqttClient`, a stream; the frames that are not binary are kept.

    Attributes:
        raw: the stream below.
        others: opcode and payload of each frame that was not binary.
    """

    def __init__(self, raw: SocketStream) -> None:
        self.raw = raw
        self.others: list[tuple[int, bytes]] = []
        self._data = b""

    async def shake_hands(self) -> bytes:
        """Ask for a WebSocket; the answer."""
        await self.raw.send(request())
        while b"\r\n\r\n" not in self._data:
            self._data += await self.raw.receive()
        answer, _, self._data = self._data.partition(b"\r\n\r\n")
        return answer

    async def send(self, data: bytes) -> None:
        """In one frame."""
        await self.raw.send(frame(data))

    async def receive(self) -> bytes:
        """Payload of binary frames; b"" if there was none in what has come."""
        self._data += await self.raw.receive()
        frames, self._data = parted(self._data)
        self.others += [one for one in frames if one[0] != BINARY]
        return b"".join(payload for opcode, payload in frames if opcode == BINARY)

    async def other(self) -> tuple[int, bytes]:
        """The next frame that is not binary."""
        while not self.others:
            await self.receive()
        return self.others.pop(0)

    async def send_eof(self) -> None:
        """Send no more."""
        await self.raw.send_eof()


@asynccontextmanager
async def serving_browsers(hosts=(), pages=(), **options) -> AsyncIterator[Running]:
    """A gateway that serves browsers."""
    async with await Listener.open("127.0.0.1", 0) as listener:
        websockets = WebSockets(listener, Upgrade(Origins(listener.port, "http", hosts, pages)))
        async with mqtt_gateway(websockets=websockets, **options) as running:
            yield running


@asynccontextmanager
async def raw_connection(running: Running) -> AsyncIterator[SocketStream]:
    """A connection on which nothing was sent."""
    async with await SocketStream.connect("127.0.0.1", running.gateway.websocket_port) as raw:
        yield raw


@asynccontextmanager
async def browser(
    running: Running, version: Version = Version.MQTT_5
) -> AsyncIterator[tuple[WebSocketClient, MqttClient]]:
    """A WebSocket on which nothing was sent, and a client of MQTT over it."""
    async with raw_connection(running) as raw:
        client = WebSocketClient(raw)
        assert (await client.shake_hands()).startswith(b"HTTP/1.1 101 ")
        yield client, MqttClient(client, version)
