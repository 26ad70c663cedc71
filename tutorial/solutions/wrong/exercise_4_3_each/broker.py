"""My broker: what goes over its sockets."""

import math
import os
from contextlib import suppress

import anyio
from anyio.abc import SocketStream
from conversation import Conversation

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
FAREWELL_S = 1.0  # how long we go on reading after our last word
HELLO_S = 2.0  # how long a stranger may take to say Hello


async def talk_with(client: SocketStream) -> None:
    """Answer until one side has had enough."""
    conversation = Conversation()
    data = b"something"
    while data and not conversation.is_over:
        # Fails at: a byte now and then isn't a Hello
        data, patience = b"", math.inf if conversation.is_welcome else HELLO_S
        with anyio.move_on_after(patience), suppress(anyio.EndOfStream):
            data = await client.receive()
            await client.send(conversation.receive(data))
    await client.send_eof()
    # A socket that is closed with unread bytes in it is torn down, and
    # our last words with it. So read what still comes, and drop it.
    with anyio.move_on_after(FAREWELL_S):
        async for _ in client:
            pass


async def main() -> None:
    """Serve one client after the other, forever."""
    listener = await anyio.create_tcp_listener(local_host=HOST, local_port=PORT)
    async with listener:
        print("listening at", HOST, "port", PORT, flush=True)
        (door,) = listener.listeners  # one for each address: we have one
        while True:
            client = await door.accept()
            with suppress(anyio.BrokenResourceError, OSError):
                async with client:
                    await talk_with(client)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        anyio.run(main)
