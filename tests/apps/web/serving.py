"""The page on a real socket, for tests of what no ASGI message can show."""

import socket
from contextlib import asynccontextmanager

import anyio

import zaichik
from zaichik.apps.web.app import Options
from zaichik.apps.web.run import run
from zaichik.client.endpoint import Endpoint


@asynccontextmanager
async def served(broker_port, port=0, **options):
    """Returns the port of a page for the broker at that port."""
    stop, ready = anyio.Event(), anyio.Event()
    listener = socket.create_server(("127.0.0.1", port))
    chosen = Options(
        endpoint=Endpoint("127.0.0.1", broker_port),
        port=listener.getsockname()[1],
        **{"can_write": True} | options,
    )

    async def serve():
        await run(listener, chosen, tls=None, allowed=[], stop=stop, ready=ready.set)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        try:
            yield chosen.port
        finally:
            stop.set()


@asynccontextmanager
async def broker_and_served(**options):
    """Returns a client of a broker, and the port of its page."""
    async with (
        zaichik.running_broker() as server,
        zaichik.connect(port=server.port) as client,
        served(server.port, **options) as port,
    ):
        await client.create_topic("orders", retention_ttl="forever")
        yield client, port
