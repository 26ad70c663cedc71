"""The broker that a command talks to: the `--connect` option, and a client connected there."""

import argparse
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from os import environ

from zaichik.client.client import MOST_RECONNECT_SECONDS, RECONNECT_SECONDS, Client, connect
from zaichik.client.endpoint import Endpoint, NotAnAddress
from zaichik.client.logins import DEFAULT, VARIABLE, UnusableLogin, chosen
from zaichik.console import quantities

NOT_GIVEN = "the one of the environment"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--connect` to a command. Its value is an `Endpoint`, with credentials if there are any."""
    parser.add_argument(
        "--connect",
        metavar="ADDRESS",
        type=_chosen,
        default=NOT_GIVEN,
        help="the broker: HOST:PORT, or with TLS zaichiks://HOST:PORT (default: the environment variable "
        f"{VARIABLE}, else where `zaichik login` has logged in, else {DEFAULT})",
    )


def _chosen(text: str) -> Endpoint:
    try:
        return chosen(None if text is NOT_GIVEN else text)
    except (NotAnAddress, UnusableLogin) as error:
        where = f"not given, and {VARIABLE} says: " if text is NOT_GIVEN and environ.get(VARIABLE) else ""
        raise argparse.ArgumentTypeError(f"{where}{error}") from None


def add_reconnect(parser: argparse.ArgumentParser) -> None:
    """Add `--reconnect` to a command that may run for long."""
    parser.add_argument(
        "--reconnect",
        metavar="DUR",
        type=_patience,
        default=RECONNECT_SECONDS,
        help="how long to try to reconnect after the connection was lost: 0 to 5m (default: %(default)gs)",
    )


def _patience(text: str) -> float:
    seconds = quantities.duration(text)
    if seconds == "forever" or seconds > MOST_RECONNECT_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is longer than 5m: by then, a broker may have forgotten what it stored"
        )
    return seconds


@asynccontextmanager
async def connected(arguments: argparse.Namespace, command: str) -> AsyncIterator[Client]:
    """Returns a client of the broker at `--connect`, named after the command; with `--reconnect`, it reconnects.

    Raises:
        argparse.ArgumentTypeError: no host can have this name.
    """
    endpoint: Endpoint = arguments.connect
    reconnect: float = getattr(arguments, "reconnect", 0.0)
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(connect(endpoint, name=f"zaichik {command}", reconnect=reconnect))
        except UnicodeError:  # anyio goes by stricter rules (IDNA 2008) than Python's codec
            raise argparse.ArgumentTypeError(f"{endpoint.host!r} is not a host name") from None
        yield client
