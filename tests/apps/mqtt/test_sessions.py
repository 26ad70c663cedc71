"""Sessions that outlive connections, gateways and brokers (MQ-8)."""

import json

import anyio
import pytest
from mqtt_clients import KEPT, V4, V5, mqtt_gateway

from zaichik.apps.mqtt import session_table
from zaichik.apps.mqtt.packets import (
    Disconnect,
    PingReq,
    Properties,
    PubComp,
    Publish,
    PubRec,
    PubRel,
)
from zaichik.apps.mqtt.tail import Tail
from zaichik.apps.mqtt.topics import NotATable, prepare

pytestmark = pytest.mark.anyio
kills = pytest.mark.parametrize("is_kill", [False, True], ids=["stopped", "killed"])
AGAIN = {"clean_start": False} | KEPT


async def away(running, *filters, name="a", version=V5, qos=2):
    """A session with these filters, whose client has left."""
    options = KEPT
    if version is V4:
        options = {"clean_start": False}
    async with running.connected(name, version, **options) as client:
        await client.subscribe(*filters, qos=qos)
        await client.disconnect()


@pytest.mark.parametrize("version", [V4, V5], ids=["3.1.1", "5"])
async def test_what_came_while_a_client_was_away_is_sent_when_it_is_back(version):
    async with mqtt_gateway() as running:
        await away(running, "a/#", version=version)
        for number in range(5):
            await running.publish("a/b", b"%d" % number, 1 + number % 2)
            await running.publish("other", b"")
        options = {"clean_start": False}
        if version is V5:
            options = AGAIN
        async with running.connected("a", version, **options) as client:
            assert await client.payloads(5) == [b"0", b"1", b"2", b"3", b"4"]
            assert await client.nothing()


async def test_a_message_of_qos_0_is_not_kept_for_a_client_that_is_away():
    async with mqtt_gateway() as running:
        await away(running, "a")
        await running.publish("a", b"1", 0)
        async with running.connected("a", **AGAIN) as client:
            assert await client.nothing()


async def test_what_was_in_flight_comes_again_under_the_same_identifier_marked_as_such():
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as client:
            await client.subscribe("t")
            await running.publish("t", b"1")
            await running.publish("t", b"2", 2)
            first = [await client.expect(Publish) for _ in range(2)]
            await client.break_off()
        async with running.connected("a", **AGAIN) as client:
            again = [await client.message() for _ in range(2)]
        assert [one.dup for one in first + again] == [False, False, True, True]
        assert [one.packet_id for one in again] == [one.packet_id for one in first]
        assert [one.payload for one in again] == [b"1", b"2"]


async def test_a_message_of_qos_2_that_was_received_is_released_again_and_not_sent_again():
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as client:
            await client.subscribe("t")
            await running.publish("t", b"1", 2)
            message = await client.expect(Publish)
            await client.send(PubRec(message.packet_id))
            assert await client.read() == PubRel(message.packet_id)
            await client.break_off()
        async with running.connected("a", **AGAIN) as client:
            assert await client.read() == PubRel(message.packet_id)
            await client.send(PubComp(message.packet_id))
            assert await client.nothing()
            await client.disconnect()
        async with running.connected("a", **AGAIN) as client:
            assert await client.nothing()


async def test_a_message_of_qos_2_from_a_client_that_comes_back_is_stored_once():
    message = Publish("t", b"1", qos=2, packet_id=7)
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as client:
            await client.send(message)
            assert await client.read() == PubRec(7)
            await client.break_off()
        async with running.connected("a", **AGAIN) as client:
            await client.send(Publish("t", b"1", qos=2, packet_id=7, dup=True))
            assert await client.read() == PubRec(7)
            await client.send(PubRel(7))
            assert await client.read() == PubComp(7)
        assert len(await running.stored()) == 1


async def test_an_acknowledged_message_does_not_come_again():
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as client:
            await client.subscribe("t")
            for number in range(3):
                await running.publish("t", b"%d" % number)
            messages = [await client.expect(Publish) for _ in range(3)]
            await client.acknowledge(messages[1])
            await client.break_off()
        async with running.connected("a", **AGAIN) as client:
            assert await client.payloads(2) == [b"0", b"2"]
            assert await client.nothing()


# -- expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "is_present"), [(3599, True), (3601, False)])
async def test_a_session_is_kept_for_as_long_as_its_client_has_said(seconds, is_present):
    async with mqtt_gateway() as running:
        await away(running, "a")
        await running.pass_time(seconds)
        async with running.connecting("a", **AGAIN) as (client, answer):
            assert answer.session_present == is_present
            await client.ping()


async def test_a_client_may_change_the_expiry_when_it_leaves():
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as client:
            await client.send(Disconnect(properties=Properties(session_expiry_interval=10)))
            assert await client.ended()
        await running.pass_time(11)
        async with running.connecting("a", **AGAIN) as (_, answer):
            assert not answer.session_present


async def test_a_session_whose_client_is_there_does_not_expire():
    async with mqtt_gateway() as running, running.connected("a", **KEPT) as client:
        await client.subscribe("t")
        await running.pass_time(10_000)
        await running.publish("t", b"1")
        assert (await client.message()).payload == b"1"


async def test_a_session_that_has_ended_leaves_nothing_behind():
    async with mqtt_gateway() as running:
        await away(running, "a", "$share/g/b")
        await running.pass_time(3601)
        await running.settle()
        state = running.state
        assert (state.sessions.all, state.sessions.groups) == ({}, {})
        rows = {message.key: message.payload for message in await running.stored("mqtt/sessions")}
        assert [key for key, payload in rows.items() if payload] == [b"\0\0gateway"]
        assert state.sources.subscriptions.matching("a") == {}


# -- gateways that end ---------------------------------------------------------------------------


@kills
async def test_another_gateway_sends_what_came_before_and_after(is_kill):
    async with mqtt_gateway(is_forgetful=True) as running:
        await away(running, "t")
        await running.publish("t", b"1")
        async with running.another(is_kill=is_kill) as second:
            await second.publish("t", b"2")
            async with second.connecting("a", **AGAIN) as (client, answer):
                assert answer.session_present
                assert await client.payloads(2) == [b"1", b"2"]
                assert await client.nothing()


@kills
async def test_what_was_not_acknowledged_comes_again_from_another_gateway(is_kill):
    async with (
        mqtt_gateway(is_forgetful=True) as running,
        running.connected("a", **KEPT) as client,
    ):
        await client.subscribe("t")
        await running.publish("t", b"1")
        await client.expect(Publish)
        await running.gateway.sweep()
        await running.publish("t", b"2")
        await client.expect(Publish)
        async with (
            running.another(is_kill=is_kill) as second,
            second.connected("a", **AGAIN) as again,
        ):
            assert await again.payloads(2) == [b"1", b"2"]
            assert await again.nothing()


@kills
async def test_a_message_is_not_taken_for_one_that_an_earlier_gateway_has_sent(is_kill):
    """A client has the identifiers of QoS 2 that it was not told to forget (MQTT-4.3.3-10)."""
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as reader:
            await reader.subscribe("t")
            for number in range(3):
                await running.publish("t", b"%d" % number, 2)
            assert await reader.payloads(2) == [b"0", b"1"]
            # It is cut off before it is told to forget this one.
            last = await reader.expect(Publish)
            await reader.send(PubRec(last.packet_id))
            await reader.cut()
        await running.pass_time(1)
        async with running.another(is_kill=is_kill) as second:
            for number in range(3, 6):
                await second.publish("t", b"%d" % number, 2)
            async with second.connected("a", clean_start=False, **KEPT) as reader:
                taken, payloads = {last.packet_id}, []
                while b"5" not in payloads:
                    packet = await reader.read()
                    if isinstance(packet, PubRel):
                        taken.discard(packet.packet_id)
                        await reader.send(PubComp(packet.packet_id))
                        continue
                    if packet.packet_id not in taken:
                        payloads.append(packet.payload)
                    taken.add(packet.packet_id)
                    await reader.send(PubRec(packet.packet_id))
                assert payloads == [b"2", b"3", b"4", b"5"]


async def test_what_was_acknowledged_does_not_come_again_after_a_stop():
    async with mqtt_gateway() as running, running.connected("a", **KEPT) as client:
        await client.subscribe("t")
        await running.publish("t", b"1")
        await client.message()
        await client.ping()
        async with running.another() as second, second.connected("a", **AGAIN) as again:
            assert await again.nothing()


async def test_a_message_within_a_second_of_suback_is_not_lost_when_the_gateway_is_killed():
    async with (
        mqtt_gateway(is_forgetful=True) as running,
        running.connected("a", **KEPT) as client,
    ):
        await client.subscribe("t")
        await running.client.publish("mqtt", b"1", "t")
        async with (
            running.another(is_kill=True) as second,
            second.connected("a", **AGAIN) as again,
        ):
            assert await again.payloads(1) == [b"1"]


@kills
async def test_expiry_counts_over_restarts(is_kill):
    async with mqtt_gateway() as running:
        await away(running, "t")
        running.clock.advance(1800)
        async with running.another(is_kill=is_kill) as second:
            await second.pass_time(1801)
            async with second.connecting("a", **AGAIN) as (_, answer):
                assert not answer.session_present


async def test_a_session_that_was_there_when_the_gateway_was_killed_left_about_then():
    async with mqtt_gateway() as running, running.connected("a", **KEPT) as client:
        await client.subscribe("t")
        await running.pass_time(10_000)
        async with (
            running.another(is_kill=True) as second,
            second.connecting("a", **AGAIN) as (_, answer),
        ):
            assert answer.session_present


async def test_a_durable_broker_and_its_gateway_may_both_be_restarted(tmp_path):
    for number in range(3):
        async with mqtt_gateway(data=tmp_path, is_forgetful=True) as running:
            async with running.connecting("a", **AGAIN) as (client, answer):
                assert answer.session_present == (number > 0)
                if number:
                    assert await client.payloads(1) == [b"%d" % number]
                await client.subscribe("t")
                await client.disconnect()
            await running.publish(
                "t",
                b"%d" % (number + 1),
            )
            assert (await running.client.topic("mqtt"))["settings"]["durable"]


async def test_rows_that_cannot_be_read_are_passed_over(caplog):
    async with mqtt_gateway() as running:
        await away(running, "t")
        bad = {"x": b"no JSON", "y": b"[]", "z": json.dumps({"format": 99}).encode()}
        bad["w"] = json.dumps({"format": session_table.FORMAT, "expiry_s": None}).encode()
        for key, row in bad.items():
            for table in ("mqtt/sessions", "mqtt/wills", "mqtt/retained"):
                await running.client.publish(table, row, key)
        async with running.another() as second:
            assert second.state.counters.unsaved == 12
            async with second.connecting("a", **AGAIN) as (_, answer):
                assert answer.session_present
    assert caplog.text.count("is passed over") == 12


def session(**members):
    row = {"format": 1, "expiry_s": 60, "left_us": None, "positions": {}, "filters": []}
    return json.dumps(row | members).encode()


def a_filter(**members):
    one = {"filter": "t", "qos": 1, "no_local": False, "retain_as_published": False}
    return session(filters=[one | {"identifier": 0, "starts": {"mqtt": 0}} | members])


def will(**members):
    row = {"format": 1, "topic": "t", "payload": "", "qos": 0, "retain": False, "properties": ""}
    return json.dumps(row | {"delay_s": 0, "number": 1} | members).encode()


def own(**members):
    return json.dumps({"format": 1, "at_us": 0, "ends": {}, "epochs": {}} | members).encode()


INFINITE = float("inf")
RUBBISH = [
    ("mqtt/sessions", "x", b"[" * 100_000),
    ("mqtt/sessions", "x", session(expiry_s=INFINITE)),
    ("mqtt/sessions", "x", session(expiry_s=-1)),
    ("mqtt/sessions", "x", session(positions={"mqtt": -1})),
    ("mqtt/sessions", "x", session(positions={"mqtt": 2**64})),
    ("mqtt/sessions", "x", a_filter(filter="a/#/b")),
    ("mqtt/sessions", "x", a_filter(filter="\ud800")),
    ("mqtt/sessions", "x", a_filter(qos=3)),
    ("mqtt/sessions", "x", a_filter(identifier=2**40)),
    ("mqtt/sessions", session_table.GROUP + "$share/g/t", b'{"format":1,"positions":{"mqtt":-1}}'),
    ("mqtt/sessions", session_table.GATEWAY, own(ends={"mqtt": -1})),
    ("mqtt/sessions", session_table.GATEWAY, own(ends={"mqtt": 2**70})),
    ("mqtt/sessions", session_table.GATEWAY, own(at_us=INFINITE)),
    ("mqtt/wills", "x", b"[" * 100_000),
    ("mqtt/wills", "x", will(number=2**64)),
    ("mqtt/wills", "x", will(number=-1)),
    ("mqtt/wills", "x", will(delay_s=INFINITE)),
    ("mqtt/wills", "x", will(topic="a/#")),
    ("mqtt/wills", "x", will(topic="\ud800")),
    ("mqtt/wills", "x", will(qos=3)),
    ("mqtt/retained", "a/#", b"\1\0" + bytes(10) + b"1"),
    ("mqtt/retained", "a\0b", b"\1\0" + bytes(10) + b"1"),
    ("mqtt/retained", "a", b"\1\0" + bytes(8) + b"\xff\xff" + b"1"),
]


@pytest.mark.parametrize(("table", "key", "row"), RUBBISH)
async def test_rubbish_in_a_row_is_passed_over_and_hurts_nobody(table, key, row):
    async with mqtt_gateway() as running:
        running.stop()
        await running.stopped.wait()
        await running.client.publish(table, row, key)
        async with running.another() as second:
            assert second.state.counters.unsaved == 1
            await second.pass_time(1)
            async with second.connected("x", **AGAIN) as client:
                await client.subscribe("#")
                await second.publish("t", b"1")
                assert (await client.message()).payload == b"1"
                assert await client.nothing()


async def test_a_broker_that_has_lost_its_topics_begins_anew_with_the_gateway(caplog):
    async with mqtt_gateway() as running, running.connected("a", **KEPT) as client:
        for number in range(5):
            await running.publish("other", b"%d" % number)
        await client.subscribe("t")
        await running.pass_time(1)
        await running.client.delete_topic("mqtt")
        await client.reason()
        while running.state.is_over:
            await anyio.lowlevel.checkpoint()
        # Its session is in a table, which is still there; offsets begin anew.
        await running.publish("t", b"1")
        async with running.connected("a", **AGAIN) as client:
            assert await client.payloads(1) == [b"1"]
    assert "has lost its topics" in caplog.text


async def test_places_in_a_topic_that_was_made_anew_are_forgotten():
    async with mqtt_gateway() as running:
        for number in range(9):
            await running.publish("other", b"%d" % number)
        await away(running, "t")
        running.stop()
        await running.stopped.wait()
        await running.client.delete_topic("mqtt")
        async with running.another() as second:
            await second.publish("t", b"1")
            async with second.connected("a", **AGAIN) as client:
                await second.settle()
                await client.send(PingReq())
                assert (await client.expect(Publish)).payload == b"1"


async def test_a_topic_that_should_be_a_table_is_named():
    async with mqtt_gateway() as running:
        running.stop()
        await running.stopped.wait()
        await running.client.delete_topic("mqtt/wills")
        await running.client.create_topic("mqtt/wills")
        with pytest.raises(NotATable, match="mqtt/wills is a topic, and must be a table"):
            await prepare(running.client)


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_client_that_has_fallen_behind_what_is_kept_for_all_misses_nothing(
    monkeypatch, qos
):
    init = Tail.__init__
    monkeypatch.setattr(
        Tail, "__init__", lambda self, space, end=0: init(self, space, end, most_bytes=3000)
    )
    few = Properties(receive_maximum=2, session_expiry_interval=100)
    async with mqtt_gateway() as running:
        async with running.connected("a", properties=few) as client:
            await client.subscribe("t", qos=1)
            for number in range(40):
                await running.publish("t", b"%d" % number, 1)
            assert await client.payloads(40) == [b"%d" % number for number in range(40)]
            await running.publish("t", b"live", qos)
            assert (await client.message()).payload == b"live"
            await client.disconnect()
        for number in range(40):
            await running.publish("t", b"%d" % number, 1)
            await running.publish("other", b"")
        async with running.connected("a", clean_start=False, properties=few) as client:
            assert await client.payloads(40) == [b"%d" % number for number in range(40)]
            assert await client.nothing()


async def kept(running) -> int:
    """How many messages the broker keeps, when it has dropped what nobody needs."""
    running.broker.broker.sweep()
    state = await running.client.topic("mqtt")
    return state["next_offset"] - state["head"]


async def test_the_broker_keeps_what_a_session_that_is_away_needs_and_no_more():
    async with mqtt_gateway(is_forgetful=True) as running:
        await away(running, "t")
        for number in range(10):
            await running.publish("other", b"%d" % number)
        await running.settle()
        await running.pass_time(1)
        assert await kept(running) == 0
        await running.publish("t", b"mine")
        for number in range(10):
            await running.publish("other", b"%d" % number)
        await running.settle()
        await running.pass_time(1)
        assert await kept(running) == 12
        async with running.connected("a", **AGAIN) as client:
            assert await client.payloads(1) == [b"mine"]


async def test_idle_sessions_cost_no_rows():
    async with mqtt_gateway() as running:
        for number in range(5):
            await away(running, f"t/{number}", name=f"a{number}")
        before = len(await running.stored("mqtt/sessions"))
        for _ in range(5):
            await running.publish("other", b"")
            await running.pass_time(1)
        topic = await running.client.topic("mqtt/sessions")
        assert len(await running.stored("mqtt/sessions")) <= before + 1
        assert topic["next_offset"] >= before


async def test_the_positions_of_many_sessions_are_stored_in_batches_that_the_broker_takes():
    """Each row has all filters of its session."""
    async with mqtt_gateway() as running:
        filters = [f"{number}/" + "x" * 1000 for number in range(60)]
        for number in range(20):
            await away(running, "a", *filters, name=f"client {number}")
        await running.publish("a", b"1")
        await running.state.save()
        rows = [row for row in running.state.sessions.all.values() if row.saved]
        assert len(rows) == 20
