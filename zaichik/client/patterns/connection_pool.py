"""As many connections as the topics of a pattern need.

A broker has a limit of subscriptions for each connection, and does not say it: a connection is full
when one more is refused. The first connection is the program's own client. Further ones are opened
when all are full, one after the other, and closed when the block of the pattern ends.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import ZaichikError
from zaichik.net.wakeup import Wakeup

# Enough for ten thousand topics with the broker's default limit, a thousand for a connection, and
# less than a client's share of the broker's connections.
MOST_CONNECTIONS = 16
# Subscriptions of a connection that wait for replies. More would not be faster, and when the
# connection is full, that many are refused in vain.
MOST_ASKED = 64
# Topics of a pattern that are read over the program's own connection: half of what a broker allows
# by default. The other half is for what else the program subscribes to, another pattern perhaps.
MOST_OF_OWN = 500


class PooledConnection:
    """A connection that has topics of a pattern.

    Args:
        connection: the connection.
        most: how many topics it may have, even if the broker would take more; None: any number.

    Attributes:
        connection: see `BrokerConnection`.
        members: how many topics are read over it, or were asked for.
        asked: how many of them wait for a reply.
    """

    def __init__(self, connection: BrokerConnection, most: int | None = None) -> None:
        self.connection = connection
        self._most = most
        self.members = 0
        self.asked = 0
        # How many more it takes; None as long as it has refused none.
        self._room: int | None = None
        # How many have left.
        self._left = 0

    @property
    def is_full(self) -> bool:
        """Whether it has as many as it may, or has refused one, and none has left since."""
        if self._most is not None and self.members >= self._most:
            return True
        return self._room is not None and self._room <= 0

    @property
    def is_useless(self) -> bool:
        """Whether it takes none at all, so that another one would not, either."""
        return self.is_full and not self.members

    def may_have_room(self) -> None:
        """Note that something else than a topic of the pattern may have left."""
        if self._room is not None:
            self._room = max(self._room, 1)

    def ask(self) -> int:
        """Note that one more is asked for; returns how many have left by now (see `refused`)."""
        self.members += 1
        self.asked += 1
        if self._room is not None:
            self._room -= 1
        return self._left

    def answered(self) -> None:
        """Note that one was answered."""
        self.asked -= 1

    def refused(self, left: int) -> None:
        """Note that one was refused because there is no room.

        Args:
            left: how many had left when it was asked for.
        """
        self.members -= 1
        if left == self._left:
            self._room = 0
        elif self._room is None:
            # Some have left since, of which the broker did not know yet.
            self._room = self._left - left

    def left(self) -> None:
        """Note that one has left."""
        self.members -= 1
        self._left += 1
        if self._room is not None:
            self._room += 1


class ConnectionPool:
    """The connections of one pattern.

    Args:
        first: the program's own.
        another: opens one more, for as long as its block lasts.
        on_room: called when there is another one.
        on_none: called with the reason when there cannot be another one for now.
    """

    def __init__(
        self,
        first: BrokerConnection,
        another: Callable[[], AbstractAsyncContextManager[BrokerConnection]],
        on_room: Callable[[], None],
        on_none: Callable[[str], None],
    ) -> None:
        self._all = [PooledConnection(first, MOST_OF_OWN)]
        self._another = another
        self._on_room = on_room
        self._on_none = on_none
        self._wanted = Wakeup()

    def with_room(self) -> PooledConnection | None:
        """Returns a connection that may be asked for one more subscription now, if there is one."""
        for pooled in self._all:
            if not pooled.is_full and pooled.asked < MOST_ASKED:
                return pooled
        return None

    def open_if_full(self) -> None:
        """Open another one, unless there is room, or will be known to be there."""
        if all(pooled.is_full for pooled in self._all):
            self._wanted.set()

    def try_again(self) -> None:
        """Have the program's own connection tried again: the program may have left other topics."""
        self._all[0].may_have_room()

    async def run(self) -> None:
        """Open connections as they are wanted, and hold them until cancelled."""
        async with AsyncExitStack() as opened:
            while True:
                await self._wanted.wait()
                self._wanted = Wakeup()
                if not all(pooled.is_full for pooled in self._all):
                    self._on_room()
                    continue
                newest = self._all[-1]
                # The program may have filled the first one itself.
                is_in_vain = newest is not self._all[0] and newest.is_useless
                if len(self._all) >= MOST_CONNECTIONS or is_in_vain:
                    self._on_none(f"{len(self._all)} connections have as many as they may")
                    continue
                try:
                    connection = await opened.enter_async_context(self._another())
                except ZaichikError as error:
                    self._on_none(f"there is no further connection: {error}")
                    continue
                self._all.append(PooledConnection(connection))
                self._on_room()
