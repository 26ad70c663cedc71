"""MQTT's topics as keys, and trees of them that are topics of the broker (MQ-1, MQ-2, MQ-3)."""

import pytest
from mqtt_clients import KEPT, mqtt_gateway

from zaichik.apps.mqtt.packets import Properties, ReasonCode, encode_properties
from zaichik.apps.mqtt.spaces import Address, Spaces, is_storable


@pytest.mark.parametrize(
    ("topic", "address"),
    [
        ("home/temp", Address("mqtt", b"home/temp")),
        ("orders", Address("orders", b"")),
        ("orders/new/17", Address("orders", b"new/17")),
        ("orders/eu", Address("orders/eu", b"")),
        ("orders/eu/1", Address("orders/eu", b"1")),
        ("orders2/x", Address("mqtt", b"orders2/x")),
    ],
)
def test_a_topic_has_one_place_and_is_found_again(topic, address):
    spaces = Spaces(["orders", "orders/eu"])
    assert spaces.address(topic) == address
    assert spaces.topic(address.space, address.key or None) == (topic, b"")
    with_properties = spaces.address(topic, b"\x02\x01\x01")
    assert spaces.topic(with_properties.space, with_properties.key) == (topic, b"\x02\x01\x01")


@pytest.mark.parametrize(
    ("topic_filter", "expected"),
    [
        ("#", {"mqtt", "orders", "orders/eu"}),
        ("+/eu", {"mqtt", "orders", "orders/eu"}),
        ("orders/#", {"orders", "orders/eu"}),
        ("orders/eu/+", {"orders/eu"}),
        ("orders/us/+", {"orders"}),
        ("orders", {"orders"}),
        ("home/#", {"mqtt"}),
    ],
)
def test_a_filter_reaches_the_topics_that_it_can_match(topic_filter, expected):
    assert expected <= set(Spaces(["orders", "orders/eu"]).reachable(topic_filter))


def test_what_is_too_long_for_a_key_cannot_be_stored():
    assert is_storable(Address("mqtt", b"x" * 1024))
    assert not is_storable(Address("mqtt", b"x" * 1025))
    assert is_storable(Address("orders", b""))


@pytest.mark.anyio
async def test_existing_topics_are_read_and_written_over_mqtt():
    async with mqtt_gateway(trees=("orders",)) as running, running.connected() as client:
        await client.subscribe("orders/#", "home", qos=1)
        await running.client.publish("orders", b"1", "new/17")
        await running.client.publish("orders", b"2")
        messages = [await client.message() for _ in range(2)]
        assert [(one.topic, one.payload) for one in messages] == [
            ("orders/new/17", b"1"),
            ("orders", b"2"),
        ]
        async with running.client.subscribe("orders", start="latest") as subscription:
            await client.publish("orders/done/17", b"3")
            message = await anext(subscription)
            assert (message.key, message.payload) == (b"done/17", b"3")
        assert await running.stored() == []


@pytest.mark.anyio
async def test_a_tree_has_no_topic_with_an_empty_last_level():
    async with mqtt_gateway(trees=("orders",)) as running, running.connected() as client:
        answer = await client.publish("orders/", b"1")
        assert answer.reason_code == ReasonCode.TOPIC_NAME_INVALID


@pytest.mark.anyio
async def test_a_session_has_a_place_in_each_tree():
    kept = {"clean_start": False} | KEPT
    async with mqtt_gateway(trees=("orders",)) as running:
        async with running.connected("a", **kept) as client:
            await client.subscribe("#")
            await client.disconnect()
        for number in range(6):
            await running.publish(("x", "orders/x")[number % 2], b"%d" % number)
        async with running.connected("a", **kept) as client:
            found = await client.payloads(6)
            assert sorted(found) == [b"%d" % number for number in range(6)]
            assert [one for one in found if int(one) % 2] == [b"1", b"3", b"5"]


@pytest.mark.anyio
async def test_a_window_of_the_topic_limits_the_rate_of_each_sensor():
    async with mqtt_gateway(is_forgetful=True) as running:
        await running.client.delete_topic("mqtt")
        await running.client.create_topic("mqtt", compaction_window=10)
        while running.state.is_over:
            await running.client.ping()
        async with running.connected() as client, running.connected() as sensors:
            await client.subscribe("#")
            for number in range(3):
                for sensor in ("a", "b"):
                    answer = await sensors.publish(sensor, b"%d" % number)
                    assert not answer.reason_code.is_failure
            assert await client.payloads(2) == [b"0", b"0"]
            assert await client.nothing()


@pytest.mark.anyio
async def test_keys_that_are_no_mqtt_topics_are_passed_over():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.subscribe("#")
        for key in (None, b"\xff", "a/+", b"\0x"):
            await running.client.publish("mqtt", b"1", key)
        await running.client.publish("mqtt", b"2", b"a\0\xff")
        message = await client.message()
        assert (message.topic, message.properties) == ("a", Properties())
        assert running.state.counters.unreadable == 4


@pytest.mark.anyio
async def test_properties_of_one_hop_in_a_key_reach_no_client():
    """A client that is sent an alias it has not offered must disconnect, and would each time."""
    written = encode_properties(
        Properties(topic_alias=7, subscription_identifiers=(9,), content_type="c")
    )
    async with mqtt_gateway() as running, running.connected() as client:
        await client.subscribe("#")
        await running.client.publish("mqtt", b"1", b"a\0" + written)
        message = await client.message()
        assert (message.topic, message.properties) == ("a", Properties(content_type="c"))
