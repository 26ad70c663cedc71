"""Health and reflection, which need no login: no address can hold all calls with them.

A call of either may last for ever, and calls are bounded (`gateway.MOST_CALLS`). So those that last
have a part of the calls, of which an address may have as many as are free. Asking once for the
health is answered in any case.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from grpc import StatusCode, aio
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from zaichik.apps.grpc.logins import address_of
from zaichik.apps.users.shares import Shares
from zaichik.net.peers import client_of

# At a time, of health and reflection together.
MOST_CALLS = 64

Context: TypeAlias = aio.ServicerContext[Any, Any]


class Unasked:
    """The calls without a login that last."""

    def __init__(self) -> None:
        self._shares = Shares(MOST_CALLS)

    async def check_room(self, context: Context) -> None:
        """End a call for which there is no room.

        Raises:
            BaseError: it is ended; the exception is for gRPC.
        """
        if not self._shares.may_take(_address_of(context)):
            problem = "too many calls of health and reflection are open; end one, or try later"
            await context.abort(StatusCode.RESOURCE_EXHAUSTED, problem)

    @contextmanager
    def taking(self, context: Context) -> Iterator[None]:
        """Count a call for the length of the block."""
        address = _address_of(context)
        self._shares.take(address)
        try:
            yield
        finally:
            self._shares.give_back(address)


def _address_of(context: Context) -> str:
    """Returns the address of a caller; one name for all that have none."""
    return client_of(address_of(context.peer())) or "unknown"


class Health(health.aio.HealthServicer):  # type: ignore[misc]  # it has no types
    """Tells whether the broker answers.

    Args:
        unasked: see there.
    """

    def __init__(self, unasked: Unasked) -> None:
        super().__init__()
        self._unasked = unasked

    async def Watch(self, request: Any, context: Context) -> None:  # noqa: N802 - gRPC's name
        """Tell it now, and whenever it changes."""
        await self._unasked.check_room(context)
        with self._unasked.taking(context):
            await super().Watch(request, context)


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc]  # it has no types
    """Tells the declaration of the service.

    Args:
        names: of all services.
        unasked: see there.
    """

    def __init__(self, names: tuple[str, ...], unasked: Unasked) -> None:
        super().__init__(names)
        self._unasked = unasked

    async def ServerReflectionInfo(  # noqa: N802
        self, requests: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[Any]:
        """Answer each question."""
        await self._unasked.check_room(context)
        with self._unasked.taking(context):
            async for response in super().ServerReflectionInfo(requests, context):
                yield response
