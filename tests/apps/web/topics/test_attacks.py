"""Clients that do what they like, over TCP: they cost no more than was planned, and not others."""

import json
import socket

import anyio
import pytest
from serving import broker_and_served, served

import zaichik
from zaichik.apps.web import connection
from zaichik.apps.web.topics import publishing, reading

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"  # uvicorn's only one


def request(port, method="POST", path="/topics/orders", body=b"", **headers):
    named = {"host": f"127.0.0.1:{port}", "content_length": len(body)} | headers
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body


async def answered(stream):
    """Returns status and JSON of the next answer, which has a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:])
    while len(body) < int(fields["content-length"]):
        body += await stream.receive()
    return int(head.split()[1]), json.loads(body)


async def ask(port, data):
    with anyio.fail_after(60):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(data)
            return await answered(stream)


async def test_a_connection_is_used_for_one_request_after_the_other():
    async with broker_and_served() as (client, port):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            for number in range(3):
                await stream.send(request(port, body=b"x"))
                assert (await answered(stream))[1]["offset"] == number
        assert (await client.topic("orders"))["next_offset"] == 3


async def test_thirty_connections_publish_at_once():
    async with broker_and_served() as (client, port):
        offsets = []

        async def publish():
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                for _ in range(5):
                    await stream.send(request(port, body=b"x"))
                    offsets.append((await answered(stream))[1]["offset"])

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(30):
                    tasks.start_soon(publish)
        assert sorted(offsets) == list(range(150))
        assert (await client.describe())["producers"] <= 30


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/topics/a%0D%0AX-Injected:%20yes", {}, 400),
        ("/topics/orders?key=a%0D%0AX-Injected:%20yes", {}, 200),
        ("/topics/orders", {"idempotency_key": "a\tb"}, 400),
        ("/topics/orders", {"authorization": "Bearer a b"}, 200),
        ("/topics/%FF", {}, 400),
        ("/topics/orders?key=%FF", {}, 400),
        ("/topics/orders\xff", {}, 400),
        ("/topics/..%2F..%2Fmetrics", {}, 200),
        ("//topics/orders", {}, 403),
        ("/topics//orders", {}, 404),
        ("http://127.0.0.1/topics/orders", {}, 403),
    ],
)
async def test_names_and_keys_are_data(path, headers, status):
    async with broker_and_served() as (_, port):
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request(port, path=path, body=b"x", **headers))
                answer = await stream.receive()
        head = answer.partition(b"\r\n\r\n")[0].lower()
        assert int(head.split()[1]) == status
        assert b"\r\nx-injected" not in head


async def test_a_body_has_one_length():
    """A proxy in front may believe the other one, and take the rest for a request (smuggling)."""
    async with broker_and_served() as (client, port):
        chunked = b"1\r\nx\r\n0\r\n\r\n"
        smuggled = request(
            port, body=chunked, transfer_encoding="chunked", content_length=len(chunked)
        )
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(smuggled + request(port, body=b"y"))
            status, error = await answered(stream)
            assert (status, error["error"]) == (400, "BAD_REQUEST")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
        assert (await client.topic("orders"))["next_offset"] == 0


@pytest.mark.parametrize(
    ("method", "name", "values"),
    [
        ("POST", "authorization", ("Bearer a", "Bearer b")),
        ("POST", "idempotency-key", ("a", "b")),
        ("POST", "content-encoding", ("identity", "gzip")),
        ("POST", "content-type", ("text/plain", "application/x-ndjson")),
        ("GET", "last-event-id", ("7-1", "7-2")),
    ],
)
async def test_a_header_that_is_there_twice_is_refused(method, name, values):
    async with broker_and_served() as (client, port):
        twice = {name: f"{values[0]}\r\n{name}: {values[1]}"}
        status, error = await ask(port, request(port, method, **twice))
        assert (status, error["error"]) == (400, "BAD_REQUEST")
        assert name in error["text"]
        assert (await client.topic("orders"))["next_offset"] == 0


async def test_a_header_that_is_too_long_is_refused():
    async with broker_and_served() as (client, port):
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request(port, idempotency_key="a" * 100_000))
                assert (await stream.receive()).startswith(b"HTTP/1.1 400")
        assert (await client.topic("orders"))["next_offset"] == 0


async def test_a_body_that_comes_too_slowly_is_given_up(monkeypatch):
    monkeypatch.setattr(connection, "REQUEST_S", 0.2)
    async with broker_and_served() as (client, port):
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request(port, body=b"x", content_length=10))
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
        assert (await ask(port, request(port, body=b"y")))[1]["offset"] == 0
        assert (await client.topic("orders"))["next_offset"] == 1


async def test_a_client_that_leaves_in_the_middle_of_a_body_publishes_nothing():
    async with broker_and_served() as (client, port):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request(port, body=b"x", content_length=10))
        assert (await ask(port, request(port, body=b"y")))[1]["offset"] == 0
        assert (await client.topic("orders"))["next_offset"] == 1


async def test_a_chunked_body_without_an_end_is_refused_at_its_limit():
    async with broker_and_served() as (client, port):
        head = request(port, transfer_encoding="chunked").replace(b"content-length: 0\r\n", b"")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(head)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_send_forever, stream, chunk)
                    assert (await answered(stream))[0] == 413
                    tasks.cancel_scope.cancel()
        assert (await client.topic("orders"))["next_offset"] == 0


async def test_a_large_body_is_parsed_in_small_parts(monkeypatch):
    """Between them others have their turn, and a part of chunks of a byte takes long enough."""
    sizes = []
    received = connection.Connection.data_received

    def recorded(self, data):
        sizes.append(len(data))
        received(self, data)

    monkeypatch.setattr(connection.Connection, "data_received", recorded)
    async with broker_and_served() as (_, port):
        assert (await ask(port, request(port, body=b"x" * 1_000_000)))[0] == 200
    assert max(sizes) <= 8192


async def _send_forever(stream, chunk):
    while True:
        await stream.send(chunk)


async def test_a_reader_that_stops_reading_holds_up_nobody_and_loses_its_place(monkeypatch):
    """What it does not read stays in the topic, and in its socket."""
    monkeypatch.setattr(connection, "STUCK_S", 1.0)
    async with broker_and_served() as (client, port):
        await client.create_topic("large", capacity=100_000, max_bytes=64 * 2**20)
        raw = socket.create_connection(("127.0.0.1", port))
        raw.sendall(request(port, "GET", "/topics/large"))
        with anyio.fail_after(60):
            while not await client.subscriptions("large"):
                pass
            for _ in range(40):
                await client.publish_batch("large", [(None, b"x" * 10_000)] * 100)
            answer = await ask(port, request(port, path="/topics/large", body=b"last"))
            assert answer[1]["offset"] == 4000
            rows = await client.subscriptions("large")
            assert all(row["in_flight"] <= reading.CREDIT for row in rows)
            while await client.subscriptions("large"):
                pass
        raw.close()


async def test_a_full_topic_does_not_keep_connections_waiting(monkeypatch):
    monkeypatch.setattr(publishing, "PUBLISH_S", 0.05)
    async with broker_and_served() as (client, port):
        await client.create_topic("jobs", capacity=1, overflow="reject", retention_ttl="forever")
        async with client.subscribe("jobs", name="worker", commit="explicit"):
            await client.publish("jobs", b"1")
            statuses = []

            async def publish():
                answer = await ask(port, request(port, path="/topics/jobs", body=b"2"))
                statuses.append(answer[0])

            async with anyio.create_task_group() as tasks:
                for _ in range(30):
                    tasks.start_soon(publish)
            assert statuses == [503] * 30
            assert (await client.topic("jobs"))["next_offset"] == 1


async def test_a_full_topic_does_not_keep_others_out(monkeypatch):
    """Its requests take some of the connections, and the next ones are told to come again."""
    monkeypatch.setattr(publishing, "MOST_PUBLISHES", 3)
    monkeypatch.setattr(publishing, "PUBLISH_S", 3600.0)
    async with broker_and_served() as (client, port):
        await client.create_topic("jobs", capacity=1, overflow="reject", retention_ttl="forever")
        subscription = client.subscribe("jobs", name="worker", commit="explicit")
        async with subscription, anyio.create_task_group() as tasks:
            await client.publish("jobs", b"1")

            async def publish():
                while True:
                    await ask(port, request(port, path="/topics/jobs", body=b"2"))

            for _ in range(3):
                tasks.start_soon(publish)
            with anyio.fail_after(20):
                while (answer := await ask(port, request(port, body=b"x")))[0] == 200:
                    pass
            assert (answer[0], answer[1]["error"]) == (503, "TOO_MANY_PUBLISHES")
            tasks.cancel_scope.cancel()


async def test_a_stream_ends_when_its_socket_is_reset():
    async with broker_and_served() as (client, port):
        raw = socket.create_connection(("127.0.0.1", port))
        raw.sendall(request(port, "GET"))
        with anyio.fail_after(60):
            while not await client.subscriptions("orders"):
                pass
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            raw.close()
            while await client.subscriptions("orders"):
                pass


async def test_a_gateway_that_stops_has_no_streams_to_wait_for():
    async with zaichik.running_broker() as server:
        with anyio.fail_after(60):
            async with served(server.port) as port:
                stream = await anyio.connect_tcp("127.0.0.1", port)
                await stream.send(request(port, "GET"))
                assert b"200 OK" in await stream.receive()
            data = b""
            while b"event: bye" not in data:
                data += await stream.receive()
            await stream.aclose()
