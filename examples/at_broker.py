"""How an example finds a broker: it starts one of its own, or uses a running one with `--connect HOST:PORT`."""

import argparse
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import zaichik

Address = tuple[str, int]


def arguments(lesson: str | None) -> argparse.ArgumentParser:
    """The command line that all examples share; `lesson` is the example's docstring, shown by `--help`."""
    parser = argparse.ArgumentParser(description=lesson, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--connect", type=_address, metavar="HOST:PORT", help="use this broker (default: start one just for the lesson)"
    )
    return parser


@asynccontextmanager
async def at_broker(
    address: Address | None, clock: zaichik.Clock | None = None, needs: str = "a request"
) -> AsyncIterator[zaichik.Client]:
    """A client at the broker of that address; if there is none, at a new broker that lives as long as the block.

    `clock` is the clock of the new broker. A running broker has a clock already, and nobody else can move it.
    `needs` is the optional part of the protocol that the example uses, if any. A broker without it is reported in a
    sentence, and so is an address without a broker.
    """
    if address is not None:
        try:
            async with zaichik.connect(*address) as client:
                yield client
        except zaichik.Unsupported as error:
            raise SystemExit(f"This broker does not offer {needs} that the example needs. It says: {error}") from None
        except zaichik.ConnectFailed as error:
            raise SystemExit(str(error)) from None
    else:
        async with zaichik.running_broker(clock=clock) as broker, zaichik.connect(port=broker.port) as client:
            yield client


def fresh(name: str) -> str:
    """A topic name that nobody has used, "echo-5f3a09c1".

    Topics stay until their broker stops. With a fixed name, the second run of an example would find what the
    first has left.
    """
    return f"{name}-{secrets.token_hex(4)}"


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:8889")
    return host.strip("[]"), int(port)
