"""The opening handshake of a WebSocket (RFC 6455, section 4), and who gets one."""

import ssl

import anyio
import pytest
from mqtt_clients import V5, MqttClient
from websocket_client import (
    ACCEPT,
    WebSocketClient,
    browser,
    raw_connection,
    request,
    serving_browsers,
)

from zaichik.apps.mqtt import gateway
from zaichik.apps.mqtt.origins import Origins, Refused, page
from zaichik.apps.mqtt.packets import ConnAck, Connect
from zaichik.apps.web.names import NotAName
from zaichik.net.tls_handshake import handshake

pytestmark = pytest.mark.anyio


async def answer_to(running, data):
    """All that comes, and whether the connection has ended then."""
    async with raw_connection(running) as raw:
        await raw.send(data)
        answer = b""
        try:
            while b"101 Switching" not in answer:
                answer += await raw.receive()
        # It is reset if bytes were not read.
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return answer, True
        return answer, False


async def test_the_answer_names_the_subprotocol_and_no_extension():
    async with serving_browsers() as running, raw_connection(running) as raw:
        lines = (await WebSocketClient(raw).shake_hands()).lower().split(b"\r\n")
        assert sorted(lines) == [
            b"connection: upgrade",
            b"http/1.1 101 switching protocols",
            b"sec-websocket-accept: " + ACCEPT.lower(),
            b"sec-websocket-protocol: mqtt",
            b"upgrade: websocket",
        ]


@pytest.mark.parametrize(
    ("data", "status", "sentence"),
    [
        (request(b"/"), 404, b"/mqtt"),
        (request(b"/mqtt/x"), 404, b"/mqtt"),
        (request(without=[b"sec-websocket-protocol"]), 400, b"subprotocol must be mqtt"),
        (request(sec_websocket_protocol=b"mqttv3.1"), 400, b"subprotocol must be mqtt"),
        (request(sec_websocket_version=b"8"), 426, b"Version"),
        (request(without=[b"sec-websocket-key"]), 400, b"Key"),
        (request(without=[b"upgrade"]), 400, b"Upgrade"),
        (request(connection=b"close"), 400, b"Upgrade"),
        (request(host=b"evil.example"), 421, b"--allow-host"),
        (request(host=b"localhost:1"), 421, b"--allow-host"),
        (request(host=b""), 421, b"--allow-host"),
        (request(host=b"\xff"), 400, b"header"),
        (request(host=b"a..b"), 421, b"--allow-host"),
        (request(origin=b"https://evil.example"), 403, b"--allow-origin"),
        (request(origin=b"http://localhost.evil.example"), 403, b"--allow-origin"),
        (request(origin=b"null"), 403, b"--allow-origin"),
        (request(origin=b"localhost"), 403, b"--allow-origin"),
        (request(origin=b"http://localhost\r\nOrigin: http://localhost"), 403, b"--allow-origin"),
        (request(content_length=b"3"), 400, b"body"),
        (request(transfer_encoding=b"chunked"), 400, b"body"),
        (request(x=b"x" * 16 * 1024), 431, b"16,384"),
        (request().replace(b"GET", b"POST"), 400, b"GET"),
        (b"\x10\x00\r\n\r\n", 400, b"HTTP"),
        (request(host=b"localhost\r\nHost: localhost"), 400, b"HTTP"),
    ],
)
async def test_what_is_refused_is_answered_with_a_status_and_a_sentence(data, status, sentence):
    async with serving_browsers() as running:
        answer, is_over = await answer_to(running, data)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert is_over
        assert sentence in body
        assert (b"sec-websocket-version: 13" in head.lower()) == (status == 426)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": b"http://localhost"},
        {"origin": b"http://LOCALHOST:3000"},
        {"origin": b"https://127.0.0.1:8443"},
        {"origin": b"http://[::1]:3000"},
        {"origin": b"https://app.example"},
        {"origin": b"http://app.example:81"},
        {"host": b"broker.example"},
    ],
)
async def test_pages_of_this_machine_and_those_that_are_allowed_connect(headers):
    allowed = ["https://app.example:443", "http://app.example:81"]
    async with serving_browsers(["broker.example"], allowed) as running:
        answer, is_over = await answer_to(running, request(**headers))
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert not is_over


def test_another_scheme_or_port_is_another_page():
    origins = Origins(8083, "http", pages=["https://app.example"])
    origins.check("localhost:8083", ["https://app.example"])
    for other in ("http://app.example", "https://app.example:444", "https://x.app.example"):
        with pytest.raises(Refused):
            origins.check("localhost:8083", [other])


@pytest.mark.parametrize("text", ["app.example", "null", "*", "file://", "https://a/b"])
def test_what_is_no_origin(text):
    with pytest.raises(NotAName):
        page(text)


async def test_a_client_that_is_silent_or_slow_is_left(monkeypatch):
    monkeypatch.setattr(gateway, "CONNECT_US", 0)
    async with serving_browsers() as running:
        assert await answer_to(running, request()[:-1]) == (b"", True)


async def test_a_client_that_leaves_in_the_handshake_troubles_nobody():
    async with serving_browsers() as running:
        for size in range(len(request())):
            async with raw_connection(running) as raw:
                await raw.send(request()[:size])
        async with browser(running) as (_, mqtt):
            await mqtt.send(Connect(V5, "a"))
            await mqtt.expect(ConnAck)


async def test_it_speaks_tls_as_the_other_port_does():
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with (
        serving_browsers(tls=server) as running,
        raw_connection(running) as raw,
        await handshake(raw, trusting, "localhost") as encrypted,
    ):
        client = WebSocketClient(encrypted)
        assert (await client.shake_hands()).startswith(b"HTTP/1.1 101 ")
        mqtt = MqttClient(client, V5)
        await mqtt.send(Connect(V5, "a"))
        await mqtt.expect(ConnAck)
        await mqtt.subscribe("t")
        await running.client.publish("mqtt", bytes(200_000), "t")
        assert len((await mqtt.message()).payload) == 200_000


async def test_the_other_port_stays_as_it_was():
    async with serving_browsers() as running, running.stream() as stream:
        await stream.send(request())
        mqtt = MqttClient(stream, V5)
        assert await mqtt.ended()
