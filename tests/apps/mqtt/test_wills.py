"""Wills: each is published once, unless its client has said goodbye (MQ-11)."""

import anyio
import pytest
from mqtt_clients import KEPT, V4, V5, MqttClient, mqtt_gateway

import zaichik
from zaichik.apps.mqtt.packets import ConnAck, Connect, Disconnect, Properties, ReasonCode, Will
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Error, ErrorCode

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("version", [V4, V5], ids=["3.1.1", "5"])

FULL = Error(0, ErrorCode.TABLE_FULL, 0, "", 0, "the table is full")
GONE = Will("gone", b"a", qos=1)


def later(seconds):
    return Will("gone", b"a", qos=1, properties=Properties(will_delay_interval=seconds))


async def wills(running):
    """What was published."""
    return [message.payload for message in await running.stored() if message.key == b"gone"]


async def rows(running):
    """Those that another gateway would publish."""
    found = {message.key: message.payload for message in await running.stored("mqtt/wills")}
    return [key for key, payload in found.items() if payload]


@both
async def test_a_client_that_is_cut_off_leaves_its_will(version):
    async with mqtt_gateway() as running, running.connected() as reader:
        await reader.subscribe("gone")
        async with running.connected("a", version, will=GONE) as client:
            assert await rows(running) == [b"a"]
            await client.break_off()
        assert (await reader.message()).payload == b"a"
        assert await rows(running) == []


@both
async def test_a_client_that_says_goodbye_leaves_none(version):
    async with mqtt_gateway() as running:
        async with running.connected("a", version, will=GONE) as client:
            await client.disconnect()
        assert (await wills(running), await rows(running)) == ([], [])


async def test_a_goodbye_with_the_will_leaves_it():
    async with mqtt_gateway() as running:
        async with running.connected("a", will=GONE) as client:
            await client.send(Disconnect(ReasonCode.DISCONNECT_WITH_WILL))
            assert await client.ended()
        assert await wills(running) == [b"a"]


async def test_silence_and_malformed_packets_leave_it():
    async with mqtt_gateway() as running:
        async with running.connected("a", keep_alive=10, will=GONE) as client:
            await running.pass_time(16)
            await client.reason()
        assert await wills(running) == [b"a"]
        async with running.connected("a", will=GONE) as client:
            await client.send(b"\xc1\0")
            await client.reason()
        assert await wills(running) == [b"a", b"a"]


async def test_a_will_may_be_retained_and_has_its_properties():
    properties = Properties(content_type="x")
    will = Will("gone", b"a", qos=2, retain=True, properties=properties)
    async with mqtt_gateway() as running:
        async with running.connected("a", will=will) as client:
            await client.break_off()
        async with running.connected() as late:
            await late.subscribe("gone")
            message = await late.message()
            assert (message.retain, message.properties) == (True, properties)


@pytest.mark.parametrize("topic", ["a/#", "$SYS/a", "x" * 1025])
async def test_the_topic_of_a_will_is_judged_when_the_client_connects(topic):
    async with mqtt_gateway() as running, running.connecting("a", will=Will(topic, b"")) as found:
        client, answer = found
        assert answer.reason_code.is_failure
        assert await client.ended()


# -- delays --------------------------------------------------------------------------------------


async def test_a_delayed_will_waits_for_its_time():
    async with mqtt_gateway() as running:
        async with running.connected("a", will=later(60), **KEPT) as client:
            await client.break_off()
        await running.pass_time(59)
        assert await wills(running) == []
        await running.pass_time(2)
        assert (await wills(running), await rows(running)) == ([b"a"], [])


async def test_a_client_that_is_back_in_time_has_no_will_published():
    async with mqtt_gateway() as running:
        async with running.connected("a", will=later(60), **KEPT) as client:
            await client.break_off()
        async with running.connected("a", clean_start=False, **KEPT) as client:
            await running.pass_time(100)
            assert (await wills(running), await rows(running)) == ([], [])
            await client.disconnect()


async def test_a_delayed_will_does_not_outlast_its_session():
    short = Properties(session_expiry_interval=10)
    async with mqtt_gateway() as running:
        async with running.connected("a", will=later(60), properties=short) as client:
            await client.break_off()
        await running.pass_time(11)
        assert await wills(running) == [b"a"]


async def test_a_clean_start_ends_the_session_and_has_its_will_published_at_once():
    async with mqtt_gateway() as running:
        async with running.connected("a", will=later(60), **KEPT) as client:
            await client.break_off()
        async with running.connected("a", will=later(60), **KEPT) as client:
            assert await wills(running) == [b"a"]
            await client.disconnect()
        await running.pass_time(100)
        assert await wills(running) == [b"a"]


@both
async def test_a_take_over_publishes_a_will_without_a_delay(version):
    options = {"clean_start": False}
    if version is V5:
        options |= KEPT
    async with (
        mqtt_gateway() as running,
        running.connected("a", version, will=GONE, **options),
        running.connected("a", version, **options),
    ):
        assert await wills(running) == [b"a"]


async def test_a_take_over_revokes_a_delayed_will_if_the_session_goes_on():
    async with (
        mqtt_gateway() as running,
        running.connected("a", will=later(60), **KEPT),
        running.connected("a", clean_start=False, **KEPT) as client,
    ):
        await running.pass_time(100)
        assert await wills(running) == []
        await client.disconnect()


async def test_a_client_that_was_refused_leaves_no_will_and_no_session(monkeypatch):
    async with mqtt_gateway() as running:
        publish = running.client.publish

        async def refusing(topic, payload, key):
            if topic == "mqtt/sessions" and payload is not None:
                raise zaichik.BrokerError.of(FULL)
            return await publish(topic, payload, key)

        monkeypatch.setattr(running.client, "publish", refusing)
        forever = Properties(session_expiry_interval=0xFFFFFFFF)
        async with running.connecting("a", will=GONE, properties=forever) as (client, answer):
            assert answer.reason_code == ReasonCode.QUOTA_EXCEEDED
            assert await client.ended()
        monkeypatch.undo()
        assert running.state.sessions.all == {}
        assert await rows(running) == []
        async with running.another(is_kill=True) as second:
            await second.gateway.sweep()
            assert await wills(second) == []


async def test_a_client_that_is_back_at_once_keeps_its_session_and_its_new_will(monkeypatch):
    """The end of a connection is stored before another one may begin with the session."""
    async with mqtt_gateway() as running:
        publish = running.client.publish
        begun, goes_on = anyio.Event(), anyio.Event()

        async def slow(topic, payload, key):
            if topic == "mqtt/wills" and payload is None and not begun.is_set():
                begun.set()
                await goes_on.wait()
            return await publish(topic, payload, key)

        monkeypatch.setattr(running.client, "publish", slow)
        async with running.connected("a", will=GONE) as first:
            await first.send(Disconnect())
            await begun.wait()
            async with running.stream() as stream:
                second = MqttClient(stream, V5)
                await second.send(Connect(V5, "a", clean_start=False, will=GONE, **KEPT))
                await anyio.wait_all_tasks_blocked()
                goes_on.set()
                assert not (await second.expect(ConnAck)).session_present
                await second.subscribe("t")
                assert await first.ended()
                await running.publish("t", b"1")
                assert (await second.message()).payload == b"1"
                assert await rows(running) == [b"a"]
                await second.disconnect()


async def test_a_will_that_is_being_published_does_not_take_a_newer_one_along(monkeypatch):
    async with mqtt_gateway() as running:
        async with running.connected("a", will=later(60), **KEPT) as client:
            await client.break_off()
        publish_batch = running.client.publish_batch
        begun, goes_on = anyio.Event(), anyio.Event()

        async def slow(topic, *arguments, **options):
            if topic == "mqtt":
                begun.set()
                await goes_on.wait()
            return await publish_batch(topic, *arguments, **options)

        monkeypatch.setattr(running.client, "publish_batch", slow)
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(running.pass_time, 61)
            await begun.wait()
            async with running.connected("a", will=GONE, clean_start=False, **KEPT) as client:
                goes_on.set()
                while not await wills(running):
                    await anyio.lowlevel.checkpoint()
                await client.ping()
                await running.gateway.sweep()
                assert await rows(running) == [b"a"]
                await client.disconnect()


# -- gateways that end ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_kill", [False, True], ids=["stopped", "killed"])
async def test_a_gateway_that_ends_leaves_each_will_published_once(is_kill):
    async with (
        mqtt_gateway() as running,
        running.connected("a", will=GONE),
        running.another(is_kill=is_kill) as second,
    ):
        await second.gateway.sweep()
        assert (await wills(second), await rows(second)) == ([b"a"], [])


async def test_a_delay_begins_anew_with_another_gateway():
    async with (
        mqtt_gateway() as running,
        running.connected("a", will=later(60), **KEPT),
        running.another(is_kill=True) as second,
    ):
        await second.pass_time(59)
        assert await wills(second) == []
        await second.pass_time(2)
        assert await wills(second) == [b"a"]


async def test_a_delay_does_not_begin_anew_where_the_session_has_ended_with_the_gateway():
    """[MQTT-3.1.3-9]: a will waits no longer than its session lasts."""
    async with (
        mqtt_gateway() as running,
        running.connected("a", will=later(60)),
        running.another(is_kill=True) as second,
    ):
        await second.gateway.sweep()
        assert (await wills(second), await rows(second)) == ([b"a"], [])


async def test_a_will_is_published_once_even_if_its_row_stays(monkeypatch):
    async with mqtt_gateway() as running:
        async with running.connected("a", will=GONE) as client:
            (row,) = await running.stored("mqtt/wills")
            await client.break_off()
        await running.client.publish("mqtt/wills", row.payload, row.key)
        async with running.another(is_kill=True) as second:
            await second.gateway.sweep()
            assert (await wills(second), await rows(second)) == ([b"a"], [])
