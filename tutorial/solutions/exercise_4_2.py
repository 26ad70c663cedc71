"""Exercise 4.2: an echo, in three lines."""

from anyio.abc import SocketStream


async def echo(client: SocketStream) -> None:
    """Send back every read, until the client has ended its side; then end ours."""
    async for data in client:
        await client.send(data)
    await client.send_eof()
