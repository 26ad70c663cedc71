"""My broker: what goes over its sockets."""

import os
import signal
import traceback
from contextlib import closing

import anyio
from anyio.abc import SocketStream
from clock import now_us
from conversation import Conversation
from topics import Topics

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
FAREWELL_S = 1.0  # how long we go on reading after our last word
STOP_S = 3.0  # how long we wait for clients when we are told to stop
PATIENCE_S = 10.0  # how long one send may take


async def write(client: SocketStream, conversation: Conversation) -> None:
    """Send whatever there is to send, until there will be no more."""
    while True:
        if output := conversation.output():
            with anyio.fail_after(PATIENCE_S):
                await client.send(output)
        elif conversation.is_over:
            break
        elif conversation.is_stopping:
            await client.send(conversation.farewell())
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


async def talk_with(client: SocketStream, conversation: Conversation) -> None:
    """Read and write beside each other, and end in order."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, client, conversation)
        await write(client, conversation)
        # A socket that is closed with unread bytes in it is torn down, and
        # our last words with it. So we go on reading for a while.
        tasks.cancel_scope.deadline = anyio.current_time() + FAREWELL_S


async def serve(
    client: SocketStream, topics: Topics, everybody: set[Conversation]
) -> None:
    """Talk with one client, and keep what goes wrong in here."""
    conversation = Conversation(topics)
    everybody.add(conversation)
    async with client:
        try:
            await talk_with(client, conversation)
        except* (anyio.BrokenResourceError, OSError):
            pass  # it has crashed, or its network: that's routine
        except* Exception as error:  # our mistake: we want to know
            traceback.print_exception(error)
        finally:
            everybody.discard(conversation)


async def sweep(topics: Topics) -> None:
    """Once a second, free what nobody will read."""
    while True:
        await anyio.sleep(1)
        for topic in topics.values():
            topic.sweep(now_us())


async def stop_when_told(accepting: anyio.CancelScope) -> None:
    """Ctrl-C is one signal, SIGTERM another one; both mean the same."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            accepting.cancel()


async def main() -> None:
    """Serve every client in a task of its own, until we are told to stop."""
    listener = await anyio.create_tcp_listener(
        local_host=HOST, local_port=PORT
    )
    topics, everybody = Topics(), set[Conversation]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sweep, topics)
        with anyio.CancelScope() as accepting:
            tasks.start_soon(stop_when_told, accepting)
            async with listener:
                print("listening at", HOST, "port", PORT, flush=True)
                (door,) = listener.listeners  # we have one address
                while True:
                    client = await door.accept()
                    tasks.start_soon(serve, client, topics, everybody)
        for conversation in everybody:
            conversation.stop()
        with anyio.move_on_after(STOP_S):
            while everybody:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
