"""The broker that a command talks to: the `--connect` option, and a client connected there."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from os import environ

from zaichik.cli import quantities
from zaichik.cli.arguments import Namespace, WrongUsage, argument, within
from zaichik.cli.failure import Failure, restated
from zaichik.client.client import MOST_RECONNECT_SECONDS, RECONNECT_SECONDS, Client, connect
from zaichik.client.endpoint import Endpoint, NotAnAddress
from zaichik.client.errors import Unsupported, ZaichikError
from zaichik.client.logins import DEFAULT, VARIABLE, UnusableLogin, chosen

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
    """A broker that does not know the block's request is too old for it."""
    with restated(
        refusal, by=lambda _: Failure(f"the broker ({client.welcome.broker}) is too old to {does}")
    ):
        yield


@asynccontextmanager
async def connected(arguments: Namespace, command: str) -> AsyncIterator[Client]:
    """Returns a client of the broker at `--connect`, named after the command.

    With `--reconnect`, it reconnects.

    Raises:
        WrongUsage: no host can have this name.
    """
    endpoint: Endpoint = arguments.connect
    reconnect: float = getattr(arguments, "reconnect", 0.0)
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(
                connect(endpoint, name=f"zaichik {command}", reconnect=reconnect)
            )
        except UnicodeError:  # anyio goes by stricter rules (IDNA 2008) than Python's codec
            raise WrongUsage(f"{endpoint.host!r} is not a host name") from None
        yield client
