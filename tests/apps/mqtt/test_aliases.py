"""Numbers that stand for topics, towards a client that has said how many it can remember."""

import pytest
from mqtt_clients import KEPT, V5, mqtt_gateway

from zaichik.apps.mqtt.aliases import MOST, MOST_BYTES, NO_ALIAS, Alias, Aliases
from zaichik.apps.mqtt.packets import Properties, Publish, encode

pytestmark = pytest.mark.anyio

TOPIC = "home/kitchen/temp"
OTHER = "home/cellar/temp"


def taking(most, **more):
    """Options of a client that can remember so many numbers."""
    return {"properties": Properties(topic_alias_maximum=most, **more)}


def brief(message):
    return message.topic, message.properties.topic_alias


async def test_the_first_message_of_a_topic_tells_its_number_and_the_others_have_it_alone():
    async with mqtt_gateway() as running, running.connected(**taking(5)) as reader:
        await reader.subscribe("home/#", properties=Properties(subscription_identifiers=(7,)))
        for qos in (0, 1, 2):
            await running.publish(TOPIC, b"%d" % qos, qos)
        await running.publish(OTHER)
        messages = [await reader.message() for _ in range(4)]
        assert [brief(it) for it in messages] == [(TOPIC, 1), ("", 1), ("", 1), (OTHER, 2)]
        assert [it.payload for it in messages] == [b"0", b"1", b"2", b""]
        assert all(it.properties.subscription_identifiers == (7,) for it in messages)


async def test_a_client_that_can_remember_none_is_told_none():
    async with mqtt_gateway() as running, running.connected() as reader:
        await reader.subscribe(TOPIC)
        for _ in range(2):
            await running.publish(TOPIC)
            assert brief(await reader.message()) == (TOPIC, None)


async def test_when_the_numbers_are_given_out_other_topics_have_none():
    async with mqtt_gateway() as running, running.connected(**taking(1)) as reader:
        await reader.subscribe("home/#")
        for topic in (TOPIC, OTHER, OTHER, TOPIC):
            await running.publish(topic)
        found = [brief(await reader.message()) for _ in range(4)]
        assert found == [(TOPIC, 1), (OTHER, None), (OTHER, None), ("", 1)]


async def test_a_packet_that_is_too_large_with_a_number_is_sent_without_one():
    largest = encode(Publish(TOPIC, bytes(50)), V5)
    options = taking(5, maximum_packet_size=len(largest))
    async with mqtt_gateway() as running, running.connected(**options) as reader:
        await reader.subscribe(TOPIC)
        for size in (50, 5, 60):
            await running.publish(TOPIC, bytes(size), 0)
        assert brief(await reader.message()) == (TOPIC, None)
        assert brief(await reader.message()) == (TOPIC, 1)
        # Now that the number is known, more fits.
        assert brief(await reader.message()) == ("", 1)


async def test_another_connection_begins_without_numbers():
    properties = Properties(topic_alias_maximum=5, session_expiry_interval=3600)
    options = KEPT | {"clean_start": False, "properties": properties}
    async with mqtt_gateway() as running:
        async with running.connected("reader", **options) as reader:
            await reader.subscribe(TOPIC)
            await running.publish(TOPIC, b"1")
            await running.publish(TOPIC, b"2")
            assert brief(await reader.read()) == (TOPIC, 1)
            assert brief(await reader.read()) == ("", 1)
            await reader.cut()
        async with running.connected("reader", **options) as reader:
            # What was in flight has its topic, whatever an earlier connection knew.
            assert brief(await reader.message()) == (TOPIC, None)
            assert brief(await reader.message()) == (TOPIC, None)
            await running.publish(TOPIC, b"3")
            assert brief(await reader.message()) == (TOPIC, 1)


def test_a_topic_that_is_no_longer_than_a_number_has_none():
    assert Aliases(5).of("abc") == NO_ALIAS
    assert Aliases(5).of("abcd") == Alias(1, is_known=False)


def test_what_is_remembered_for_a_client_is_bounded():
    many = Aliases(65_535)
    for number in range(2 * MOST):
        topic = f"topic/{number}"
        alias = many.of(topic)
        if alias.number:
            many.tell(topic, alias)
    assert many.of(f"topic/{MOST - 1}") == Alias(MOST, is_known=True)
    assert many.of(f"topic/{MOST}") == NO_ALIAS
    long = Aliases(65_535)
    for number in range(MOST_BYTES // 1024):
        topic = f"{number:01024}"
        long.tell(topic, long.of(topic))
    assert long.of("once more") == NO_ALIAS
