"""A broker that runs already, whoever started it."""

from contextlib import AbstractAsyncContextManager, suppress

import anyio

from zaichik.learn.failure import Skipped
from zaichik.learn.layouts import ERROR_CODES
from zaichik.learn.runner import ServerTrouble
from zaichik.learn.trial import Instance, Restartable, Target
from zaichik.learn.wire import BadFrame, encode, parse, take_frame

LOGIN_ASKED = "this broker asks for a login; the chapters run brokers of their own: leave --connect out"
PATIENCE_S = 1.0  # a broker answers within milliseconds, and one that does not answer yet is to be checked, too
_ASKING = {ERROR_CODES["AUTH_FAILED"], ERROR_CODES["TLS_REQUIRED"]}


async def asks_for_login(target: Target) -> bool:
    """Whether a Hello without a login is refused for want of one, or of TLS, which comes before it."""
    received = bytearray()
    with anyio.move_on_after(PATIENCE_S), suppress(OSError, BadFrame, anyio.EndOfStream, anyio.BrokenResourceError):
        async with await anyio.connect_tcp(target.host, target.port) as stream:
            await stream.send(encode("Hello", frame_id=1))
            while (data := take_frame(received)) is None:
                received += await stream.receive()
            frame = parse(data)
            return frame.name == "Error" and frame["code"] in _ASKING
    return False


class Connected:
    """A host that can neither start nor end anything.

    Args:
        target: where the broker listens.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    @classmethod
    async def to(cls, target: Target) -> "Connected":
        """A host for the broker there.

        Raises:
            ServerTrouble: it does not talk to just anybody.
        """
        if await asks_for_login(target):
            raise ServerTrouble(LOGIN_ASKED)
        return cls(target)

    async def ready(self) -> Target:
        """Where it listens; whether it does, checks will tell."""
        return self._target

    async def aftermath(self) -> tuple[str, str]:
        """Nothing is known of its end, nor of what it writes."""
        return "", ""

    def restartable(self) -> AbstractAsyncContextManager[Restartable]:
        """There is only this one.

        Raises:
            Skipped: always.
        """
        raise Skipped("this needs a server that learn starts itself, and again, by a learn.toml")

    def fresh(self) -> AbstractAsyncContextManager[Instance]:
        """There is only this one.

        Raises:
            Skipped: always.
        """
        raise Skipped("this needs a server that learn starts itself, by a learn.toml")
