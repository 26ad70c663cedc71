"""Retained messages (MQ-9, MQ-10)."""

import anyio
import pytest
from anyio.lowlevel import checkpoint
from mqtt_clients import KEPT, V4, V5, mqtt_gateway, without_id

from zaichik.apps.mqtt import forwarding
from zaichik.apps.mqtt import retained as retained_module
from zaichik.apps.mqtt.packets import Properties, Publish, ReasonCode
from zaichik.apps.mqtt.retained import Retained, Row, UnreadableRow
from zaichik.apps.mqtt.session import Session, SessionId
from zaichik.apps.mqtt.spaces import Spaces
from zaichik.apps.mqtt.subscription import Subscription

both = pytest.mark.parametrize("version", [V4, V5], ids=["3.1.1", "5"])


@pytest.mark.anyio
@both
async def test_a_new_subscriber_gets_the_newest_of_each_topic_that_matches(version):
    async with mqtt_gateway() as running:
        for topic, payload in [("a/1", b"old"), ("a/1", b"new"), ("a/2", b"x"), ("b", b"y")]:
            await running.publish(topic, payload, retain=True)
        async with running.connected(version=version) as client:
            await client.subscribe("a/+")
            found = [without_id(await client.message()) for _ in range(2)]
            assert found == [
                Publish("a/1", b"new", qos=1, retain=True),
                Publish("a/2", b"x", qos=1, retain=True),
            ]
            assert await client.nothing()


@pytest.mark.anyio
@both
async def test_a_live_message_has_no_retain_flag(version):
    async with mqtt_gateway() as running, running.connected(version=version) as client:
        await client.subscribe("a")
        await running.publish("a", b"1", retain=True)
        assert not (await client.message()).retain
        assert await client.nothing()


@pytest.mark.anyio
async def test_the_flag_of_a_live_message_stays_for_a_client_that_asks_for_it():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.subscribe("a", retain_as_published=True)
        await running.publish("a", b"1", retain=True)
        await running.publish("a", b"2")
        assert [(await client.message()).retain for _ in range(2)] == [True, False]


@pytest.mark.anyio
async def test_an_empty_message_deletes_and_is_delivered_to_those_who_are_there():
    async with mqtt_gateway() as running, running.connected() as there:
        await there.subscribe("a")
        await running.publish("a", b"1", retain=True)
        await running.publish("a", b"", retain=True)
        assert await there.payloads(2) == [b"1", b""]
        async with running.connected() as late:
            await late.subscribe("a")
            assert await late.nothing()
        # To delete what is not there leaves no tombstone.
        before = len(await running.stored("mqtt/retained"))
        await running.publish("a", b"", retain=True)
        assert len(await running.stored("mqtt/retained")) == before


@pytest.mark.anyio
@pytest.mark.parametrize(("handling", "counts"), [(0, [1, 1]), (1, [1, 0]), (2, [0, 0])])
async def test_a_client_may_ask_for_them_always_if_the_filter_is_new_or_never(handling, counts):
    async with mqtt_gateway() as running, running.connected() as client:
        await running.publish("a", b"1", retain=True)
        for count in counts:
            await client.subscribe("a", retain_handling=handling)
            assert len(await client.payloads(count)) == count
            assert await client.nothing()


@pytest.mark.anyio
async def test_a_client_that_acknowledges_nothing_does_not_have_them_pile_up():
    """However often it subscribes: what waits for a filter is sent once."""
    few = Properties(receive_maximum=1)
    async with mqtt_gateway() as running:
        await running.publish("a", b"1", retain=True)
        await running.publish("b", b"2", retain=True)
        async with running.connected("it", properties=few) as client:
            await client.subscribe("a", qos=1)
            unanswered = await client.read()
            for number in range(20):
                await client.subscribe(f"b/{number}/#", "b/#", "b/#", qos=1)
                await client.unsubscribe(f"b/{number}/#")
            delivery = running.state.sessions.all[SessionId("it")].delivery
            assert len(delivery._retained) <= 3
            await client.acknowledge(unanswered)
            assert await client.payloads(1) == [b"2"]
            assert await client.nothing()


@pytest.mark.anyio
async def test_others_have_their_turn_before_the_next_filter_is_searched_for(monkeypatch):
    """A filter may have to be compared with all topics."""
    events = []
    matching = Retained.matching

    def noted(*arguments):
        yield from matching(*arguments)
        events.append("searched")

    async def other():
        while True:
            events.append("turn")
            await checkpoint()

    monkeypatch.setattr(Retained, "matching", noted)
    async with mqtt_gateway() as running, anyio.create_task_group() as tasks:
        await running.publish("a/b", b"1", retain=True)
        async with running.connected() as client:
            tasks.start_soon(other)
            await client.subscribe("x/+", "y/+", "+/b")
            assert await client.payloads(1) == [b"1"]
        tasks.cancel_scope.cancel()
    assert events.count("searched") == 3
    # Each has its turn once in a round, in any order: two searches may follow each other.
    first = events.index("searched")
    assert events[first : first + 3] != ["searched"] * 3


@pytest.mark.anyio
async def test_they_are_not_sent_when_a_session_is_resumed_nor_for_shares():
    async with mqtt_gateway() as running:
        await running.publish("a", b"1", retain=True)
        async with running.connected("c", **KEPT) as client:
            await client.subscribe("$share/g/a")
            assert await client.nothing()
            await client.subscribe("a")
            assert await client.payloads(1) == [b"1"]
            await client.break_off()
        async with running.connected("c", clean_start=False, **KEPT) as client:
            assert await client.nothing()


@pytest.mark.anyio
async def test_they_have_the_lower_qos_and_the_identifier_of_the_filter():
    identified = Properties(subscription_identifiers=(9,))
    async with mqtt_gateway() as running, running.connected() as client:
        await running.publish("a", b"1", 2, retain=True)
        await client.subscribe("a", qos=1, properties=identified)
        message = await client.message()
        assert (message.qos, message.properties) == (1, identified)


@pytest.mark.anyio
async def test_their_properties_are_kept_and_split_no_topic():
    one, other = Properties(content_type="x"), Properties(user_properties=(("a", "b"),))
    async with mqtt_gateway() as running, running.connected() as client:
        await running.publish("a", b"1", retain=True, properties=one)
        await running.publish("a", b"2", retain=True, properties=other)
        async with running.another() as second, second.connected() as late:
            await late.subscribe("a")
            message = await late.message()
            assert (message.payload, message.properties) == (b"2", other)
            assert await late.nothing()
        assert not await client.ended()


@pytest.mark.anyio
async def test_they_expire_also_over_restarts_and_leave_the_table():
    expiring = Properties(message_expiry_interval=60)
    async with mqtt_gateway() as running:
        await running.publish("a", b"1", retain=True, properties=expiring)
        running.clock.advance(20)
        async with running.another() as second:
            async with second.connected() as client:
                await client.subscribe("a")
                assert (await client.message()).properties.message_expiry_interval == 40
            second.clock.advance(41)
            async with second.connected() as client:
                await client.subscribe("a")
                assert await client.nothing()
            await second.gateway.sweep()
            assert len(second.state.retained) == 0
            assert (await second.stored("mqtt/retained"))[-1].is_tombstone


@pytest.mark.anyio
async def test_they_are_sent_as_fast_as_the_window_allows_however_many():
    few = Properties(receive_maximum=4)
    async with mqtt_gateway() as running:
        async with running.connected() as writer:
            packets = [
                Publish(f"a/{n}", b"%d" % n, qos=1, retain=True, packet_id=n + 1)
                for n in range(2000)
            ]
            await writer.send(*packets)
            for _ in packets:
                await writer.read()
        async with running.connected(properties=few) as client:
            await client.subscribe("a/#", qos=1)
            assert sorted(await client.payloads(2000)) == sorted(b"%d" % n for n in range(2000))
            assert await client.nothing()


@pytest.mark.anyio
async def test_looking_for_them_leaves_others_their_turn(monkeypatch):
    monkeypatch.setattr("zaichik.apps.mqtt.retained.TOPICS_AT_ONCE", 10)
    row = Row(0, 0, b"", b"1")
    async with mqtt_gateway() as running, running.connected() as client:
        for number in range(100):
            running.state.retained.note(f"{number}/a", row, number)
        running.state.retained.note("last/x", row, 100)
        found = list(running.state.retained.matching("+/x", reader(), Spaces()))
        assert found.count(None) == 10
        await client.subscribe("+/x")
        assert (await client.message()).topic == "last/x"
        assert await client.nothing()


@pytest.mark.anyio
async def test_an_older_one_that_had_to_wait_does_not_follow_a_newer_one():
    one = Properties(receive_maximum=1)
    async with mqtt_gateway() as running, running.connected(properties=one) as client:
        for topic in ("a/0", "a/1"):
            await running.publish(topic, b"old", retain=True)
        await client.subscribe("a/#", qos=1)
        first = await client.expect(Publish)
        await running.publish("a/1", b"new", qos=0, retain=True)
        assert (await client.expect(Publish)).payload == b"new"
        await client.acknowledge(first)
        assert (await client.message()).payload == b"new"
        assert await client.nothing()


@pytest.mark.anyio
async def test_one_that_comes_while_others_expire_stays(monkeypatch):
    expiring = Properties(message_expiry_interval=60)
    async with mqtt_gateway() as running, running.connected() as client:
        for topic in ("a", "b"):
            await client.publish(topic, b"1", retain=True, properties=expiring)
        publish = running.client.publish

        async def slow(table, payload, key):
            if key == "a":
                await running.publish("b", b"2", retain=True)
            return await publish(table, payload, key)

        monkeypatch.setattr(running.client, "publish", slow)
        await running.pass_time(61)
        assert len(running.state.retained) == 1
        deleted = [row.key for row in await running.stored("mqtt/retained") if row.is_tombstone]
        assert deleted == [b"a"]


@pytest.mark.anyio
async def test_more_than_the_table_holds_are_refused_and_those_there_may_change():
    async with mqtt_gateway(max_retained=2) as running, running.connected() as client:
        answers = [
            await client.publish(topic, b"1", retain=True) for topic in ("a", "b", "c", "a", "d")
        ]
        full = ReasonCode.QUOTA_EXCEEDED
        assert [answer.reason_code for answer in answers] == [0, 0, full, 0, full]
        assert len(running.state.retained) == 2


@pytest.mark.anyio
async def test_a_message_is_in_the_table_before_it_is_in_its_topic(monkeypatch):
    stored = []
    async with mqtt_gateway() as running, running.connected() as client:
        publish_batch = running.client.publish_batch

        async def noted(topic, *arguments, **options):
            result = await publish_batch(topic, *arguments, **options)
            stored.append(topic)
            return result

        monkeypatch.setattr(running.client, "publish_batch", noted)
        await client.publish("a", b"1", retain=True)
        monkeypatch.undo()
    assert [topic for topic in stored if topic != "mqtt/sessions"] == ["mqtt/retained", "mqtt"]


ONE_DAY = forwarding.stored(Properties(message_expiry_interval=86_400))


def reader():
    return Subscription(Session(SessionId("a")), "#", 2, starts={"mqtt": 0})


def test_the_newer_row_stays_in_whichever_order_answers_come():
    retained = Retained()
    row, newer = Row(0, 0, b"", b"1"), Row(0, 0, b"", b"2")
    retained.note("a", newer, 5)
    retained.note("a", row, 4)
    assert [entry.payload for entry, _ in retained.matching("a", reader(), Spaces())] == [b"2"]
    retained.note("a", None, 6)
    retained.note("a", newer, 5)
    assert "a" not in retained


def test_times_of_expiry_do_not_pile_up_for_a_topic_that_has_one_message_after_the_other(
    monkeypatch,
):
    monkeypatch.setattr(retained_module, "MOST_OUTDATED", 10)
    retained = Retained()
    for offset in range(100):
        retained.note("a", Row(0, 0, ONE_DAY, b"1"), offset)
        assert len(retained._expiring) <= 12
    day_us = 86_400_000_000
    assert (retained.expired(day_us - 1), retained.expired(day_us)) == ([], ["a"])


def test_a_filter_finds_what_it_matches_and_nothing_that_is_the_servers():
    retained = Retained()
    for offset, topic in enumerate(("a", "a/b", "$SYS/a")):
        retained.note(topic, Row(0, 0, b"", b"1"), offset)
    for text, expected in [("#", {"a", "a/b"}), ("a/#", {"a", "a/b"}), ("$SYS/#", {"$SYS/a"})]:
        found = {entry.topic for entry, _ in retained.matching(text, reader(), Spaces())}
        assert found == expected


@pytest.mark.parametrize("row", [Row(2, 17, b"", b"x"), Row(0, 2**63, b"\x02\x01\x01", b"x" * 99)])
def test_a_row_is_read_as_it_was_written(row):
    assert Row.of(row.encoded()) == row


@pytest.mark.parametrize("data", [b"", b"\1\0", b"\2" + bytes(30), b"\1\3" + bytes(30)])
def test_other_bytes_are_no_row(data):
    with pytest.raises(UnreadableRow):
        Row.of(data)
