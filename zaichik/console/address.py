"""The broker's address: HOST:PORT, the `--connect` option, and a client connected there."""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from typing import NamedTuple

from zaichik.client.client import MOST_RECONNECT_SECONDS, RECONNECT_SECONDS, Client, connect
from zaichik.client.endpoint import NotAnAddress, endpoint
from zaichik.client.endpoint import port as parse_port
from zaichik.console import quantities
from zaichik_protocol import DEFAULT_PORT

VARIABLE = "ZAICHIK_CONNECT"
DEFAULT = f"127.0.0.1:{DEFAULT_PORT}"


class Address(NamedTuple):
    """A host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Returns the form that `address` parses, with an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. The host must be an IP address, not a name."""
        return ip_address(self.host.partition("%")[0]).is_loopback


def address(text: str) -> Address:
    """Parses an address such as 127.0.0.1:8889 or [::1]:8889.

    Raises:
        argparse.ArgumentTypeError: it is not an address, or one for TLS or with a login.
    """
    try:
        found = endpoint(text)
    except NotAnAddress as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found.is_encrypted or found.credentials:
        raise argparse.ArgumentTypeError(f"{found} is an address for TLS or a login; here it must be HOST:PORT")
    return Address(found.host, found.port)


def port(text: str) -> int:
    """Parses a port.

    Raises:
        argparse.ArgumentTypeError: it is not a port.
    """
    try:
        return parse_port(text)
    except NotAnAddress as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--connect` to a command."""
    parser.add_argument(
        "--connect",
        metavar="HOST:PORT",
        type=address,
        default=os.environ.get(VARIABLE) or DEFAULT,  # parsed by `address`, too, so it may be wrong
        help=f"the broker's address (default: the environment variable {VARIABLE}, else {DEFAULT})",
    )


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
    host, port_number = arguments.connect
    reconnect: float = getattr(arguments, "reconnect", 0.0)
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(
                connect(host, port_number, name=f"zaichik {command}", reconnect=reconnect)
            )
        except (
            UnicodeError
        ):  # for non-ASCII letters, anyio goes by stricter rules (IDNA 2008) than Python's codec above
            raise argparse.ArgumentTypeError(f"{host!r} is not a host name") from None
        yield client
