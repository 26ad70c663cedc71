"""A crowd of connections in a process of its own: `python crowd.py PORT HOW_MANY ADDRESS`.

All of them come at once, say Hello, and then are silent. Who is turned away comes again. When all
are there it prints a line. For each line it is sent all of them leave, and all come again at once.
When its input ends, so does the crowd.

Each crowd has a source address of its own: a machine has some 28,000 ports for each.
"""

import socket
import sys
from contextlib import AsyncExitStack

import anyio
from rude import HELLO, first_reply

from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import Welcome

_PAUSE_SECONDS = 0.1


async def _come(port: int, address: str) -> SocketStream:
    """A greeted connection; who is turned away comes again, a moment later."""
    while True:
        raw = socket.socket()
        raw.setblocking(False)
        raw.bind((address, 0))
        stream = SocketStream(raw)
        try:
            raw.connect_ex(("127.0.0.1", port))
            await stream.wait_writable()
            await stream.send(HELLO)
            if isinstance(await first_reply(stream), Welcome):
                return stream
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
            pass
        await stream.aclose()
        await anyio.sleep(_PAUSE_SECONDS)


async def main(port: int, how_many: int, address: str) -> None:
    """Until the input ends."""
    while True:
        async with AsyncExitStack() as here:

            async def come(here: AsyncExitStack = here) -> None:
                await here.enter_async_context(await _come(port, address))

            async with anyio.create_task_group() as coming:
                for _ in range(how_many):
                    coming.start_soon(come)
            print(how_many, flush=True)
            if not await anyio.to_thread.run_sync(sys.stdin.readline):
                return


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
