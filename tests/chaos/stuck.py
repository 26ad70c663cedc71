"""Peers with whom nothing moves: readers that never read, publishers that never read their replies,
half frames.
"""

from contextlib import AsyncExitStack

import anyio
from rude import HELLO, greeted, send_for_ever

import zaichik
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import Batch, Ping, Publish, Subscribe, encode

_TOPIC = "stuck"


async def stuck_peers(port: int, stack: AsyncExitStack) -> None:
    """Have them as long as the stack: with full sockets, in the middle of a frame, in the middle of
    a Hello.
    """
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    flood = encode(Publish(9, _TOPIC, Batch.of_columns([b""], [bytes(100_000)])))
    for _ in range(3):
        reader = await stack.enter_async_context(greeted(port))
        await reader.send(encode(Subscribe(2, _TOPIC, credit=100_000, credit_bytes=2**30)))
    async with zaichik.connect(port=port) as client:
        while (await client.describe())["subscriptions"] < 3:
            pass
        for _ in range(200):  # more than sockets hold
            await client.publish(_TOPIC, bytes(100_000))
    for data in (flood, encode(Ping(8, 8)) * 1000):
        stream = await stack.enter_async_context(greeted(port))
        tasks.start_soon(send_for_ever, stream, data)
    half = await stack.enter_async_context(greeted(port))
    await half.send(flood[:5000])
    silent = await stack.enter_async_context(await SocketStream.connect("127.0.0.1", port))
    await silent.send(HELLO[:5])
