"""`zaichik disconnect`: ends another client's connection."""

import argparse

from rich.console import Console

from zaichik.client.errors import Unsupported
from zaichik.console import connecting
from zaichik.console.failure import Failure

DESCRIPTION = """\
End a client's connection to the broker. The client is told why, and may connect again; zaichik's own clients do, and
retry what was not answered. Requests that the broker has not carried out yet are dropped.
"""

EPILOG = """\
examples:
  zaichik describe --connections             # every connection, with its number
  zaichik disconnect 17
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `zaichik disconnect`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "connection", metavar="CONNECTION", type=_number, help="its number; see: zaichik describe --connections"
    )
    connecting.add_option(parser)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 2**64):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of a connection; see: zaichik describe --connections"
        )
    return int(text)


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """End the connection and confirm it."""
    async with connecting.connected(arguments, "disconnect") as client:
        try:
            await client.disconnect(arguments.connection)
        except Unsupported:
            raise Failure(f"{client.welcome.broker} is too old to end connections") from None
    console.print(f"connection {arguments.connection}: disconnected")
    return 0
