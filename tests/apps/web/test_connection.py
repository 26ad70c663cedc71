"""Browsers that keep a connection and do nothing with it, at a real server."""

import socket
from contextlib import ExitStack, asynccontextmanager, suppress

import anyio
import pytest
from anyio.lowlevel import checkpoint

from zaichik.apps.web import connection
from zaichik.apps.web.app import Options
from zaichik.apps.web.run import run
from zaichik.apps.web.topics.front import MOST_STREAMS
from zaichik.client.endpoint import Endpoint

pytestmark = pytest.mark.anyio
BEGUN = b"GET /healthz HTTP/1.1\r\nHost: localhost:%d\r\n"
HALF = (
    b"POST /login HTTP/1.1\r\nHost: localhost:%d\r\nOrigin: http://localhost:%d\r\nX-Zaichik: 1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


@pytest.fixture
def anyio_backend():
    return "asyncio"  # uvicorn's only one


@asynccontextmanager
async def served(seconds=60, **more):
    """Returns the port of a page without a broker, and what stops it; a test that takes longer than
    that fails.
    """
    listener, stop = socket.create_server(("127.0.0.1", 0)), anyio.Event()
    port = listener.getsockname()[1]
    options = Options(endpoint=Endpoint("127.0.0.1", 1), port=port, **more)
    with anyio.fail_after(seconds):
        async with anyio.create_task_group() as tasks:
            ready = anyio.Event()

            async def serve():
                await run(listener, options, tls=None, allowed=[], stop=stop, ready=ready.set)

            tasks.start_soon(serve)
            await ready.wait()
            yield port, stop
            stop.set()


async def received(stream):
    """Returns what comes until the server closes the connection."""
    data = b""
    with suppress(anyio.BrokenResourceError):
        async for chunk in stream:
            data += chunk
    return data


@pytest.mark.parametrize("begin", [b"", BEGUN, HALF], ids=["nothing", "half a head", "half a body"])
async def test_a_request_that_is_never_complete_loses_its_connection(begin, monkeypatch):
    monkeypatch.setattr(connection, "REQUEST_S", 0.01)
    async with served() as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(begin % ((port,) * begin.count(b"%d")))
        assert b"200 OK" not in await received(stream)


async def test_a_connection_that_has_had_an_answer_must_complete_its_next_request_in_time(
    monkeypatch,
):
    async with served() as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        monkeypatch.setattr(connection, "REQUEST_S", 0.01)
        await stream.send(BEGUN % port + b"\r\n" + b"GET")
        assert b"200 OK" in await received(stream)


async def test_an_answer_that_is_not_read_loses_its_connection(monkeypatch):
    """Filling the sockets of both sides takes seconds, and on busy cores many."""
    monkeypatch.setattr(connection, "STUCK_S", 0.01)
    async with served() as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        with suppress(anyio.BrokenResourceError):  # the only way out
            while True:
                await stream.send(BEGUN.replace(b"healthz", b"static/page.css") % port + b"\r\n")


CLOSE = b"Connection: close\r\n\r\n"
REFUSED = b"\r\nno request\r\n\r\n"  # after an answer that leaves the connection open


def asking(port, ending):
    """Returns a client that has asked for a file, and reads nothing of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    client.connect(("127.0.0.1", port))
    client.sendall(BEGUN.replace(b"healthz", b"static/page.css") % port + ending)
    return client


@pytest.fixture
def small_buffers(monkeypatch):
    """The server's sockets take no more than a few kilobytes of an answer."""
    made = connection.Connection.connection_made

    def with_a_small_buffer(self, transport):
        made(self, transport)
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)

    monkeypatch.setattr(connection.Connection, "connection_made", with_a_small_buffer)


@pytest.mark.parametrize("ending", [CLOSE, REFUSED], ids=["close", "refused"])
async def test_the_end_of_an_answer_that_is_not_read_loses_its_connection(
    ending, monkeypatch, small_buffers
):
    """It is so little that asyncio would not say that it waits."""
    monkeypatch.setattr(connection, "STUCK_S", 0.01)
    lost, is_lost = connection.Connection.connection_lost, anyio.Event()

    def note(self, error):
        lost(self, error)
        is_lost.set()

    monkeypatch.setattr(connection.Connection, "connection_lost", note)
    async with served(seconds=15) as (port, _):
        with asking(port, ending):
            await is_lost.wait()


async def test_answers_that_are_not_read_to_the_end_keep_nobody_out(monkeypatch, small_buffers):
    """Their connections last until they are lost, and beyond 4, uvicorn answers nobody here."""
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr("zaichik.apps.web.run.MOST_CONNECTIONS", 2)
    complete, answered = connection.Connection.on_response_complete, []

    def note(self):
        complete(self)
        answered.append(self)

    monkeypatch.setattr(connection.Connection, "on_response_complete", note)
    async with served() as (port, _):
        with ExitStack() as clients:
            for count in range(1, 6):
                clients.enter_context(asking(port, CLOSE))
                while len(answered) < count:
                    await checkpoint()
            async with await anyio.connect_tcp("127.0.0.1", port) as newcomer:
                await newcomer.send(BEGUN % port + CLOSE)
                assert b"200 OK" in await received(newcomer)


async def test_when_all_places_are_taken_the_oldest_that_asks_nothing_makes_room(monkeypatch):
    """Those that are being answered keep their places: here it is a stream, which is older than all
    others.
    """
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 3)
    async with served() as (port, stop), await anyio.connect_tcp("127.0.0.1", port) as page:
        await page.send(BEGUN.replace(b"/healthz", b"/events?view=topics") % port + b"\r\n")
        await page.receive()
        idle = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(2)]
        async with await anyio.connect_tcp("127.0.0.1", port) as newcomer:
            await newcomer.send(BEGUN % port + b"Connection: close\r\n\r\n")
            assert b"200 OK" in await received(newcomer)
        assert await received(idle[0]) == b""
        await idle[1].send(BEGUN % port + b"Connection: close\r\n\r\n")
        assert b"200 OK" in await received(idle[1])
        stop.set()
        assert b"event: bye" in await received(page)
        for stream in idle:
            await stream.aclose()


async def test_the_second_half_of_an_answer_does_not_wait_for_the_first_to_be_acknowledged(
    monkeypatch,
):
    """Nagle's algorithm would hold it back, and a client delays what it acknowledges by 40 ms."""
    made, without_delay = connection.Connection.connection_made, []

    def note(self, transport):
        made(self, transport)
        raw = transport.get_extra_info("socket")
        without_delay.append(raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(connection.Connection, "connection_made", note)
    async with served() as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(BEGUN % port + b"\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 200")
    assert without_delay[0] != 0


async def test_a_browser_that_speaks_tls_to_a_plain_port_is_named_in_the_log_once_in_a_while(
    monkeypatch, caplog
):
    monkeypatch.setattr(connection.Connection, "_silent_until", 0)
    caplog.set_level("INFO")
    async with served() as (port, _):
        for _ in range(2):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(bytes.fromhex("16030100f8010000f40303"))
                await stream.send_eof()
                await received(stream)
    named = [line for line in caplog.messages if "speaks TLS, which is not spoken" in line]
    assert len(named) == 1


async def test_each_stream_beyond_the_usual_number_has_a_place_more(monkeypatch):
    """Or streams would push each other out."""
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 1)
    async with (
        served(streams=MOST_STREAMS + 1) as (port, _),
        await anyio.connect_tcp("127.0.0.1", port) as silent,
        await anyio.connect_tcp("127.0.0.1", port) as other,
    ):
        for stream in (other, silent):
            await stream.send(BEGUN % port + b"Connection: close\r\n\r\n")
            assert b"200 OK" in await received(stream)
