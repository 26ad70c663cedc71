"""Random histories of workers that fail, give back, leave, and lose their connections.

Whatever happens: what counted as settled never comes again, and in the end everything is settled.
No message times out here: after a lost connection, nobody could tell whether it did so before it
was settled, or after.
"""

import random
from contextlib import suppress

import anyio
import pytest
from brokers import GUARD, real_broker
from proxy import cutting_proxy
from sampling import sampled
from workers import NAME

import zaichik
from zaichik.client import transport as transport_module

pytestmark = pytest.mark.anyio

COUNT = 40
MAX_DELIVERIES = 4
WORKERS = 3
STEPS = 60


class Own(Exception):
    pass


class History:
    """What programs do with messages, at random.

    Attributes:
        settled: the offsets of messages of which the broker has said that this counted.
        again: those of them that came again.
    """

    def __init__(self, seed):
        self.settled = set()
        self.again = set()
        self._random = random.Random(seed)

    def join(self, client):
        draw = self._random
        return client.subscribe(
            "images",
            name=NAME,
            shared=True,
            max_deliveries=MAX_DELIVERIES,
            credit=draw.choice([1, 2, 5, 20]),
            timeout=0,
        )

    async def work(self, port):
        """One program after the other, each with a connection of its own."""
        while True:
            with suppress(Own, zaichik.ZaichikError):
                async with zaichik.connect(port=port, reconnect=GUARD) as client:
                    await self._run(client)

    async def _run(self, client):
        async with self.join(client) as work:
            left = self._random.randrange(3, 30)
            async for message in work:
                with suppress(Own):
                    await self._handle(message)
                left -= 1
                if left == 0:
                    break
            match self._random.randrange(4):
                case 0:
                    raise Own
                case 1:
                    with anyio.CancelScope() as scope:
                        async with await anext(work):
                            scope.cancel()
                            await anyio.lowlevel.checkpoint()
                case 2:
                    work.drain()
                case _:
                    pass

    async def _handle(self, message):
        if message.offset in self.settled:
            self.again.add(message.offset)
        async with message:
            await anyio.lowlevel.checkpoint()
            match self._random.randrange(10):
                case 0:
                    raise Own
                case 1:
                    await message.retry(after=0)
                case 2:
                    await message.give_back()
                case 3:
                    self._note(message, counts=await message.reject())
                case 4 | 5 | 6:
                    await message.extend(5)
                case _:
                    self._note(message, counts=await message.done())

    def _note(self, message, *, counts):
        if counts:
            self.settled.add(message.offset)

    async def finish(self, client):
        """Settle all that is left, once what others had is lost."""
        subscribing = client.subscribe(
            "images", name=NAME, shared=True, max_deliveries=MAX_DELIVERIES, credit=COUNT
        )
        async with subscribing as work, anyio.create_task_group() as tasks:
            tasks.start_soon(self._drain_at_end, client, work)
            async for message in work:
                self.again |= {message.offset} & self.settled
                self._note(message, counts=await message.done())

    async def _drain_at_end(self, client, work):
        while (await state(client))["left"]:
            await client.advance_clock(60)
        work.drain()


async def state(client):
    """What the broker says of the name."""
    for row in await client.subscriptions("images"):
        if row["connection"] == 0:
            return {
                **row["shared"],
                "left": row["next_offset"] - row["cursor"] + row["shared"]["open"],
            }
    return {"left": COUNT}


@pytest.mark.parametrize("seed", sampled(range(40), [0, 1]))
async def test_what_counted_never_comes_again_and_all_is_settled_at_last(seed, monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    history = History(seed)
    draw = random.Random(seed)
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=broker.port) as client,
    ):
        await client.create_topic("images", retention_ttl="forever")
        await client.publish_batch("images", [(None, b"x")] * COUNT)
        async with anyio.create_task_group() as tasks:
            for _ in range(WORKERS):
                tasks.start_soon(history.work, proxy.port)
            for _ in range(STEPS):
                if draw.random() < 0.1:
                    proxy.cut()
                await client.advance_clock(draw.choice([1, 5, 30]))
            tasks.cancel_scope.cancel()
        # Those that had no connection when they ended do not come back.
        for _ in range(3):
            broker.sweep()
        await history.finish(client)
        dead = await client.dead("images", NAME)
        name = await state(client)
    assert history.again == set()
    assert name["done"] + len(dead) == COUNT
