"""A broker that serves many clients at once, until one of them crashes."""

import os
from contextlib import suppress

import anyio
from anyio.abc import SocketStream
from conversation import Conversation

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
FAREWELL_S = 1.0  # how long we go on reading from a client after our last word


async def talk_with(client: SocketStream) -> None:
    """Answer until one side has had enough."""
    conversation = Conversation()
    async for data in client:
        if replies := conversation.receive(data):
            await client.send(replies)
        if conversation.is_over:
            break
    await client.send_eof()
    # Closing a socket with unread bytes in it would tear the connection down, and our last words with it.
    with anyio.move_on_after(FAREWELL_S):
        async for _ in client:
            pass


async def main() -> None:
    """Serve every client in a task of its own, for ever."""
    listener = await anyio.create_tcp_listener(local_host=HOST, local_port=PORT)
    async with listener, anyio.create_task_group() as tasks:
        print("listening at", HOST, "port", PORT, flush=True)
        (door,) = listener.listeners  # one for each address of the host, and we have one
        while True:
            client = await door.accept()
            tasks.start_soon(talk_with, client)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        anyio.run(main)
