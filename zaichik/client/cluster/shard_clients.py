"""A client for each shard that the program uses, made when it is used first.

Each is a client as any other: it reconnects, numbers its batches and resumes its subscriptions by
itself. Only its dialer is told by the map where the shard is. So what concerns one shard waits
while that is away, and nothing else does.

A client whose connection was lost for good is replaced by the next call that needs one. What waited
has failed by then, so that nobody counts on its numbers any more.
"""

# Not compiled: it runs once for each shard.

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from copy import copy

import anyio
from anyio.abc import TaskGroup

from zaichik.client.backoff import backoff
from zaichik.client.client import Client
from zaichik.client.cluster.known_map import KnownMap
from zaichik.client.cluster.shard_dialer import ShardDialer
from zaichik.client.errors import ConnectFailed, ZaichikError
from zaichik.client.transport import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.wakeup import Wakeup

Dial = Callable[[int], ShardDialer]
Connect = Callable[[ShardDialer], AbstractAsyncContextManager[Client]]


class ShardClients:
    """The clients of the shards.

    Args:
        known: where shards are.
        dial: returns a dialer for a shard.
        connect: returns a client with that dialer, for as long as its block lasts.
        tasks: in which they live.
        patience: seconds to keep trying to reach a shard for the first time.
    """

    def __init__(
        self, known: KnownMap, dial: Dial, connect: Connect, tasks: TaskGroup, patience: float
    ) -> None:
        self._dial = dial
        self._connect = connect
        self._tasks = tasks
        self._patience = patience
        self._by_shard: dict[int, _ShardClient] = {}
        known.on_move(self._moved)

    async def client(self, shard: int) -> Client:
        """Returns the client of a shard.

        Raises:
            ConnectFailed: the shard could not be reached in time.
            BrokerError: it refused to serve this client.
        """
        held = self._by_shard.get(shard)
        if held is not None and held.is_usable:
            return held.client
        if held is None or held.is_over:
            if held is not None:
                held.leave()
            held = _ShardClient(shard, self._dial(shard), self._connect, self._patience)
            self._by_shard[shard] = held
            self._tasks.start_soon(held.run)
        return await held.connected()

    def _moved(self, shard: int) -> None:
        held = self._by_shard.get(shard)
        if held is not None and held.is_usable:
            held.replace()


class _ShardClient:
    """One of them, in a task of its own, so that any task may be the first to need it.

    Attributes:
        client: the client, once there is one.
    """

    client: Client

    def __init__(self, shard: int, dialer: ShardDialer, connect: Connect, patience: float) -> None:
        self._shard = shard
        self._dialer = dialer
        self._connect = connect
        self._patience = patience
        self._is_made = False
        self._failure: ZaichikError | None = None
        self._news = Wakeup()
        self._leaving = anyio.Event()

    @property
    def is_usable(self) -> bool:
        """Whether there is a client whose connection is not lost for good."""
        return self._is_made and not self.client.connection.is_lost

    @property
    def is_over(self) -> bool:
        """Whether there was one, or will be none."""
        return self._failure is not None or (self._is_made and self.client.connection.is_lost)

    async def connected(self) -> Client:
        """Returns the client when there is one.

        Raises:
            ConnectFailed, BrokerError: there is none.
        """
        await self._news.wait()
        if self._failure is not None:
            # One for each of those that wait.
            raise copy(self._failure)
        return self.client

    def replace(self) -> None:
        """Go on over another socket, to where the shard is now."""
        self.client.connection.transport.replace(f"shard {self._shard} is elsewhere now")

    def leave(self) -> None:
        """End the client."""
        self._leaving.set()

    async def run(self) -> None:
        """Connect, and hold the client until it is left."""
        pauses_s = backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        give_up_at = anyio.current_time() + self._patience
        try:
            while not self._is_made:
                try:
                    await self._hold()
                except ConnectFailed as error:
                    left_s = give_up_at - anyio.current_time()
                    if left_s <= 0 or not _may_pass(error):
                        self._failure = ConnectFailed(
                            f"shard {self._shard} cannot be reached: {error.message}"
                        )
                        return
                    await self._dialer.pause(min(next(pauses_s), left_s))
        except ZaichikError as error:
            self._failure = error
        finally:
            if not self._is_made and self._failure is None:
                self._failure = ConnectFailed("the cluster's block has ended")
            self._news.set()

    async def _hold(self) -> None:
        async with self._connect(self._dialer) as self.client:
            self._is_made = True
            if self._dialer.is_outdated:
                # It has moved while this client was greeted.
                self.replace()
            self._news.set()
            await self._leaving.wait()


def _may_pass(error: ConnectFailed) -> bool:
    """Returns whether another attempt may succeed: nothing answered, or it took too long."""
    cause = error.__cause__
    if isinstance(cause, TlsFailed):
        return not cause.is_hopeless
    return cause is not None
