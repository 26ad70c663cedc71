"""One connection to the broker for each user: made for the first request, kept, and made again.

Rules, shares and limits are the broker's: it sees what all programs of a user do here as one client
of that user. Without access control, they are all one client (LAG-5).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus

from zaichik import AuthFailed, BrokerError, Client, ConnectionLost, Endpoint, ZaichikError, connect
from zaichik.apps.web.topics.producers import Producers

RECONNECT_S = 60.0  # for as long, the client itself goes on where it was
# Of a failure to connect: as long, all who ask are told of it, and nobody tries again.
FAILED_S = 0.5
REFUSED_S = 5.0  # a refused login slows down every client on this machine
LAST_FATAL = 63  # of the protocol's codes


class Line:
    """A connection, and the numbers of what is published over it.

    Attributes:
        client: publishes and reads.
        producers: number what is published.
        is_lost: whether it is lost for good.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.producers = Producers(client)
        self.is_lost = False


class Link:
    """A user's connection to the broker.

    Args:
        endpoint: the broker, with the user's credentials.
        tasks: the connection lives there.
        turn: held while connecting, see `Hub`.
    """

    def __init__(self, endpoint: Endpoint, tasks: TaskGroup, turn: anyio.Lock) -> None:
        self._endpoint = endpoint
        self._tasks = tasks
        self._turn = turn
        self._line: Line | None = None
        self._end = anyio.Event()
        self._failure: ZaichikError | None = None
        self._again_at = 0.0

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Line]:
        """Returns the connection for what is done in the block.

        Raises:
            ZaichikError: there is none.
        """
        line = await self._connected()
        try:
            yield line
        except ConnectionLost:
            line.is_lost = True
            raise
        except BrokerError as refusal:
            # The broker does not want this connection, which does not come back by itself.
            if refusal.code <= LAST_FATAL:
                line.is_lost = True
            raise

    async def _connected(self) -> Line:
        # Without the turn: another user's login may hold it for seconds.
        if self._line is not None and not self._line.is_lost:
            return self._line
        async with self._turn:
            if self._line is not None and not self._line.is_lost:
                return self._line
            if self._failure and anyio.current_time() < self._again_at:
                raise self._failure.with_traceback(None)
            self.close()
            self._end = anyio.Event()
            try:
                self._line = await self._tasks.start(self._hold, self._end)
            except ZaichikError as failure:
                seconds = FAILED_S
                if isinstance(failure, AuthFailed):
                    seconds = REFUSED_S
                self._failure = failure
                self._again_at = anyio.current_time() + seconds
                raise
            return self._line

    async def _hold(self, end: anyio.Event, *, task_status: TaskStatus[Line]) -> None:
        async with connect(
            self._endpoint, name="zaichik web topics", reconnect=RECONNECT_S
        ) as client:
            task_status.started(Line(client))
            await end.wait()

    def close(self) -> None:
        """End the connection; the next request makes another one."""
        self._end.set()
        self._line = None
