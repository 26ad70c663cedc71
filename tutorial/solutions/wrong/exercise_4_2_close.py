"""The end of our side is left to whoever closes the socket, and may come late or never.

Fails at: a word comes back, and then the end
"""

from anyio.abc import SocketStream


async def echo(client: SocketStream) -> None:
    """Send back every read."""
    async for data in client:
        await client.send(data)
