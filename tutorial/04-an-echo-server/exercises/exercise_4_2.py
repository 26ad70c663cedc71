"""Exercise 4.2: an echo, in three lines.

The smallest server there is sends back what it reads. Write the part that talks with one client.
"""

from anyio.abc import SocketStream


async def echo(client: SocketStream) -> None:
    """Send back every read, until the client has ended its side; then end ours."""
    raise NotImplementedError("this is yours to write")
