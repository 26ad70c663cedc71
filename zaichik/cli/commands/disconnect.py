"""`zaichik disconnect`: ends another client's connection.

End a client's connection to the broker. The client is told why, and may connect again; zaichik's
own clients do, and retry what was not answered. Requests that the broker has not carried out yet
are dropped.

Examples:
  zaichik describe --connections             # every connection, with its number
  zaichik disconnect 17
"""

from rich.console import Console

from zaichik.cli import connecting
from zaichik.cli.arguments import Namespace, argument, within

_number = within(
    lambda text: int(text) if text.isascii() and text.isdecimal() else 0,
    lambda number: 0 < number < 2**64,
    "{} is not the number of a connection; see: zaichik describe --connections",
)
ARGUMENTS = (
    argument("CONNECTION", "its number; see: zaichik describe --connections", _number),
    connecting.ADDRESS,
)


async def run(arguments: Namespace, console: Console) -> None:
    """End the connection and confirm it."""
    async with connecting.connected(arguments, "disconnect") as client:
        with connecting.required(client, "end connections"):
            await client.disconnect(arguments.connection)
    console.print(f"connection {arguments.connection}: disconnected")
