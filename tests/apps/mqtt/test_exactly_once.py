"""QoS 2: exactly once while the gateway lives, wherever connections are cut (MQ-6)."""

import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from mqtt_clients import KEPT, mqtt_gateway

from zaichik.apps.mqtt.packets import PubComp, Publish, PubRec, PubRel

pytestmark = pytest.mark.anyio

MESSAGES = 40


class Unlucky:
    """A client whose connection is cut at random, and that does what the standard asks for then.

    Attributes:
        received: how often it took each message.
    """

    def __init__(self, running, name, chance) -> None:
        self.received = Counter()
        self.client = None
        self._running = running
        self._name = name
        self._chance = chance
        self._stack = AsyncExitStack()
        # Identifiers of messages that it has taken, and was not told to forget.
        self._taken = set()

    async def connect(self) -> None:
        """Connect, perhaps again, with the same session."""
        await self._stack.aclose()
        connected = self._running.connected(self._name, clean_start=False, **KEPT)
        self.client = await self._stack.enter_async_context(connected)

    async def close(self) -> None:
        """Leave."""
        await self._stack.aclose()

    async def is_cut(self) -> bool:
        """Whether the connection was just cut; it is there again then."""
        if self._chance.random() < 0.7:
            return False
        await self.client.cut()
        await self.connect()
        return True

    async def publish(self, payload) -> None:
        """Publish a message, however often it takes."""
        message = Publish("t", payload, qos=2, packet_id=1)
        await self.client.send(message)
        while await self.is_cut():
            await self.client.send(Publish("t", payload, qos=2, packet_id=1, dup=True))
        assert await self.client.expect(PubRec) == PubRec(1)
        await self.client.send(PubRel(1))
        while await self.is_cut():
            await self.client.send(PubRel(1))
        assert (await self.client.expect(PubComp)).packet_id == 1

    async def take(self) -> None:
        """Take packets until a message is complete."""
        while True:
            packet = await self.client.read()
            if await self.is_cut():
                continue
            if isinstance(packet, Publish):
                if packet.packet_id not in self._taken:
                    self.received[packet.payload] += 1
                self._taken.add(packet.packet_id)
                await self.client.send(PubRec(packet.packet_id))
            else:
                self._taken.discard(packet.packet_id)
                await self.client.send(PubComp(packet.packet_id))
                await self.client.ping()
                return


@pytest.mark.parametrize("seed", range(3))
async def test_each_message_is_stored_and_taken_once(seed):
    chance = random.Random(seed)
    async with mqtt_gateway() as running:
        writer = Unlucky(running, "writer", chance)
        reader = Unlucky(running, "reader", chance)
        for client in (writer, reader):
            await client.connect()
        await reader.client.subscribe("t")
        for number in range(MESSAGES):
            await writer.publish(b"%d" % number)
            await reader.take()
        expected = {b"%d" % number: 1 for number in range(MESSAGES)}
        assert Counter(message.payload for message in await running.stored()) == expected
        assert reader.received == expected
        for client in (writer, reader):
            await client.close()
