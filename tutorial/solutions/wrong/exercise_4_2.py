"""One read is answered, and not every read: chapter 01's mistake, with await.

Fails at: a long story comes back, whole
"""

from anyio.abc import SocketStream


async def echo(client: SocketStream) -> None:
    """Send back the first read."""
    await client.send(await client.receive())
    await client.send_eof()
