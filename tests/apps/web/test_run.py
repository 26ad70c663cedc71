"""The page behind a real server, over TCP: what a browser gets, and how it all ends."""

import json
import logging
import socket

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

import zaichik
from zaichik.apps.web.app import Options
from zaichik.apps.web.run import run
from zaichik.client.endpoint import Endpoint

pytestmark = pytest.mark.anyio
PAGES = 10


@pytest.fixture
def anyio_backend():
    return "asyncio"  # uvicorn's only one


async def events(stream, port):
    """Yields kind and data until the server ends the answer."""
    await stream.send(
        f"GET /events?view=topics HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode()
    )
    received = BufferedByteReceiveStream(stream)
    await received.receive_until(b"\r\n\r\n", 10_000)
    while size := int(await received.receive_until(b"\r\n", 10), 16):
        chunk = (await received.receive_exactly(size + 2)).decode()
        fields = dict(line.partition(": ")[::2] for line in chunk.split("\n"))
        if "event" in fields:
            yield fields["event"], json.loads(fields["data"])


async def test_a_page_is_streamed_and_stopping_ends_every_stream_with_a_bye(caplog):
    """Nothing is left to wait for, nothing is cancelled, and nobody is told of an error."""
    caplog.set_level(logging.ERROR)
    stop, ready, last = anyio.Event(), anyio.Event(), []
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    async def look(page):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            async for kind, data in events(stream, port):
                if kind == "rows":
                    seen[page] = data["rows"][0][0]
                if len(seen) == PAGES:
                    stop.set()
        last.append((kind, data))

    seen = {}
    async with zaichik.running_broker() as server:
        async with zaichik.connect(port=server.port) as client:
            await client.create_topic("orders")
        options = Options(endpoint=Endpoint("127.0.0.1", server.port), port=port)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for page in range(PAGES):
                    tasks.start_soon(look, page)
                await run(listener, options, tls=None, allowed=[], stop=stop, ready=ready.set)
    assert ready.is_set()
    assert {*seen.values()} == {"orders"}
    assert last == [("bye", {"text": "the page's server has stopped", "login": False})] * PAGES
    assert caplog.records == []
