"""My broker: what goes over its sockets."""

import os
import sys
import traceback
from contextlib import closing, suppress

import anyio
from anyio.abc import SocketStream
from clock import now_us
from conversation import Conversation
from topics import Topics

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
FAREWELL_S = 1.0  # how long we go on reading after our last word
# How long a client may take nothing of what we send.
PATIENCE_S = float(os.environ.get("PATIENCE", "10"))


async def write(client: SocketStream, conversation: Conversation) -> None:
    """Send whatever there is to send, until there will be no more."""
    while True:
        if output := conversation.output():
            with anyio.fail_after(PATIENCE_S):
                await client.send(output)
        elif conversation.is_over:
            break
        else:
            await conversation.bell.wait()
            conversation.bell = anyio.Event()
    await client.send_eof()


async def read(client: SocketStream, conversation: Conversation) -> None:
    """Hear what the client says, until it has no more to say."""
    with closing(conversation):
        async for data in client:
            conversation.receive(data)
            await conversation.has_room()


async def talk_with(client: SocketStream, topics: Topics) -> None:
    """Read and write beside each other, and end in order."""
    conversation = Conversation(topics)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, client, conversation)
        await write(client, conversation)
        # A socket that is closed with unread bytes in it is torn down, and
        # our last words with it. So we go on reading for a while.
        tasks.cancel_scope.deadline = anyio.current_time() + FAREWELL_S


async def serve(client: SocketStream, topics: Topics) -> None:
    """Talk with one client, and keep what goes wrong in here."""
    async with client:
        try:
            await talk_with(client, topics)
        except* TimeoutError:
            why = f"slow: it has taken nothing for {PATIENCE_S:g} s"
            print("a client was given up,", why, file=sys.stderr)
        except* (anyio.BrokenResourceError, OSError):
            pass  # it has crashed, or its network: that's everyday
        except* Exception as error:  # our mistake: we want to know
            traceback.print_exception(error)


async def sweep(topics: Topics) -> None:
    """Once a second, free what nobody will read."""
    while True:
        await anyio.sleep(1)
        for topic in topics.values():
            topic.sweep(now_us())


async def main() -> None:
    """Serve every client in a task of its own, forever."""
    listener = await anyio.create_tcp_listener(local_host=HOST, local_port=PORT)
    topics = Topics()
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(sweep, topics)
        print("listening at", HOST, "port", PORT, flush=True)
        (door,) = listener.listeners  # one for each address: we have one
        while True:
            client = await door.accept()
            tasks.start_soon(serve, client, topics)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        anyio.run(main)
