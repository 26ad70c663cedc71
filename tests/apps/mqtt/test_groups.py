"""Shared subscriptions: each message goes to one member of its group (MQ-12)."""

from contextlib import AsyncExitStack

import pytest
from mqtt_clients import KEPT, mqtt_gateway

from zaichik.apps.mqtt.packets import (
    Properties,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
)
from zaichik.apps.mqtt.tail import Tail

pytestmark = pytest.mark.anyio


async def test_members_take_turns_and_others_get_everything():
    async with mqtt_gateway() as running, AsyncExitStack() as stack:
        members = [await stack.enter_async_context(running.connected()) for _ in range(3)]
        other = await stack.enter_async_context(running.connected())
        await other.subscribe("t/#")
        for member in members:
            await member.subscribe("$share/g/t/#")
        for number in range(9):
            await running.publish("t/x", b"%d" % number)
        assert await other.payloads(9) == [b"%d" % number for number in range(9)]
        found = [await member.payloads(3) for member in members]
        assert found == [[b"0", b"3", b"6"], [b"1", b"4", b"7"], [b"2", b"5", b"8"]]
        for member in members:
            assert await member.nothing()


async def test_groups_of_other_names_and_filters_are_other_groups():
    async with mqtt_gateway() as running, running.connected() as one, running.connected() as two:
        await one.subscribe("$share/g/t", "$share/h/t")
        await two.subscribe("$share/g/+")
        await running.publish("t", b"1")
        assert await one.payloads(2) == [b"1", b"1"]
        assert await two.payloads(1) == [b"1"]


async def test_a_member_that_answers_nothing_holds_up_nobody():
    few = Properties(receive_maximum=1)
    async with (
        mqtt_gateway() as running,
        running.connected(properties=few) as stuck,
        running.connected() as busy,
    ):
        await stuck.subscribe("$share/g/t")
        await busy.subscribe("$share/g/t")
        for number in range(10):
            await running.publish("t", b"%d" % number)
        assert (await stuck.expect(Publish)).payload == b"0"
        assert await busy.payloads(9) == [b"%d" % number for number in range(1, 10)]


async def test_what_a_member_leaves_unacknowledged_goes_to_another_one():
    async with mqtt_gateway() as running, running.connected() as second:
        async with running.connected("first", **KEPT) as first:
            await first.subscribe("$share/g/t", qos=1)
            for number in range(3):
                await running.publish("t", b"%d" % number)
            assert (await first.message()).payload == b"0"
            await first.expect(Publish)
            await second.subscribe("$share/g/t", qos=1)
            await first.expect(Publish)
            await first.break_off()
        assert await second.payloads(2) == [b"1", b"2"]
        async with running.connected("first", clean_start=False, **KEPT) as first:
            assert await first.nothing()


async def test_qos_2_stays_with_its_member():
    async with mqtt_gateway() as running, running.connected() as second:
        async with running.connected("first", **KEPT) as first:
            await first.subscribe("$share/g/t")
            await running.publish("t", b"1", 2)
            message = await first.expect(Publish)
            await second.subscribe("$share/g/t")
            await first.break_off()
        assert await second.nothing()
        async with running.connected("first", clean_start=False, **KEPT) as first:
            again = await first.expect(Publish)
            assert (again.packet_id, again.dup) == (message.packet_id, True)
            await first.send(PubRec(again.packet_id))
            assert await first.read() == PubRel(again.packet_id)
            await first.send(PubComp(again.packet_id))
            await first.ping()
        assert await second.nothing()


async def test_a_group_does_not_wait_for_a_message_of_qos_2_whose_session_has_ended():
    async with mqtt_gateway() as running, running.connected() as second:
        await second.subscribe("$share/g/t")
        async with running.connected("first") as first:
            await first.subscribe("$share/g/t")
            for _ in range(2):
                await running.publish("t", b"1", 2)
            await first.expect(Publish)
            await first.break_off()
        assert await second.payloads(1) == [b"1"]
        await second.ping()
        (group,) = running.state.sessions.groups.values()
        assert group.position("mqtt") is None


async def test_a_refusal_ends_a_message_and_nobody_else_gets_it():
    async with mqtt_gateway() as running, running.connected() as one, running.connected() as two:
        await one.subscribe("$share/g/t")
        await running.publish("t", b"1", 2)
        message = await one.expect(Publish)
        await two.subscribe("$share/g/t")
        await one.send(PubRec(message.packet_id, ReasonCode.UNSPECIFIED_ERROR))
        assert await one.nothing()
        assert await two.nothing()


async def test_members_that_are_away_give_up_their_share_and_if_all_are_nothing_is_lost():
    async with mqtt_gateway(is_forgetful=True) as running:
        for name in ("a", "b"):
            async with running.connected(name, **KEPT) as member:
                await member.subscribe("$share/g/t")
                await member.disconnect()
        for number in range(4):
            await running.publish("t", b"%d" % number)
        async with running.connected("b", clean_start=False, **KEPT) as member:
            assert await member.payloads(4) == [b"0", b"1", b"2", b"3"]
            await member.disconnect()


@pytest.mark.parametrize("is_kill", [False, True], ids=["stopped", "killed"])
async def test_the_place_of_a_group_outlives_the_gateway(is_kill):
    async with (
        mqtt_gateway(is_forgetful=True) as running,
        running.connected("a", **KEPT) as member,
    ):
        await member.subscribe("$share/g/t")
        await running.publish("t", b"1")
        await running.publish("t", b"2")
        await member.message()
        await member.expect(Publish)
        await member.ping()
        await running.gateway.sweep()
        async with running.another(is_kill=is_kill) as second:
            await second.publish("t", b"3")
            async with second.connected("a", clean_start=False, **KEPT) as again:
                assert await again.payloads(2) == [b"2", b"3"]
                assert await again.nothing()


async def test_a_group_does_not_wait_for_what_a_member_was_never_sent():
    small = Properties(maximum_packet_size=100)
    async with mqtt_gateway() as running, running.connected(properties=small) as member:
        await member.subscribe("$share/g/t")
        await running.publish("t", b"x" * 200)
        await running.publish("t", b"1")
        assert await member.payloads(1) == [b"1"]
        await member.ping()
        (group,) = running.state.sessions.groups.values()
        assert group.position("mqtt") is None


async def test_a_group_goes_on_where_it_was_whichever_member_is_restored_first():
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as member:
            await member.subscribe("$share/g/t")
            await member.disconnect()
        await running.publish("t", b"1")
        async with running.connected("b", **KEPT) as member:
            await member.subscribe("$share/g/t")
            await member.expect(Publish)
            await member.break_off()
        # Its row is behind that of the other one now.
        async with running.connected("a", clean_start=False, **KEPT) as member:
            await member.expect(Publish)
            await member.break_off()
        async with (
            running.another(is_kill=True) as second,
            second.connected("b", clean_start=False, **KEPT) as member,
        ):
            assert await member.payloads(1) == [b"1"]


async def test_a_group_without_members_is_forgotten():
    async with mqtt_gateway() as running, running.connected() as member:
        await member.subscribe("$share/g/t")
        await running.publish("t", b"1")
        await member.expect(Publish)
        await member.unsubscribe("$share/g/t")
        assert running.state.sessions.groups == {}
        await running.publish("t", b"2")
        await member.subscribe("$share/g/t")
        assert await member.nothing()


@pytest.mark.parametrize("text", ["$share//t", "$share/a+/t", "$share/g/", "$share/g"])
async def test_a_share_without_a_name_or_filter_is_refused(text):
    async with mqtt_gateway() as running, running.connected() as client:
        answer = await client.subscribe(text)
        assert answer.reason_codes == (ReasonCode.TOPIC_FILTER_INVALID,)


async def test_a_group_that_ends_while_it_catches_up_leaves_nothing_behind(monkeypatch):
    init = Tail.__init__
    monkeypatch.setattr(
        Tail, "__init__", lambda self, space, end=0: init(self, space, end, most_bytes=3000)
    )
    few = Properties(receive_maximum=1)
    async with mqtt_gateway() as running, running.connected(properties=few) as member:
        await member.subscribe("$share/g/t")
        for number in range(30):
            await running.publish("t", b"%d" % number)
        assert await member.payloads(3) == [b"0", b"1", b"2"]
        await member.expect(Publish)
        await member.ping()
        assert len(running.state._stragglers) == 1
        await member.unsubscribe("$share/g/t")
        while running.state._stragglers:
            await running.settle()


async def test_a_group_that_has_fallen_behind_misses_nothing(monkeypatch):
    init = Tail.__init__
    monkeypatch.setattr(
        Tail, "__init__", lambda self, space, end=0: init(self, space, end, most_bytes=3000)
    )
    few = Properties(receive_maximum=2)
    async with (
        mqtt_gateway() as running,
        running.connected(properties=few) as one,
        running.connected(properties=few) as other,
    ):
        await one.subscribe("$share/g/t", qos=1)
        for number in range(40):
            await running.publish("t", b"%d" % number)
        stuck = [(await one.expect(Publish)).payload for _ in range(2)]
        await other.subscribe("$share/g/t", qos=1)
        assert await other.payloads(38) == [b"%d" % number for number in range(2, 40)]
        assert stuck == [b"0", b"1"]
