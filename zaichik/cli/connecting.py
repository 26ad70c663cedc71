"""The broker that a command talks to: the `--connect` option, and a client connected there.

Or the cluster that has the command's topic: the `--cluster` option.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from os import environ
from typing import TYPE_CHECKING, TypeVar

from zaichik.cli import quantities
from zaichik.cli.arguments import Namespace, WrongUsage, argument, one_of, within
from zaichik.cli.failure import Failure, restated
from zaichik.client.client import MOST_RECONNECT_SECONDS, RECONNECT_SECONDS, Client, connect
from zaichik.client.endpoint import Endpoint, NotAnAddress
from zaichik.client.errors import Unsupported, ZaichikError
from zaichik.client.logins import DEFAULT, VARIABLE, UnusableLogin, chosen

if TYPE_CHECKING:
    from zaichik.client.cluster.cluster import Cluster

Opened = TypeVar("Opened")

NOT_GIVEN = "the one of the environment"


def chosen_address(text: str) -> Endpoint:
    """Returns the address of a `--connect`, or what counts where it was not given.

    Raises:
        WrongUsage: it is none, or has a secret in it; or a file with a login cannot be used.
    """
    where = ""
    if text is NOT_GIVEN and environ.get(VARIABLE):
        where = f"not given, and {VARIABLE} says: "
    with restated(NotAnAddress, UnusableLogin, by=lambda error: WrongUsage(f"{where}{error}")):
        return chosen(None if text is NOT_GIVEN else text)


_patience = within(
    quantities.duration,
    lambda time: time != "forever" and time <= MOST_RECONNECT_SECONDS,
    "{} is longer than 5m: by then, a broker may have forgotten what it stored",
)
ADDRESS = argument(
    "--connect ADDRESS",
    "the broker: HOST:PORT, or with TLS zaichiks://HOST:PORT (default: the environment variable "
    f"{VARIABLE}, else where `zaichik login` has logged in, else {DEFAULT})",
    chosen_address,
    default=NOT_GIVEN,
)
CLUSTER = argument(
    "--cluster ADDRESS",
    "instead: any broker of a cluster, which tells where the topic is",
    chosen_address,
)
# For commands about one topic, and those that can ask all shards.
PLACE = one_of(ADDRESS, CLUSTER)
RECONNECT = argument(
    "--reconnect DUR",
    "how long to try to reconnect after the connection was lost: 0 to 5m",
    _patience,
    default=f"{RECONNECT_SECONDS:g}s",
)


@contextmanager
def required(
    client: Client, does: str, refusal: type[ZaichikError] = Unsupported
) -> Iterator[None]:
    """A broker that does not know the block's request is too old for it, or leaves it out."""
    problem = f"the broker ({client.welcome.broker}) is too old to {does}, or leaves that out"
    with restated(refusal, by=lambda _: Failure(problem)):
        yield


@asynccontextmanager
async def connected(
    arguments: Namespace, command: str, topic: str | None = None
) -> AsyncIterator[Client]:
    """Returns a client of the broker at `--connect`, named after the command.

    With `--reconnect`, it reconnects. With `--cluster`, it is the client of the topic's shard.

    Args:
        arguments: the command's.
        command: its name.
        topic: what it is about, if it takes `--cluster`.

    Raises:
        WrongUsage: no host can have this name.
    """
    if topic is not None and getattr(arguments, "cluster", None) is not None:
        async with in_cluster(arguments, command) as whole:
            yield await whole.client(topic)
        return
    endpoint: Endpoint = arguments.connect
    opening = connect(endpoint, name=f"zaichik {command}", reconnect=_patience_of(arguments))
    async with _entered(opening, endpoint) as client:
        yield client


@asynccontextmanager
async def in_cluster(arguments: Namespace, command: str) -> AsyncIterator["Cluster"]:
    """Returns a client of the cluster at `--cluster`, named after the command.

    Raises:
        WrongUsage: no host can have this name.
    """
    # Most commands have one broker, and start sooner without this.
    from zaichik.client.cluster.cluster import cluster

    endpoint: Endpoint = arguments.cluster
    opening = cluster(endpoint, name=f"zaichik {command}", reconnect=_patience_of(arguments))
    async with _entered(opening, endpoint) as whole:
        yield whole


def _patience_of(arguments: Namespace) -> float:
    seconds: float = getattr(arguments, "reconnect", 0.0)
    return seconds


@asynccontextmanager
async def _entered(
    opening: AbstractAsyncContextManager[Opened], endpoint: Endpoint
) -> AsyncIterator[Opened]:
    async with AsyncExitStack() as stack:
        try:
            opened = await stack.enter_async_context(opening)
        except UnicodeError:  # anyio goes by stricter rules (IDNA 2008) than Python's codec
            raise WrongUsage(f"{endpoint.host!r} is not a host name") from None
        yield opened
