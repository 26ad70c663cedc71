"""A healthy pair of clients that goes on, whatever happens beside it: one publishes numbered
messages, one reads.

Neither would come back if it lost its connection: then it was not left alone. Neither gives a
frozen broker up.
"""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import anyio
from ledger import Ledger, numbered
from served import GUARD

import zaichik
from zaichik.net.background import BackgroundTasks

BATCH = 10
TOPIC = "healthy"
_PACE_SECONDS = (
    0.002  # between two batches: it is to be always there, and not to take a whole processor
)


class Pair:
    """Both of them.

    Attributes:
        ledger: what they know.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._progress = anyio.Event()
        self._is_over = False

    async def write(self, client: zaichik.Client) -> None:
        """Publish until it is over, waiting for each acknowledgement."""
        for first in count(0, BATCH):
            if self._is_over:
                return
            numbers = range(first, first + BATCH)
            await client.publish_batch(
                TOPIC, [(None, numbered("pair", number)) for number in numbers]
            )
            self.ledger.acknowledge("pair", numbers)
            await anyio.sleep(_PACE_SECONDS)

    async def read(
        self, subscription: zaichik.Subscription[zaichik.Message | zaichik.Lagged]
    ) -> None:
        """Read for ever."""
        async for item in subscription:
            self.ledger.take(item)
            self._progress.set()

    async def goes_on(self, messages: int = 200) -> None:
        """Returns when so many more have come; fails if they do not come in time."""
        goal = self.ledger.came + messages
        with anyio.fail_after(GUARD):
            while self.ledger.came < goal:
                await self._step()

    async def end(self) -> None:
        """Write no more; read what is left, which must be everything."""
        self._is_over = True
        with anyio.fail_after(GUARD):
            while self.ledger.missing:
                await self._step()
        self.ledger.check()
        assert self.ledger.lagged == 0, "a reader that reads all the time has lagged"

    async def _step(self) -> None:
        self._progress = anyio.Event()
        await self._progress.wait()


@asynccontextmanager
async def healthy_pair(broker: int | zaichik.Endpoint) -> AsyncIterator[Pair]:
    """A pair that works as long as the block lasts, and must have everything at its end.

    Args:
        broker: its port, or its address with a login.
    """
    pair, at = Pair(), zaichik.Endpoint("127.0.0.1", broker) if isinstance(broker, int) else broker
    async with (
        zaichik.connect(at, name="healthy writer", reconnect=0, silence_timeout=math.inf) as writer,
        zaichik.connect(at, name="healthy reader", reconnect=0, silence_timeout=math.inf) as reader,
        reader.subscribe(TOPIC, events=True) as subscription,
        BackgroundTasks() as tasks,
    ):
        tasks.group.start_soon(pair.write, writer)
        tasks.group.start_soon(pair.read, subscription)
        await pair.goes_on()
        yield pair
        await pair.goes_on()
        await pair.end()
