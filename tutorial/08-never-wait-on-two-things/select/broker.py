"""My broker: what goes over its sockets."""

import os
import traceback
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any

import anyio
from anyio.abc import SocketStream
from conversation import Conversation
from topics import Topics

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
FAREWELL_S = 1.0  # how long we go on reading after our last word


async def either(
    first: Callable[[], Awaitable[Any]], second: Callable[[], Awaitable[Any]]
) -> Any:
    """Wait for two things, return what comes first, drop the other one."""
    came = []

    async def wait_for(what: Callable[[], Awaitable[Any]]) -> None:
        came.append(await what())
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for, first)
        tasks.start_soon(wait_for, second)
    return came[0]


async def talk_with(client: SocketStream, topics: Topics) -> None:
    """Wait for the client or for news, and do what is to be done."""
    conversation = Conversation(topics)

    async def command() -> bytes:
        with suppress(anyio.EndOfStream):
            return await client.receive()
        return b""

    with closing(conversation):
        while not conversation.is_over:
            came = await either(conversation.bell.wait, command)
            if came == b"":
                break
            if came is not None:
                conversation.receive(came)
            conversation.bell = anyio.Event()
            await client.send(conversation.output())
    await client.send_eof()
    # A socket that is closed with unread bytes in it is torn down, and
    # our last words with it. So read what still comes, and drop it.
    with anyio.move_on_after(FAREWELL_S):
        async for _ in client:
            pass


async def serve(client: SocketStream, topics: Topics) -> None:
    """Talk with one client, and keep what goes wrong in here."""
    async with client:
        try:
            await talk_with(client, topics)
        except* (anyio.BrokenResourceError, OSError):
            pass  # it has crashed, or its network: that's routine
        except* Exception as error:  # our mistake: we want to know
            traceback.print_exception(error)


async def main() -> None:
    """Serve every client in a task of its own, forever."""
    listener = await anyio.create_tcp_listener(
        local_host=HOST, local_port=PORT
    )
    topics = Topics()
    async with listener, anyio.create_task_group() as tasks:
        print("listening at", HOST, "port", PORT, flush=True)
        (door,) = listener.listeners  # one for each address: we have one
        while True:
            client = await door.accept()
            tasks.start_soon(serve, client, topics)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        anyio.run(main)
