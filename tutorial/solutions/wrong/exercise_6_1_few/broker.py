"""My broker: what goes over its sockets."""

import os
import traceback
from contextlib import closing, suppress

import anyio
from anyio.abc import (
    ObjectReceiveStream,
    ObjectSendStream,
    SocketStream,
)
from conversation import Conversation
from topics import Topics

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
FAREWELL_S = 1.0  # how long we go on reading after our last word
# Fails at: a reader for whom fewer wait gets them all
MOST = 100  # frames that wait for a client


class Mailbox:
    """What waits to be sent to a client. If it's too much, that's it."""

    def __init__(self, queue: ObjectSendStream[bytes], scope: anyio.CancelScope) -> None:
        self._queue = queue
        self._scope = scope  # of the client's tasks

    def put(self, frame: bytes) -> None:
        """Send a frame as soon as the client takes it."""
        try:
            self._queue.send_nowait(frame)
        except anyio.WouldBlock:
            self._scope.cancel()


async def write(client: SocketStream, queue: ObjectReceiveStream[bytes]) -> None:
    """Send what comes out of a client's queue, until its other end closes."""
    async for frames in queue:
        await client.send(frames)
    await client.send_eof()


async def talk_with(client: SocketStream, topics: Topics) -> None:
    """Answer until one side has had enough."""
    queue, other_end = anyio.create_memory_object_stream[bytes](MOST)
    async with anyio.create_task_group() as tasks:
        mailbox = Mailbox(queue, tasks.cancel_scope)
        conversation = Conversation(topics, mailbox)
        tasks.start_soon(write, client, other_end)
        with queue, closing(conversation):
            async for data in client:
                mailbox.put(conversation.receive(data))
                for reader, frame in conversation.take_deliveries():
                    reader.put(frame)
                if conversation.is_over:
                    break
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
            pass  # it has crashed, or its network: that's everyday
        except* Exception as error:  # our mistake: we want to know
            traceback.print_exception(error)


async def main() -> None:
    """Serve every client in a task of its own, forever."""
    listener = await anyio.create_tcp_listener(local_host=HOST, local_port=PORT)
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
