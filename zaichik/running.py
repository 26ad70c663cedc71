"""A broker inside a program: `serve` for as long as the program runs, `running_broker` for a block of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from zaichik.broker.clock import Clock
from zaichik.broker.settings import BrokerSettings
from zaichik.net.background import BackgroundTasks
from zaichik.serving.server import Server
from zaichik_protocol import DEFAULT_PORT


async def serve(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    settings: BrokerSettings | None = None,
    clock: Clock | None = None,
    data: Path | None = None,
) -> None:
    """Run a broker on that address until cancelled.

    Raises:
        OSError: the address is not available.
        CannotOpen: the folder of durable topics, `data`, cannot be used.
    """
    await (await Server.listening(host, port, settings, clock, data)).run()


@asynccontextmanager
async def running_broker(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    settings: BrokerSettings | None = None,
    clock: Clock | None = None,
    data: Path | None = None,
) -> AsyncIterator[Server]:
    """Returns a broker that runs for the length of the `async with` block, on a free port unless one is given.

    For examples, lessons and tests: with `clock=ManualClock()`, time passes when you say so.

    Raises:
        OSError: the address is not available.
        CannotOpen: the folder of durable topics, `data`, cannot be used.
    """
    server = await Server.listening(host, port, settings, clock, data)
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(server.run)
        yield server
