"""What a client knows of a cluster's map, and the one subscription that keeps it current.

The subscription is to any shard. If it is lost, another shard is asked, one of those that the map
names, at random, so that the clients of a shard that went down spread over all others; in the end
those that the program has named. However many calls wait for shards that have moved, nobody else
asks: they wait for the map to change.

A shard that cannot be reached makes the map doubtful: it may come from a machine that went down
without a word, or from one that is cut off from the others, and goes on to tell what it knew. So
another shard is asked, once for all who doubt, and less and less often as long as none has news. It
is done now and then without a doubt, too: whoever reaches only a machine that is cut off would
never know.
"""

# Not compiled: it runs once for each change of the cluster.

import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from dataclasses import replace

import anyio

from zaichik.client.backoff import backoff
from zaichik.client.client import Client
from zaichik.client.cluster.map import TOPIC, ClusterMap
from zaichik.client.endpoint import Endpoint, endpoint
from zaichik.client.errors import ClusterMapUnusable, ConnectFailed, ZaichikError
from zaichik.client.messages import Message
from zaichik.net.background import BackgroundTasks
from zaichik.net.wakeup import Wakeup

logger = logging.getLogger(__name__)

# Seconds between two rounds in which every shard is asked, at most: before the second, and where
# the doubling ends.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# A subscription that has lasted for so long was a good one, so the pauses begin anew.
STEADY_SECONDS = 1.0
# Seconds from a doubt until another shard is asked, at most: at first, and where the doubling ends.
FIRST_DOUBT_SECONDS = 0.2
LONGEST_DOUBT_SECONDS = 60.0
# Seconds after which another shard is asked in any case, at most.
FOLLOWED_SECONDS = 300.0
# Messages in flight. A map is as large as the cluster, and the topic keeps one.
CREDIT = 4

Connect = Callable[[Endpoint], AbstractAsyncContextManager[Client]]


class KnownMap:
    """The map, as far as this client knows it.

    Args:
        seeds: brokers of the cluster that the program has named.
        connect: connects to a broker, for as long as its block lasts, and does not reconnect.
        patience: seconds until the first map must have come.
        timeout: seconds that a shard may take to send its map.

    Attributes:
        current: the map; None until one has come.
        failure: why this client can follow it no more.
        subscriptions: how often a shard's map was subscribed to.
    """

    def __init__(
        self, seeds: Sequence[Endpoint], connect: Connect, patience: float, timeout: float
    ) -> None:
        self.current: ClusterMap | None = None
        self.failure: ZaichikError | None = None
        self.subscriptions = 0
        self._seeds = seeds
        self._connect = connect
        self._patience = patience
        self._timeout = timeout
        # Set when the first map has come, or will not.
        self._begun = Wakeup()
        # By their numbers: shards that somebody waits for, until the map says more of them.
        self._news: dict[int, anyio.Event] = {}
        self._on_move: list[Callable[[int], None]] = []
        self._doubted = anyio.Event()
        self._doubts_s = backoff(FIRST_DOUBT_SECONDS, LONGEST_DOUBT_SECONDS)
        # The shard that was asked last.
        self._last: Endpoint | None = None
        # The last thing that was wrong, so that it is logged once.
        self._complaint = ""

    # -- what is known ---------------------------------------------------------------------------

    async def first(self) -> ClusterMap:
        """Returns the map, once there is one.

        Raises:
            ConnectFailed: there was none in time.
            ClusterMapUnusable: it cannot be followed.
            BrokerError: no shard serves this client.
        """
        await self._begun.wait()
        return self.map

    @property
    def map(self) -> ClusterMap:
        """The map.

        Raises:
            ZaichikError: it can be followed no more.
        """
        if self.failure is not None:
            raise copy(self.failure)
        if self.current is None:
            raise RuntimeError("the map of the cluster has not come yet")
        return self.current

    def endpoint(self, shard: int) -> Endpoint | None:
        """Returns where a shard is, with this client's login; None if nobody has it."""
        if self.current is None or not self.current.shards[shard].address:
            return None
        return self._with_login(self.current.shards[shard].address)

    def _with_login(self, address: str) -> Endpoint:
        """Returns an address of the map, as one of the first broker that the program has named."""
        found = endpoint(address)
        return replace(self._seeds[0], host=found.host, port=found.port)

    def on_move(self, call: Callable[[int], None]) -> None:
        """Have a function called with the number of each shard whose address has changed."""
        self._on_move.append(call)

    async def news(self, shard: int) -> None:
        """Returns when the map says something new of a shard."""
        event = self._news.setdefault(shard, anyio.Event())
        await event.wait()

    def doubt(self) -> None:
        """Note that a shard is not where the map says: the map may come from a dead machine."""
        self._doubted.set()

    # -- keeping it current ----------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the map until cancelled, or until that makes no sense any more."""
        pauses_s = backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        give_up_at = anyio.current_time() + self._patience
        try:
            while True:
                began = anyio.current_time()
                error = await self._ask_one_after_the_other()
                if self._is_given_up(error, give_up_at):
                    return
                if anyio.current_time() - began > STEADY_SECONDS:
                    pauses_s = backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
                await anyio.sleep(next(pauses_s))
        finally:
            self._begun.set()

    async def _ask_one_after_the_other(self) -> ZaichikError:
        """Follow the map at one of the shards after the other; returns why that has ended.

        It has when all were asked; or one of them had sent its map for a while: then those that are
        known now are asked, and not those that were.
        """
        error: ZaichikError = ConnectFailed("no broker of the cluster is known")
        for place in self._places():
            began = anyio.current_time()
            error = await self._ended(place)
            if self.failure is not None or anyio.current_time() - began > STEADY_SECONDS:
                break
        return error

    def _is_given_up(self, error: ZaichikError, give_up_at: float) -> bool:
        """Returns whether the map cannot be followed: none has come for too long, or none can."""
        if self.failure is not None or self.current is not None:
            return self.failure is not None
        is_temporary = isinstance(error, ConnectFailed) or error.retryable
        if not is_temporary or anyio.current_time() >= give_up_at:
            self.failure = error
            return True
        if not self._complaint:
            self._complain(f"{error.message}; trying again for {self._patience:g} s")
        return False

    def _places(self) -> list[Endpoint]:
        """Returns whom to ask, in this order."""
        known: list[Endpoint] = []
        if self.current is not None:
            addresses = {shard.address for shard in self.current.shards if shard.address}
            known = [self._with_login(address) for address in sorted(addresses)]
            random.shuffle(known)
            # That of the shard that was asked last has been heard.
            known.sort(key=self._last.__eq__)
        return known + [seed for seed in self._seeds if seed not in known]

    async def _ended(self, place: Endpoint) -> ZaichikError:
        """Follow the map at one shard; returns why that has ended."""
        self._last = place
        try:
            async with self._connect(place) as client:
                await self._follow(client, place)
        except ClusterMapUnusable as error:
            self._complain(f"{place}: {error.message}")
            return error
        except ZaichikError as error:
            logger.debug("the map of the cluster is not at %s: %s", place, error)
            return error
        except UnicodeError:
            # anyio goes by stricter rules for names of hosts than Python's codec.
            return ConnectFailed(f"{place.host!r} is not a host name")
        return ConnectFailed(f"{place} has stopped sending the map of the cluster")

    async def _follow(self, client: Client, place: Endpoint) -> None:
        # A broker that creates topics would create this one.
        state = await client.topic(TOPIC)
        if state is None:
            raise ConnectFailed(
                f"the broker at {place} has no topic {TOPIC!r} that you may read: it is not one of "
                "a cluster, or its node has just started"
            )
        with anyio.CancelScope(deadline=anyio.current_time() + self._timeout) as scope:
            async with (
                client.subscribe(
                    TOPIC, epoch=state["epoch"], credit=CREDIT, events=True
                ) as subscription,
                BackgroundTasks() as tasks,
            ):
                self.subscriptions += 1
                tasks.group.start_soon(self._leave_when_doubted, scope)
                until = anyio.current_time() + FOLLOWED_SECONDS * (1 + random.random()) / 2  # noqa: S311 (no secret)
                async for item in subscription:
                    # Else older maps have gone unread, which is what the topic is for.
                    if isinstance(item, Message):
                        self._take(item.payload)
                        scope.deadline = until
        if self.current is None:
            raise ConnectFailed(f"the broker at {place} has no map of its cluster yet")

    async def _leave_when_doubted(self, scope: anyio.CancelScope) -> None:
        """Leave a shard whose map is doubted, for that of another one."""
        await self._doubted.wait()
        await anyio.sleep(next(self._doubts_s))
        self._doubted = anyio.Event()
        scope.cancel()

    def _take(self, payload: bytes) -> None:
        """Take a map that a shard has sent.

        Raises:
            ClusterMapUnusable: it cannot be followed.
        """
        found = ClusterMap.parse(payload)
        before = self.current
        if before is None:
            self.current = found
            self._begun.set()
            return
        try:
            self.current = before.updated(found)
        except ClusterMapUnusable as error:
            if found.features > before.features:
                # It was made anew: publishing where topics were would put them out of place.
                self.failure = error
            raise
        self._complaint = ""
        for number, (old, new) in enumerate(zip(before.shards, self.current.shards, strict=True)):
            if old == new:
                continue
            self._doubts_s = backoff(FIRST_DOUBT_SECONDS, LONGEST_DOUBT_SECONDS)
            event = self._news.pop(number, None)
            if event is not None:
                event.set()
            if old.address != new.address:
                for call in self._on_move:
                    call(number)

    def _complain(self, problem: str) -> None:
        """Log what is wrong, once."""
        if problem != self._complaint:
            self._complaint = problem
            logger.warning("%s", problem)
