"""PUBACK and PUBREC that wait until messages are replicated: AK-1."""

from contextlib import asynccontextmanager

import anyio
import pytest
from mqtt_clients import KEPT, V4, V5, mqtt_gateway
from replicating import FakeBridge

from zaichik.apps.mqtt.packets import (
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
)
from zaichik.apps.mqtt.window import MOST_MESSAGES
from zaichik.client.replication.watermark import topic_of

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("version", [V4, V5], ids=["3.1.1", "5"])


@asynccontextmanager
async def replicated(*, is_forgetful=True, **options):
    """A gateway that waits for replication, and a bridge of its topic."""
    async with mqtt_gateway(is_forgetful=is_forgetful, acked_by="kafka", **options) as running:
        bridge = FakeBridge(running.client, "mqtt")
        await bridge.begin()
        yield running, bridge


async def has_stored(running, count):
    while (await running.client.topic("mqtt"))["next_offset"] < count:
        await anyio.lowlevel.checkpoint()


def message(number, qos=1, **options):
    return Publish("a", b"%d" % number, qos=qos, packet_id=number, **options)


async def test_the_topics_that_it_makes_lose_nothing():
    async with replicated(trees=("orders",)) as (running, _):
        for name in ("mqtt", "orders"):
            settings = (await running.client.topic(name))["settings"]
            assert settings["overflow"] == 1
            assert settings["retention_ttl_ms"] == 2**64 - 1


@both
async def test_a_message_is_acknowledged_when_the_watermark_has_passed_it(version):
    async with replicated() as (running, bridge), running.connected(version=version) as writer:
        await writer.send(message(1))
        await has_stored(running, 1)
        assert await writer.nothing(), "and it is answered meanwhile"
        await bridge.has(1)
        assert await writer.read() == PubAck(1)


async def test_acknowledgements_keep_the_order_of_their_messages():
    async with replicated() as (running, bridge), running.connected() as writer:
        await writer.send(message(1), message(2, 2))
        await has_stored(running, 2)
        await writer.send(message(3), Publish("$SYS/x", b"", qos=1, packet_id=4))
        await has_stored(running, 3)
        assert await writer.nothing(), "what is refused at once waits for those before it"
        await bridge.has(3)
        assert [await writer.read() for _ in range(4)] == [
            PubAck(1),
            PubRec(2),
            PubAck(3),
            PubAck(4, ReasonCode.NOT_AUTHORIZED),
        ]


async def test_a_client_that_waits_keeps_nobody_else_waiting():
    async with (
        replicated() as (running, bridge),
        running.connected() as writer,
        running.connected() as other,
        running.connected() as reader,
    ):
        await reader.subscribe("a")
        await writer.send(message(1))
        assert (await reader.message()).payload == b"1"
        await other.publish("a", b"x", qos=0)
        assert (await reader.message()).payload == b"x"
        await bridge.has(1)
        assert await writer.read() == PubAck(1)


async def test_a_message_of_qos_2_that_comes_again_waits_as_well_and_is_stored_once():
    async with replicated() as (running, bridge):
        async with running.connected("c", **KEPT) as writer:
            await writer.send(message(1, 2))
            await has_stored(running, 1)
            await writer.cut()
        async with running.connected("c", clean_start=False, **KEPT) as writer:
            await writer.send(message(1, 2, dup=True))
            assert await writer.nothing()
            await bridge.has(1)
            assert await writer.read() == PubRec(1)
            await writer.send(PubRel(1))
            assert await writer.read() == PubComp(1)
        assert len(await running.stored()) == 1


@pytest.mark.parametrize(("qos", "answer"), [(1, PubAck), (2, PubRec)])
async def test_a_message_in_a_gap_is_refused_in_version_5(qos, answer):
    async with replicated() as (running, bridge), running.connected() as writer:
        await bridge.has(9, (0, 1))
        await writer.send(message(1, qos))
        assert await writer.read() == answer(1, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
        await writer.send(message(1, qos))
        assert await writer.read() == answer(1), "it is stored anew"
        assert len(await running.stored()) == 2


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_in_a_gap_ends_the_connection_in_version_3_1_1(qos):
    """Any answer would say that it is replicated."""
    async with replicated() as (running, bridge):
        await bridge.has(9, (0, 1))
        async with running.connected("c", V4, clean_start=False) as writer:
            await writer.send(message(1, qos))
            assert await writer.ended()
        async with running.connected("c", V4, clean_start=False) as writer:
            await writer.send(message(1, qos, dup=True))
            assert (await writer.read()).packet_id == 1
        assert len(await running.stored()) == 2


async def test_a_topic_that_may_lose_messages_takes_none_that_are_to_be_acknowledged():
    async with replicated(is_forgetful=False) as (running, _):
        async with running.connected() as writer:
            answer = await writer.publish("a", b"x")
            assert answer == PubAck(1, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
            answer = await writer.publish("a", b"x", 2)
            assert answer == PubRec(2, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
            await writer.publish("a", b"nobody asks", 0)
        async with running.connected(version=V4) as writer:
            await writer.send(message(1))
            assert await writer.ended()
        assert [one.payload for one in await running.stored()] == [b"nobody asks"]


async def test_no_more_than_so_many_wait_for_one_client():
    """Clients of 3.1.1 are told no limit."""
    async with replicated() as (running, bridge), running.connected(version=V4) as writer:
        await writer.send(*(message(number) for number in range(1, MOST_MESSAGES + 1)))
        await has_stored(running, MOST_MESSAGES)
        await writer.send(message(MOST_MESSAGES + 1))
        await running.client.ping()
        assert len(await running.stored()) == MOST_MESSAGES
        await bridge.has(MOST_MESSAGES)
        for number in range(1, MOST_MESSAGES + 1):
            assert await writer.read() == PubAck(number)
        await has_stored(running, MOST_MESSAGES + 1)


async def test_all_clients_share_one_subscription_to_the_watermark():
    async with (
        replicated() as (running, bridge),
        running.connected() as one,
        running.connected() as other,
    ):
        await one.send(message(1))
        await other.send(message(1))
        await has_stored(running, 2)
        assert len(await running.client.subscriptions(topic_of("mqtt"))) == 1
        await bridge.has(2)
        assert await one.read() == await other.read() == PubAck(1)
