"""A broker that is already running, which learn did not start."""

from contextlib import AbstractAsyncContextManager, suppress

import anyio

from zaichik.learn.failure import Skipped
from zaichik.learn.layouts import ERROR_CODES
from zaichik.learn.runner import ServerError
from zaichik.learn.trial import Instance, Restartable, Target
from zaichik.learn.wire import BadFrame, encode, parse, take_frame

LOGIN_REQUIRED = "this broker requires a login; without --connect, chapters run their own"
PATIENCE_S = 1.0  # a broker answers within milliseconds; one that doesn't answer is checked, too
_REQUIRING = {ERROR_CODES["AUTH_FAILED"], ERROR_CODES["TLS_REQUIRED"]}


async def requires_login(target: Target) -> bool:
    """Whether the broker refuses a Hello because it lacks a login, or TLS, which comes first."""
    received = bytearray()
    with (
        anyio.move_on_after(PATIENCE_S),
        suppress(OSError, BadFrame, anyio.EndOfStream, anyio.BrokenResourceError),
    ):
        async with await anyio.connect_tcp(target.host, target.port) as stream:
            await stream.send(encode("Hello", frame_id=1))
            while (data := take_frame(received)) is None:
                received += await stream.receive()
            frame = parse(data)
            return frame.name == "Error" and frame["code"] in _REQUIRING
    return False


class ExternalBroker:
    """A host that cannot start or stop anything.

    Args:
        target: where the broker listens.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    @classmethod
    async def to(cls, target: Target) -> "ExternalBroker":
        """A host for the broker there.

        Raises:
            ServerError: it requires a login.
        """
        if await requires_login(target):
            raise ServerError(LOGIN_REQUIRED)
        return cls(target)

    async def ready(self) -> Target:
        """Where it should be listening; the checks will find out whether it is."""
        return self._target

    async def post_mortem(self) -> tuple[str, str]:
        """Nothing: neither its end nor its output is known."""
        return "", ""

    def start_restartable(self) -> AbstractAsyncContextManager[Restartable]:
        """There is only this one.

        Raises:
            Skipped: always.
        """
        raise Skipped("this needs a server that learn can restart itself, from a learn.toml")

    def start_fresh(self) -> AbstractAsyncContextManager[Instance]:
        """There is only this one.

        Raises:
            Skipped: always.
        """
        raise Skipped("this needs a server that learn can start itself, from a learn.toml")
