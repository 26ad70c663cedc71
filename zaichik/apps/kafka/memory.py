"""Memory that all connections share: what finds none waits for it, and holds none of it meanwhile.

Each connection is bounded, but 256 of them could hold gigabytes together. So three things are
bounded in all connections together:

    requests   received, from the size of a request on until it is answered; small ones take none
    batches    their records, while they are unpacked and until they are stored
    responses  fetched, from when they are made until they are read

They are three amounts, not one: what holds some of one kind may wait for the next kind, and what it
waits for is never held by what waits for the same. So nothing waits for itself in a circle.

A user may have as much as is free (`zaichik.apps.users.shares`). Who waits gets it in the order of
arrival; only a user who has too much already is overtaken.
"""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from zaichik.apps.users.shares import Shares

logger = logging.getLogger("zaichik.kafka.memory")

MIB = 1024 * 1024
# Of all connections together. The largest of each kind takes 4, 30 and 8 MiB.
MAX_REQUESTS = 128 * MIB
MAX_BATCHES = 128 * MIB
MAX_RESPONSES = 128 * MIB
# Clients give up a request after 30 seconds, or a minute.
WAIT_SECONDS = 10.0
# From one line in the log until the next.
LOG_SECONDS = 60.0


class NoMemory(Exception):
    """There was none, for too long; a sentence says so."""


@dataclass(eq=False, slots=True)
class _Waiting:
    user: str
    size: int
    granted: anyio.Event = field(default_factory=anyio.Event)


class Memory:
    """Memory of one kind.

    Args:
        what: takes it, for the log.
        most: bytes that there are.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._shares = Shares(most)
        self._waiting: dict[_Waiting, None] = {}  # in the order of arrival
        self._logged_at = -math.inf

    @property
    def taken(self) -> int:
        """Bytes that are taken."""
        return self._shares.taken

    @asynccontextmanager
    async def taking(self, user: str, size: int) -> AsyncIterator["Taken"]:
        """Take so many bytes for the length of the block; see `take`."""
        taken = await self.take(user, size)
        try:
            yield taken
        finally:
            taken.shrink(0)

    async def take(self, user: str, size: int) -> "Taken":
        """Returns so many bytes, which are to be given back, when there are as many.

        Args:
            user: whose share counts; "": nobody logs in.
            size: in bytes; of more than there are, all.

        Raises:
            NoMemory: there are not, for `WAIT_SECONDS`.
        """
        size = min(size, self._shares.most)
        if not self._waiting and self._shares.may_take(user, size):
            self._shares.take(user, size)
        else:
            await self._wait(_Waiting(user, size))
        return Taken(self, user, size)

    async def _wait(self, waiting: _Waiting) -> None:
        self._waiting[waiting] = None
        self._grant()
        if not waiting.granted.is_set():
            self._warn()
        try:
            with anyio.fail_after(WAIT_SECONDS):
                await waiting.granted.wait()
        except BaseException as error:
            self._give_up(waiting)
            if isinstance(error, TimeoutError):
                problem = f"{self._what} have as much memory as they may"
                raise NoMemory(f"{problem}, {self._shares.most // MIB} MiB") from None
            raise

    def _give_up(self, waiting: _Waiting) -> None:
        # It may have been granted in the very moment.
        if waiting.granted.is_set():
            self._shares.give_back(waiting.user, waiting.size)
        else:
            del self._waiting[waiting]
        # Others may have waited for its turn.
        self._grant()

    def _grant(self) -> None:
        """Give what is free to those who wait."""
        for waiting in list(self._waiting):
            if self._shares.is_used_up(waiting.user):
                continue
            # Nobody overtakes it: a large one would wait for ever beside small ones.
            if waiting.size > self._shares.free:
                break
            self._shares.take(waiting.user, waiting.size)
            del self._waiting[waiting]
            waiting.granted.set()

    def _warn(self) -> None:
        now = anyio.current_time()
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            logger.warning(
                "%s wait for memory: they have %d bytes, and %d is the limit",
                self._what,
                self._shares.taken,
                self._shares.most,
            )

    def give_back(self, user: str, size: int) -> None:
        """See `Taken.shrink`."""
        self._shares.give_back(user, size)
        self._grant()


class Taken:
    """Bytes that are taken.

    Attributes:
        size: how many.
    """

    def __init__(self, memory: Memory, user: str, size: int) -> None:
        self.size = size
        self._memory = memory
        self._user = user

    def shrink(self, size: int) -> None:
        """Give back all but so many bytes."""
        if size < self.size:
            self._memory.give_back(self._user, self.size - size)
            self.size = size


@dataclass(slots=True)
class Memories:
    """The three kinds of a gateway; see above."""

    requests: Memory = field(default_factory=lambda: Memory("requests", MAX_REQUESTS))
    batches: Memory = field(default_factory=lambda: Memory("batches", MAX_BATCHES))
    responses: Memory = field(default_factory=lambda: Memory("responses", MAX_RESPONSES))
