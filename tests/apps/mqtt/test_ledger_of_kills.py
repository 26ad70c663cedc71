"""A ledger over kills of the gateway, and over connections that are cut, on both event loops.

`test_ledger.py` kills programs, and brokers as well, but only between messages. Here the gateway
ends in the midst of an exchange, too, and stores nothing more. What a client was told is stored is
there; QoS 2 comes once for as long as a gateway lives (MQ-6); each will is published once (MQ-11);
of retained messages, the newest is left (MQ-9).
"""

import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from mqtt_clients import KEPT, mqtt_gateway

from zaichik.apps.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel, Will

pytestmark = pytest.mark.anyio

MESSAGES = 24
SEEDS = 12


class World:
    """A gateway, until it is killed and another one takes its place.

    Attributes:
        running: the one that lives.
        life: its number.
        clients: those that come back after a kill.
    """

    def __init__(self, running, stack, seed) -> None:
        self.running = running
        self.life = 0
        self.clients = []
        self.chance = random.Random(seed)
        self._stack = stack

    async def kill(self) -> None:
        """Another gateway takes the place of the one that lives; all clients connect to it."""
        another = self.running.another(is_kill=True)
        self.running = await self._stack.enter_async_context(another)
        self.life += 1
        await self.running.gateway.sweep()
        for client in self.clients:
            await client.connect()

    async def doom(self, name) -> None:
        """A client with a will leaves without a goodbye, or its gateway does."""
        will = Will(name, b"gone", qos=1)
        async with self.running.connected(name, will=will) as client:
            if self.chance.random() < 0.3:
                await self.kill()
            else:
                await client.break_off()


class Unlucky:
    """A client that does what the standard asks for, whatever happens to it.

    Attributes:
        received: by the gateway's life, how often each message was taken for a new one.
    """

    def __init__(self, world, name) -> None:
        self.received = Counter()
        self.client = None
        self._world = world
        self._name = name
        self._stack = AsyncExitStack()
        # Identifiers of messages that it has taken, and was not told to forget.
        self._taken = set()
        world.clients.append(self)

    async def connect(self) -> None:
        """Connect, perhaps again, with the same session."""
        await self._stack.aclose()
        connected = self._world.running.connected(self._name, clean_start=False, **KEPT)
        self.client = await self._stack.enter_async_context(connected)

    async def close(self) -> None:
        """Leave."""
        await self._stack.aclose()

    async def was_lost(self) -> bool:
        """Whether the connection was just cut, or the gateway killed; it is there again then."""
        drawn = self._world.chance.random()
        if drawn < 0.1:
            await self._world.kill()
        elif drawn < 0.3:
            await self.client.cut()
            await self.connect()
        return drawn < 0.3

    async def publish(self, topic, payload, qos, *, retain=False) -> None:
        """Publish a message, however often it takes."""
        message = Publish(topic, payload, qos=qos, packet_id=1, retain=retain)
        await self.client.send(message)
        while await self.was_lost():
            await self.client.send(message)
        if qos == 1:
            assert await self.client.expect(PubAck) == PubAck(1)
            return
        assert await self.client.expect(PubRec) == PubRec(1)
        await self.client.send(PubRel(1))
        while await self.was_lost():
            await self.client.send(PubRel(1))
        assert (await self.client.expect(PubComp)).packet_id == 1

    async def take(self, payload) -> None:
        """Take what comes, until that message was among it, in whatever life."""
        while not any(known == payload for _, known in self.received):
            packet = await self.client.read()
            # What a new gateway has a client forget is many packets, and all alike.
            is_clearing = isinstance(packet, PubRel) and packet.packet_id not in self._taken
            if not is_clearing and await self.was_lost():
                continue
            if isinstance(packet, PubRel):
                self._taken.discard(packet.packet_id)
                await self.client.send(PubComp(packet.packet_id))
            elif packet.qos == 1:
                self.received[self._world.life, packet.payload] += 1
                await self.client.send(PubAck(packet.packet_id))
            else:
                if packet.packet_id not in self._taken:
                    self.received[self._world.life, packet.payload] += 1
                self._taken.add(packet.packet_id)
                await self.client.send(PubRec(packet.packet_id))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_is_lost_the_ledger_adds_up(seed):
    async with mqtt_gateway() as running, AsyncExitStack() as stack:
        world = World(running, stack, seed)
        writer, reader = Unlucky(world, "writer"), Unlucky(world, "reader")
        for client in (writer, reader):
            await client.connect()
        await reader.client.subscribe("log/#")
        # Messages of QoS 2 that one gateway has taken and completed.
        in_one_life = []
        for number in range(MESSAGES):
            payload = b"%d" % number
            qos, begun = 1 + number % 2, world.life
            await writer.publish(f"log/{number}", payload, qos)
            if qos == 2 and begun == world.life:
                in_one_life.append(payload)
            await writer.publish("state", payload, 1, retain=True)
            await world.doom(f"will/{number}")
            await reader.take(payload)
        await world.running.gateway.sweep()
        await check(world, reader, in_one_life)
        for client in (writer, reader):
            await client.close()


async def check(world, reader, in_one_life) -> None:
    """The ledger against what the broker has."""
    stored = Counter()
    wills = Counter()
    for message in await world.running.stored():
        topic = message.key.decode()
        stored[message.payload] += topic.startswith("log/")
        wills[topic] += topic.startswith("will/")
    assert all(stored[b"%d" % number] for number in range(MESSAGES))
    assert {payload: stored[payload] for payload in in_one_life} == dict.fromkeys(in_one_life, 1)
    assert {wills[f"will/{number}"] for number in range(MESSAGES)} == {1}
    # Of QoS 2, a life gives out no more than was stored; the reader was subscribed with QoS 2.
    for (_, payload), count in reader.received.items():
        assert int(payload) % 2 == 0 or count <= stored[payload]
    async with world.running.connected() as late:
        await late.subscribe("state")
        assert (await late.message()).payload == b"%d" % (MESSAGES - 1)
