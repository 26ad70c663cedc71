"""MQTT in the frames of a WebSocket (MQTT 5, section 6; RFC 6455, sections 5 to 7)."""

import anyio
import pytest
from mqtt_clients import V5
from websocket_client import (
    CLOSE,
    CONTINUATION,
    MASK,
    PING,
    PONG,
    TEXT,
    browser,
    frame,
    raw_connection,
    request,
    serving_browsers,
)

from zaichik.apps.mqtt import gateway as gateway_module
from zaichik.apps.mqtt import websocket
from zaichik.apps.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    PubAck,
    Publish,
    ReasonCode,
    Will,
    encode,
)
from zaichik.apps.mqtt.websocket import WebSocketStream
from zaichik.net.stream import Stream

pytestmark = pytest.mark.anyio

CONNECT = encode(Connect(V5, "a"), V5)
PING_REQUEST = encode(PingReq(), V5)


def code(number, text=""):
    return number.to_bytes(2) + text.encode()


async def test_a_browser_and_another_client_talk_to_each_other():
    async with serving_browsers() as running, browser(running) as (_, mqtt):
        await mqtt.send(Connect(V5, "a"))
        await mqtt.expect(ConnAck)
        await mqtt.subscribe("t")
        await running.publish("t", bytes(200_000))
        assert (await mqtt.message()).payload == bytes(200_000)
        async with running.connected("b") as other:
            await other.subscribe("u")
            await mqtt.publish("u", bytes(range(256)), 2)
            assert await other.payloads(1) == [bytes(range(256))]


async def test_a_packet_in_many_frames_and_messages():
    """Frames and fragments may be cut anywhere, with control frames between them."""
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        pieces = [CONNECT[at : at + 1] for at in range(len(CONNECT))]
        first, *middle, last = pieces
        await client.raw.send(frame(first, is_last=False) + frame(b"", PING))
        for piece in middle:
            await client.raw.send(frame(piece, CONTINUATION, is_last=False))
        await client.raw.send(frame(last, CONTINUATION))
        await mqtt.expect(ConnAck)
        await client.raw.send(frame(PING_REQUEST[:1]) + frame(b"") + frame(PING_REQUEST[1:]))
        await mqtt.expect(PingResp)
        assert client.others == [(PONG, b"")]


async def test_many_packets_in_a_frame():
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        packets = [Publish("t", b"%d" % n, qos=1, packet_id=n) for n in range(1, 101)]
        await client.send(CONNECT + b"".join(encode(packet, V5) for packet in packets))
        await mqtt.expect(ConnAck)
        for number in range(1, 101):
            assert (await mqtt.expect(PubAck)).packet_id == number


async def test_more_frames_than_one_turn_parses():
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.raw.send(frame(CONNECT) + frame(b"") * 2000 + frame(PING_REQUEST))
        await mqtt.expect(ConnAck)
        await mqtt.expect(PingResp)


async def test_bytes_cut_anywhere():
    async with serving_browsers() as running, raw_connection(running) as raw:
        for byte in request() + frame(b"", PING) + frame(CONNECT) + frame(PING_REQUEST):
            await raw.send(bytes([byte]))
        answer = b""
        while not answer.endswith(encode(PingResp(), V5)):
            answer += await raw.receive()
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"\r\n\r\n\x8a\x00\x82" in answer


async def test_frames_that_come_with_the_handshake():
    async with serving_browsers() as running, raw_connection(running) as raw:
        await raw.send(request() + frame(CONNECT + PING_REQUEST))
        answer = b""
        while not answer.endswith(encode(PingResp(), V5)):
            answer += await raw.receive()


async def test_pings_are_answered():
    async with serving_browsers() as running, browser(running) as (client, _):
        for payload in (b"", b"hello", bytes(125)):
            await client.raw.send(frame(payload, PING))
            assert await client.other() == (PONG, payload)
        await client.raw.send(frame(b"unasked", PONG) + frame(b"!", PING))
        assert await client.other() == (PONG, b"!")


async def test_a_closing_handshake_that_the_client_begins():
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.send(CONNECT)
        await mqtt.expect(ConnAck)
        await client.raw.send(frame(code(1000, "bye"), CLOSE))
        assert await client.other() == (CLOSE, code(1000, "bye"))
        assert await mqtt.ended()


async def test_a_closing_handshake_that_the_gateway_begins():
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.send(CONNECT)
        await mqtt.expect(ConnAck)
        await mqtt.send(Disconnect())
        assert await client.other() == (CLOSE, code(1000))
        await client.raw.send(frame(code(1000), CLOSE))
        assert await mqtt.ended()


async def test_a_client_is_told_the_reason_before_the_close_frame():
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.send(CONNECT + b"\x00\x00")
        await mqtt.expect(ConnAck)
        packet = await mqtt.expect(Disconnect)
        assert packet.reason_code == ReasonCode.MALFORMED_PACKET
        assert await client.other() == (CLOSE, code(1000))


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (frame(b"\x10", TEXT), 1003),
        (frame(CONNECT, TEXT, is_last=False), 1003),
        (frame(b"", CONTINUATION), 1002),
        (frame(b"", is_last=False) + frame(b""), 1002),
        (frame(b"", 3), 1002),
        (frame(bytes(126), PING), 1002),
        (frame(b"", PING, is_last=False), 1002),
        (frame(b"x", flags=0x40), 1002),
        (frame(b"x", CLOSE), 1002),
        (frame(code(1005), CLOSE), 1002),
        (b"\x82\x01x", 1002),
        (b"\x82\xff" + (2**40).to_bytes(8) + MASK, 1009),
        (b"\x82\xff" + (2**63).to_bytes(8) + MASK, 1002),
    ],
    ids=[
        "text",
        "fragment of text",
        "nothing to continue",
        "not continued",
        "unknown",
        "long ping",
        "fragment of a ping",
        "compressed",
        "half a code",
        "code that may not be sent",
        "not masked",
        "too long",
        "length below zero",
    ],
)
async def test_what_breaks_the_protocol_is_refused_with_a_code(data, number):
    """By its header already: the rest of the frame need not come."""
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.raw.send(frame(CONNECT) + data)
        await mqtt.expect(ConnAck)
        opcode, payload = await client.other()
        assert (opcode, int.from_bytes(payload[:2])) == (CLOSE, number)
        assert payload[2:].decode()
        await client.raw.send_eof()
        assert await mqtt.ended()


async def test_a_frame_has_as_many_bytes_as_a_packet():
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.send(CONNECT)
        await mqtt.expect(ConnAck)
        most = running.state.most_packet
        await client.raw.send(b"\x82\xff" + most.to_bytes(8) + MASK)
        # It is taken as far as it has come, and nothing is said about it.
        masked = bytes(byte ^ MASK[index % 4] for index, byte in enumerate(PING_REQUEST))
        await client.raw.send(masked)
        await mqtt.expect(PingResp)
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.raw.send(b"\x82\xff" + (most + 1).to_bytes(8) + MASK)
        assert (await client.other())[1][:2] == code(1009)


async def test_a_connection_that_breaks_off_leaves_its_will():
    async with serving_browsers() as running, running.connected("b") as reader:
        await reader.subscribe("gone")
        async with browser(running) as (client, mqtt):
            await mqtt.send(Connect(V5, "a", will=Will("gone", b"bye")))
            await mqtt.expect(ConnAck)
            await client.raw.send(frame(code(1001), CLOSE))
            assert await reader.payloads(1) == [b"bye"]


async def test_when_the_gateway_ends_browsers_are_told():
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.send(CONNECT)
        await mqtt.expect(ConnAck)
        running.stop()
        packet = await mqtt.expect(Disconnect)
        assert packet.reason_code == ReasonCode.SERVER_SHUTTING_DOWN
        assert await client.other() == (CLOSE, code(1000))


class Narrow(Stream):
    """A stream that takes a few bytes at a time, and none while it is shut."""

    def __init__(self, *received: bytes) -> None:
        self.received = list(received)
        self.sent = bytearray()
        self.is_shut = False
        self.is_drained = False

    def receive_nowait(self, max_bytes: int = 0) -> bytes:
        if not self.received:
            raise anyio.EndOfStream
        return self.received.pop(0)

    def send_pieces_nowait(self, pieces):
        if self.is_shut:
            return list(pieces)
        data = b"".join(pieces)
        self.sent += data[:7]
        if len(data) <= 7:
            return []
        return [data[7:]]

    async def each_readable(self, callback):
        while callback():
            pass

    async def wait_readable(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def wait_writable(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        """Never called: a close frame says it."""

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()

    is_reset = False
    unacknowledged_bytes = None

    def reset(self) -> None:
        """It has no socket."""


async def test_bytes_that_were_not_taken_are_framed_once():
    below = Narrow()
    stream = WebSocketStream(below, 1000)
    pieces = [bytes([number]) * number for number in range(1, 50)]
    left = stream.send_pieces_nowait(pieces)
    assert left
    while left:
        left = stream.send_pieces_nowait(left)
    size = sum(map(len, pieces))
    assert bytes(below.sent) == b"\x82\x7e" + size.to_bytes(2) + b"".join(pieces)


async def test_a_client_that_pings_and_reads_nothing_is_owed_one_pong():
    below = Narrow(*(frame(b"%d" % number, PING) for number in range(1000)), frame(b"end"))
    below.is_shut = True
    stream = WebSocketStream(below, 1000)
    assert await stream.receive() == b"end"
    below.is_shut = False
    await stream.send(b"x")
    # One was to be sent already when the second one came.
    assert bytes(below.sent) == b"\x8a\x010" + b"\x8a\x03999" + b"\x82\x01x"


async def test_payload_is_returned_in_pieces_as_small_as_asked_for():
    stream = WebSocketStream(Narrow(), 1000, frame(b"hello") + frame(b"!"))
    assert [await stream.receive(2) for _ in range(3)] == [b"he", b"ll", b"o!"]


async def test_each_readable_passes_on_what_comes_until_the_end():
    stream = WebSocketStream(Narrow(frame(b"b"), frame(b"c")), 1000, frame(b"a"))
    found = []
    with pytest.raises(anyio.EndOfStream):
        await stream.receive_each(lambda data: not found.append(data))
    assert found == [b"a", b"b", b"c"]


async def test_nothing_is_sent_after_a_close_frame():
    below = Narrow(frame(code(1000), CLOSE))
    stream = WebSocketStream(below, 1000)
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"x")
    assert bytes(below.sent) == b"\x88\x02" + code(1000)


async def test_a_client_that_does_not_answer_the_close_frame_is_left(monkeypatch):
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0)
    async with serving_browsers() as running, browser(running) as (client, mqtt):
        await client.send(CONNECT)
        await mqtt.expect(ConnAck)
        await mqtt.send(Disconnect())
        assert await mqtt.ended()
        assert client.others == [(CLOSE, code(1000))]


async def test_a_stream_that_was_closed_says_so():
    stream = WebSocketStream(Narrow(), 1000)
    stream.reset()
    await stream.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await stream.receive()


async def test_a_handshake_that_is_never_complete_counts_as_a_connection(monkeypatch, caplog):
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 1)
    async with serving_browsers() as running, raw_connection(running):
        while not running.gateway._served.count:
            await anyio.lowlevel.checkpoint()
        async with running.stream() as late:
            with pytest.raises(anyio.EndOfStream):
                await late.receive()
        assert "turned away: there are 1 connections, which is the limit" in caplog.text
