"""The broker of a shard: an unchanged `zaichik serve --data`, as a process that ends with the node.

The node holds the other end of its standard input, which closes however the node ends; then the
broker stops in order (CL-1b). Otherwise it would live on: the next node could not bind its port,
and nobody would start it again if it died.

What it logs is logged by the node, with the shard's number.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from zaichik.client.endpoint import Endpoint
from zaichik.net.background import BackgroundTasks

# A stop answers what was read, says goodbye to clients, and writes checkpoints. Its own limits are
# much shorter; a disk that hangs is not waited for.
STOP_S = 30.0
LAST_WORDS_S = 1.0
MOST_ANNOUNCEMENT_BYTES = 65_536
MOST_LINE_BYTES = 65_536
# Addresses that mean all of a machine's, and how its own programs reach them.
LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104

LogLine = Callable[[int, str], None]


class NotStarted(Exception):
    """A broker has ended before it served. Its log says why."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How brokers are started.

    Attributes:
        host: the address that they listen on.
        first_port: the port of shard 0; shard N has that port + N.
        folder: returns the folder of a shard.
        options: more options of `zaichik serve`.
        log_line: is given a shard's number and each line that its broker logs.
    """

    host: str
    first_port: int
    folder: Callable[[int], Path]
    options: Sequence[str]
    log_line: LogLine

    def command(self, shard: int) -> list[str]:
        """Returns what starts the broker of a shard."""
        return [
            *(sys.executable, "-m", "zaichik", "serve"),
            *self.options,
            # Last, for the last one counts.
            *("--host", self.host),
            *("--port", str(self.first_port + shard)),
            *("--data", str(self.folder(shard))),
            # A plain client at the wrong shard must not make a second topic of a name (CL-2b).
            "--no-auto-create",
            "--json",
            "--until-stdin-closes",
        ]


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that serves.

    Attributes:
        endpoint: where this machine's programs reach it, without a login.
        process: it.
    """

    endpoint: Endpoint
    process: Process

    def hang_up(self) -> None:
        """Have it read its users and rules again."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGHUP)

    async def wait(self) -> int:
        """Returns its exit code when it has ended."""
        return await self.process.wait()


@asynccontextmanager
async def running_broker_process(launch: Launch, shard: int) -> AsyncIterator[Broker]:
    """Returns the broker of a shard once it serves, and stops it when the block ends.

    Raises:
        NotStarted: it has ended before that.
        OSError: it cannot be started.
    """
    # The node's secrets are not the broker's.
    environment = {name: text for name, text in os.environ.items() if name[:8] != "ZAICHIK_"}
    process = await anyio.open_process(
        launch.command(shard),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
        # Ctrl-C is for the node, which stops its brokers in order.
        start_new_session=True,
    )
    relayed = anyio.Event()
    async with BackgroundTasks() as tasks:
        try:
            tasks.group.start_soon(_relay, process.stderr, shard, launch.log_line, relayed)
            endpoint = await _announced(process)
            yield Broker(endpoint, process)
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process, relayed)


async def _announced(process: Process) -> Endpoint:
    assert process.stdout is not None  # noqa: S101 (it is a pipe)
    try:
        out = BufferedByteReceiveStream(process.stdout)
        line = await out.receive_until(b"\n", MOST_ANNOUNCEMENT_BYTES)
        told = json.loads(line)
        pin = told["pin"]
        host = LOCAL.get(told["host"], told["host"])
        return Endpoint(host, told["port"], pin is not None, () if pin is None else (pin,))
    except (anyio.IncompleteRead, anyio.EndOfStream):
        code = await process.wait()
        raise NotStarted(f"its broker has ended with exit code {code} before it served") from None


async def _stop(process: Process, relayed: anyio.Event) -> None:
    """Stop a broker in order, or kill it if that takes too long; free its pipes."""
    with suppress(ProcessLookupError):
        process.terminate()
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    # Its last words say why it has ended. A program that it has started may keep the pipe.
    with anyio.move_on_after(LAST_WORDS_S):
        await relayed.wait()
    await process.aclose()


async def _relay(
    stream: ByteReceiveStream | None, shard: int, log_line: LogLine, relayed: anyio.Event
) -> None:
    """Log what a broker logs, line by line, until it has ended."""
    assert stream is not None  # noqa: S101 (it is a pipe)
    left = b""
    try:
        while True:
            left += await stream.receive()
            *lines, left = left.split(b"\n")
            for line in lines:
                log_line(shard, line.decode(errors="backslashreplace"))
            if len(left) > MOST_LINE_BYTES:
                log_line(shard, left.decode(errors="backslashreplace"))
                left = b""
    except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        if left:
            log_line(shard, left.decode(errors="backslashreplace"))
    finally:
        relayed.set()
