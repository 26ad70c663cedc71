"""Where the broker is: HOST:PORT, the `--connect` option, and a client that is connected there."""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from typing import NamedTuple

from zaichik.client.client import MOST_RECONNECT_SECONDS, RECONNECT_SECONDS, Client, connect
from zaichik.console import quantities
from zaichik_protocol import DEFAULT_PORT

VARIABLE = "ZAICHIK_CONNECT"
DEFAULT = f"127.0.0.1:{DEFAULT_PORT}"


class Address(NamedTuple):
    """A host's name or IP address, and a port of it."""

    host: str
    port: int

    def __str__(self) -> str:
        """As `address` reads it: an IPv6 host is in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name is resolved by then: hosts are numbers here."""
        return ip_address(self.host.partition("%")[0]).is_loopback


def address(text: str) -> Address:
    """The address that a text such as 127.0.0.1:8889 or [::1]:8889 means.

    Raises:
        argparse.ArgumentTypeError: it means none.
    """
    host, colon, number = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not host or not colon or (":" in host and not is_bracketed):
        raise argparse.ArgumentTypeError(f"{text!r} is no address; write HOST:PORT, such as {DEFAULT}")
    try:
        host.encode("idna")
    except UnicodeError:  # a label of more than 63 letters, or none, or letters that none may have
        raise _no_host(host) from None
    return Address(host[1:-1] if is_bracketed else host, port(number))


def _no_host(host: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{host!r} is no host's name")


def port(text: str) -> int:
    """The port that a text means.

    Raises:
        argparse.ArgumentTypeError: it means none.
    """
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it must be 0 to 65535")
    return int(text)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Give a command `--connect`."""
    parser.add_argument(
        "--connect",
        metavar="HOST:PORT",
        type=address,
        default=os.environ.get(VARIABLE) or DEFAULT,  # read by `address` as well, so it may be wrong, too
        help=f"the broker's address (default: the environment variable {VARIABLE}, else {DEFAULT})",
    )


def add_reconnect(parser: argparse.ArgumentParser) -> None:
    """Give a command that may take long `--reconnect`."""
    parser.add_argument(
        "--reconnect",
        metavar="DUR",
        type=_patience,
        default=RECONNECT_SECONDS,
        help="how long to look for the broker when the connection was lost: 0 to 5m (default: %(default)gs)",
    )


def _patience(text: str) -> float:
    seconds = quantities.duration(text)
    if seconds == "forever" or seconds > MOST_RECONNECT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is too long; later than 5m a broker may have forgotten us")
    return seconds


@asynccontextmanager
async def connected(arguments: argparse.Namespace, command: str) -> AsyncIterator[Client]:
    """A client at the address of `--connect`, under the name of the command. It reconnects if that is an option.

    Raises:
        argparse.ArgumentTypeError: no host can have that name.
    """
    host, port_number = arguments.connect
    reconnect: float = getattr(arguments, "reconnect", 0.0)
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(
                connect(host, port_number, name=f"zaichik {command}", reconnect=reconnect)
            )
        except UnicodeError:  # anyio's rules for letters that are not ASCII are those of today, Python's of 2003
            raise _no_host(host) from None
        yield client
