"""Opens streams to the broker that has a shard now, wherever that is by then."""

# Not compiled: it runs once in a connection, so there is nothing to gain.

import random

import anyio

from zaichik.client.cluster.known_map import KnownMap
from zaichik.client.dialer import Dialer
from zaichik.client.endpoint import Endpoint
from zaichik.net.stream import Stream
from zaichik.net.tls_settings import ClientTls

# When a shard has moved, all clients learn of it at the same moment. Seconds over which they come.
SPREAD_SECONDS = 0.1
# Seconds between two attempts, at most: a broker that is started again at its address is back
# within seconds, and then the map may say nothing new.
LONGEST_PAUSE_SECONDS = 1.0


class ShardDialer(Dialer):
    """The way to a shard: its address is looked up in the map at each attempt.

    Args:
        known: where shards are.
        shard: its number.
        seed: a broker of the cluster; its login is this client's.
        tls: see `Dialer`.
    """

    # Its node starts it again by itself; without its node, it stays away.
    advice = "`zaichik cluster` shows which shards answer, and on which machine each is"

    def __init__(
        self, known: KnownMap, shard: int, seed: Endpoint, tls: ClientTls | None = None
    ) -> None:
        super().__init__(known.endpoint(shard) or seed, tls)
        self._known = known
        self._shard = shard

    @property
    def is_outdated(self) -> bool:
        """Whether the shard is elsewhere than where the last stream went."""
        return self._known.endpoint(self._shard) != self.endpoint

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt, or until the map says something new of the shard."""
        with anyio.move_on_after(min(seconds, LONGEST_PAUSE_SECONDS)) as waiting:
            await self._known.news(self._shard)
        if not waiting.cancelled_caught:
            await anyio.sleep(SPREAD_SECONDS * random.random())  # noqa: S311 (nobody gains by guessing it)

    async def dial(self) -> Stream:
        """Returns a stream to the broker that has the shard.

        Raises:
            OSError: nobody has the shard, or nothing answers there, or it has just moved.
            TlsFailed, ConnectFailed: see `Dialer`.
        """
        place = self._known.endpoint(self._shard)
        if place is None:
            raise OSError(f"no machine has shard {self._shard} now")
        self.endpoint = place
        is_reached = False
        try:
            stream = await super().dial()
            is_reached = True
        except UnicodeError as error:
            raise OSError(f"{place.host!r} is not a host name") from error
        finally:
            # It may also have taken too long.
            if not is_reached:
                self._known.doubt()
        if self.is_outdated:
            await stream.aclose()
            raise OSError(f"shard {self._shard} has moved to another machine")
        return stream
