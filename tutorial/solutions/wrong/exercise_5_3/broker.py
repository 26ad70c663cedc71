"""My broker: what goes over its sockets."""

import os
import traceback
from contextlib import suppress

import anyio
from anyio.abc import SocketStream
from conversation import Conversation

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
FAREWELL_S = 1.0  # how long we go on reading after our last word


async def talk_with(client: SocketStream) -> None:
    """Answer until one side has had enough."""
    conversation = Conversation()
    async for data in client:
        await client.send(conversation.receive(data))
        if conversation.is_over:
            break
    await client.send_eof()
    # A socket that is closed with unread bytes in it is torn down, and
    # our last words with it. So read what still comes, and drop it.
    with anyio.move_on_after(FAREWELL_S):
        async for _ in client:
            pass


async def serve(client: SocketStream) -> None:
    """Talk with one client, and keep what goes wrong in here."""
    async with client:
        try:
            await talk_with(client)
        except (anyio.BrokenResourceError, OSError):
            pass  # it has crashed, or its network: that's everyday
        except Exception as error:  # our mistake: we want to know
            traceback.print_exception(error)


async def main() -> None:
    """Serve every client in a task of its own, forever."""
    listener = await anyio.create_tcp_listener(local_host=HOST, local_port=PORT)
    async with listener, anyio.create_task_group() as tasks:
        print("listening at", HOST, "port", PORT, flush=True)
        (door,) = listener.listeners  # one for each address: we have one
        # Fails at: a newcomer is served as soon as somebody leaves
        with suppress(OSError):
            while True:
                client = await door.accept()
                tasks.start_soon(serve, client)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        anyio.run(main)
