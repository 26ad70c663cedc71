"""A broker inside a program.

`serve` runs one for as long as the program runs, `running_broker` for a block of it.
"""

# Not compiled: mypyc has no asynchronous generators, which context managers are written as.

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from zaichik.base.clock import Clock
from zaichik.core.settings import BrokerSettings
from zaichik.net.background import DetachedTasks
from zaichik.server.access.access_gate import in_memory
from zaichik.server.gate import OPEN, Gate
from zaichik.server.server import Server
from zaichik_protocol import DEFAULT_PORT


async def serve(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    settings: BrokerSettings | None = None,
    clock: Clock | None = None,
    data: Path | None = None,
    gate: Gate = OPEN,
) -> None:
    """Run a broker on that address until cancelled.

    Args:
        host: the address to listen on.
        port: its port.
        settings: limits and defaults.
        clock: the source of time.
        data: the folder of durable topics; by default there can be none.
        gate: encrypts connections, and logs users in; by default everybody who reaches the address
            may do everything.

    Raises:
        OSError: the address is not available.
        CannotOpen: the folder of durable topics, `data`, cannot be used.
    """
    server = await Server.listening(host, port, settings, clock, data, gate)
    await server.run()


@asynccontextmanager
async def running_broker(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    settings: BrokerSettings | None = None,
    clock: Clock | None = None,
    data: Path | None = None,
    users: Mapping[str, str] | None = None,
    rules: str = "user *\nallow all *\n",
) -> AsyncIterator[Server]:
    """Returns a broker that runs for the length of the `async with` block.

    It listens on a free port, unless one is given. Another task may leave the block than has
    entered it, unless that was one of trio's.

    For examples, lessons and tests: with `clock=ManualClock()`, time passes when you say so; with
    `users={"ana": "zk_..."}`, everybody logs in with a token, without TLS, and may do what the
    rules say.

    Raises:
        OSError: the address is not available.
        CannotOpen: the folder of durable topics, `data`, cannot be used.
        Unusable: there is a mistake in the rules.
    """
    server = await Server.listening(host, port, settings, clock, data)
    if users is not None:
        try:
            server.gate = in_memory(users, rules, server.clock)
        except BaseException:
            await server.aclose()
            raise
    async with DetachedTasks() as tasks:
        tasks.group.start_soon(server.run)
        yield server
