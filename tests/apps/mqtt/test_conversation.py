"""What a client says and is answered, packet by packet, in both versions."""

import anyio
import pytest
from anyio.lowlevel import checkpoint
from mqtt_clients import KEPT, V4, V5, mqtt_gateway, without_id

from zaichik.apps.mqtt.packets import (
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
)
from zaichik.apps.mqtt.session import SessionId

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("version", [V4, V5], ids=["3.1.1", "5"])


@both
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_reaches_a_subscriber_and_the_topic_with_its_mqtt_topic_as_key(
    version, qos
):
    async with mqtt_gateway() as running, running.connected(version=version) as reader:
        assert (await reader.subscribe("home/#")).reason_codes == (2,)
        async with running.connected(version=version) as writer:
            await writer.publish("home/kitchen/temp", b"21.5", qos)
        message = without_id(await reader.message())
        assert message == Publish("home/kitchen/temp", b"21.5", qos=qos)
        (stored,) = await running.stored()
        assert (stored.key, stored.payload) == (b"home/kitchen/temp", b"21.5")


@pytest.mark.parametrize(("published", "wanted", "sent"), [(2, 1, 1), (1, 2, 1), (1, 0, 0)])
async def test_a_message_has_the_lower_qos_of_publisher_and_subscriber(published, wanted, sent):
    async with mqtt_gateway() as running, running.connected() as reader:
        await reader.subscribe("a", qos=wanted)
        await running.publish("a", qos=published)
        assert (await reader.message()).qos == sent


async def test_what_another_program_has_published_has_the_qos_that_the_subscriber_asked_for():
    async with mqtt_gateway() as running, running.connected() as reader:
        await reader.subscribe("a", qos=1)
        await running.client.publish("mqtt", b"x", "a")
        assert (await reader.message()).qos == 1


@both
async def test_the_order_of_messages_of_one_client_is_kept_whatever_their_qos(version):
    async with mqtt_gateway() as running, running.connected(version=version) as reader:
        await reader.subscribe("#")
        async with running.connected(version=version) as writer:
            for number in range(60):
                qos = number % 3
                packet_id = 0
                if qos:
                    packet_id = number
                await writer.send(Publish(f"t/{number}", qos=qos, packet_id=packet_id))
            seen = []
            while len(seen) < 60:
                packet = await reader.read()
                if isinstance(packet, Publish):
                    seen.append(packet.topic)
                    if packet.qos == 1:
                        await reader.send(PubAck(packet.packet_id))
                    elif packet.qos:
                        await reader.send(PubRec(packet.packet_id))
                elif isinstance(packet, PubRel):
                    await reader.send(PubComp(packet.packet_id))
        assert seen == [f"t/{number}" for number in range(60)]


# -- connecting ----------------------------------------------------------------------------------


async def test_a_client_without_a_name_is_given_one():
    async with mqtt_gateway() as running, running.connecting() as (_, answer):
        assert answer.properties.assigned_client_identifier.startswith("auto-")


async def test_two_clients_without_names_do_not_take_each_other_over():
    async with (
        mqtt_gateway() as running,
        running.connected(version=V4) as one,
        running.connected(version=V4) as other,
    ):
        await one.ping()
        await other.ping()


async def test_a_client_of_3_1_1_without_a_name_cannot_have_its_session_kept():
    async with mqtt_gateway() as running, running.stream() as stream:
        await stream.send(bytes.fromhex("100c 0004 4d515454 04 00 0000 0000"))
        assert await stream.receive() == bytes.fromhex("2002 0002")


async def test_a_session_is_present_if_it_was_kept_and_no_clean_start_is_asked_for():
    async with mqtt_gateway() as running:
        found = []
        for clean_start in (False, False, True, False):
            async with running.connecting("a", clean_start=clean_start, **KEPT) as (client, answer):
                found.append(answer.session_present)
                await client.disconnect()
        assert found == [False, True, False, True]


async def test_a_session_of_5_without_an_expiry_ends_with_its_connection():
    async with mqtt_gateway() as running:
        for _ in range(2):
            async with running.connecting("a", clean_start=False) as (client, answer):
                assert not answer.session_present
                await client.disconnect()


async def test_in_3_1_1_a_clean_session_ends_with_its_connection_and_another_one_is_kept():
    async with mqtt_gateway() as running:
        found = []
        for clean_start in (True, False, False, True):
            async with running.connecting("a", V4, clean_start=clean_start) as (client, answer):
                found.append(answer.session_present)
                await client.disconnect()
        assert found == [False, False, True, False]


async def test_the_first_packet_must_be_connect():
    async with mqtt_gateway() as running, running.stream() as stream:
        await stream.send(bytes.fromhex("c000"))
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_a_second_connect_ends_the_connection():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.send(Connect(V5, "again"))
        assert await client.reason() == ReasonCode.PROTOCOL_ERROR


async def test_a_client_of_an_old_version_is_told_so():
    async with mqtt_gateway() as running, running.stream() as stream:
        await stream.send(bytes.fromhex("100f 0006 4d5149736470 03 02 0000 0001 61"))
        assert await stream.receive() == bytes.fromhex("2002 0001")


async def test_an_authentication_in_steps_is_not_offered():
    properties = Properties(authentication_method="SCRAM")
    async with (
        mqtt_gateway() as running,
        running.connecting("a", properties=properties) as (client, answer),
    ):
        assert answer.reason_code == ReasonCode.BAD_AUTHENTICATION_METHOD
        assert await client.ended()


async def test_a_client_that_sends_no_connect_is_given_up_after_some_seconds():
    async with mqtt_gateway() as running, running.stream() as stream:
        await running.settle()
        await running.pass_time(6)
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_connack_says_what_the_limits_are():
    async with mqtt_gateway() as running, running.connecting() as (_, answer):
        assert answer.properties.receive_maximum == 256
        assert answer.properties.topic_alias_maximum is None
        assert answer.properties.maximum_packet_size < running.client.welcome.max_message


async def test_a_name_that_is_too_long_for_a_key_is_refused():
    async with mqtt_gateway() as running, running.connecting("x" * 513) as (client, answer):
        assert answer.reason_code == ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
        assert await client.ended()


# -- silence, take-over, malformed packets -------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "name"),
    [(bytes.fromhex("16030100f8010000f40303"), "TLS"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP")],
)
async def test_a_client_that_speaks_something_else_is_named_in_the_log(first, name, caplog):
    async with mqtt_gateway() as running:
        with caplog.at_level("INFO", "zaichik.mqtt.gateway"):
            async with running.stream() as stream:
                await stream.send(first)
                await stream.send_eof()
                # It is sent nothing that it could not understand.
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()
            while "disconnected" not in caplog.text:
                await checkpoint()
    assert f"disconnected: it speaks {name}, which is not spoken at this port" in caplog.text


@both
async def test_silence_of_more_than_one_and_a_half_keep_alives_ends_the_connection(version):
    async with mqtt_gateway() as running, running.connected("a", version, keep_alive=10) as client:
        await running.pass_time(15)
        await client.ping()
        await running.pass_time(16)
        if version is V5:
            assert await client.reason() == ReasonCode.KEEP_ALIVE_TIMEOUT
        else:
            assert await client.ended()


async def test_a_client_is_not_called_silent_while_it_waits_for_the_broker(monkeypatch):
    async with mqtt_gateway() as running, running.connected(keep_alive=1) as client:
        publish_batch = running.client.publish_batch
        begun, goes_on = anyio.Event(), anyio.Event()

        async def slow(*arguments, **options):
            if arguments[0] == "mqtt":
                begun.set()
                await goes_on.wait()
            return await publish_batch(*arguments, **options)

        monkeypatch.setattr(running.client, "publish_batch", slow)
        await client.send(Publish("a", qos=1, packet_id=1), PingReq())
        await begun.wait()
        await running.pass_time(100)
        goes_on.set()
        assert await client.read() == PubAck(1)
        await client.expect(PingResp)
        await client.ping()
        await running.pass_time(3)
        assert await client.reason() == ReasonCode.KEEP_ALIVE_TIMEOUT


async def test_without_a_keep_alive_a_client_may_be_silent_for_ever():
    async with mqtt_gateway() as running, running.connected() as client:
        await running.pass_time(1_000_000)
        await client.ping()


@both
async def test_a_second_connection_with_the_name_takes_the_session_over(version):
    async with (
        mqtt_gateway() as running,
        running.connected("a", version) as first,
        anyio.create_task_group() as tasks,
    ):

        async def end():
            if version is V5:
                assert await first.reason() == ReasonCode.SESSION_TAKEN_OVER
            else:
                assert await first.ended()

        tasks.start_soon(end)
        async with running.connected("a", version) as second:
            await second.ping()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("c100", ReasonCode.MALFORMED_PACKET),
        ("c0ffffffff", ReasonCode.MALFORMED_PACKET),
        ("30ffffff7f", ReasonCode.PACKET_TOO_LARGE),
    ],
)
async def test_bytes_that_are_no_packet_end_the_connection_with_a_reason(data, code):
    async with mqtt_gateway() as running, running.connected() as client:
        await client.send(bytes.fromhex(data))
        assert await client.reason() == code


async def test_what_came_before_a_malformed_packet_counts():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.send(Publish("a", b"1", qos=1, packet_id=1), b"\xc1\0")
        assert await client.expect(PubAck) == PubAck(1)
        assert await client.reason() == ReasonCode.MALFORMED_PACKET
        assert [message.payload for message in await running.stored()] == [b"1"]


# -- filters -------------------------------------------------------------------------------------


@both
async def test_a_filter_that_is_none_is_refused_and_the_others_are_granted(version):
    bad = ReasonCode.TOPIC_FILTER_INVALID
    if version is V4:
        bad = ReasonCode.UNSPECIFIED_ERROR
    async with mqtt_gateway() as running, running.connected(version=version) as client:
        answer = await client.subscribe("a", "b/#/c", "d+")
        assert answer.reason_codes == (2, bad, bad)


async def test_overlapping_filters_bring_a_message_once_with_the_highest_qos_and_all_identifiers():
    async with mqtt_gateway() as running, running.connected() as client:
        for number, (text, qos) in enumerate([("a/#", 0), ("a/+", 2), ("a/b", 1)], 1):
            properties = Properties(subscription_identifiers=(number,))
            await client.subscribe(text, qos=qos, properties=properties)
        await running.publish("a/b", b"1", 2)
        message = await client.message()
        assert message.qos == 2
        assert sorted(message.properties.subscription_identifiers) == [1, 2, 3]
        assert await client.nothing()


async def test_topics_that_begin_with_a_dollar_are_not_for_wildcards_nor_for_publishers():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.subscribe("#", "+/x", "$SYS/#")
        await running.client.publish("mqtt", b"1", "$other/x")
        answer = await client.publish("$SYS/x", b"2")
        assert answer.reason_code == ReasonCode.NOT_AUTHORIZED
        await running.client.publish("mqtt", b"3", "$SYS/y")
        assert (await client.message()).payload == b"3"
        assert await client.nothing()


@both
async def test_after_an_unsubscribe_no_more_messages_come(version):
    async with mqtt_gateway() as running, running.connected(version=version) as client:
        await client.subscribe("a", "b")
        answer = await client.unsubscribe("a", "c")
        if version is V5:
            assert answer.reason_codes == (0, ReasonCode.NO_SUBSCRIPTION_EXISTED)
        await running.publish("a", b"1")
        await running.publish("b", b"2")
        assert (await client.message()).payload == b"2"
        assert await client.nothing()


async def test_subscribing_again_changes_the_options_of_a_filter():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.subscribe("a", qos=2)
        await client.subscribe("a", qos=0)
        await running.publish("a", b"1")
        assert (await client.message()).qos == 0
        assert await client.nothing()


async def test_no_local_leaves_out_what_the_session_itself_has_published():
    async with mqtt_gateway() as running, running.connected("a") as client:
        await client.subscribe("t", no_local=True)
        for number in range(30):
            await client.publish("t", b"%d" % number, number % 3)
        await running.publish("t", b"other")
        assert (await client.message()).payload == b"other"
        assert await client.nothing()


async def test_a_message_that_was_acknowledged_before_a_subscribe_does_not_come():
    async with mqtt_gateway() as running, running.connected("a") as client:
        for number in range(20):
            await client.publish(f"t/{number}", b"old")
            await client.subscribe(f"t/{number}")
        assert await client.nothing()


async def test_a_session_has_a_limit_of_filters(monkeypatch):
    monkeypatch.setattr("zaichik.apps.mqtt.quota.MOST_FILTERS", 2)
    async with mqtt_gateway() as running, running.connected("a") as client:
        answer = await client.subscribe("a", "b", "c", "a")
        assert answer.reason_codes == (2, 2, ReasonCode.QUOTA_EXCEEDED, 2)
        await client.unsubscribe("a")
        assert (await client.subscribe("c")).reason_codes == (2,)


async def test_a_session_has_a_limit_of_levels():
    """Each takes memory, and may be compared with a message."""
    filters = [f"{number}/" + "+/" * 198 + "+" for number in range(52)]
    async with mqtt_gateway() as running, running.connected("a") as client:
        answer = await client.subscribe(*filters)
        assert answer.reason_codes == (2,) * 50 + (ReasonCode.QUOTA_EXCEEDED,) * 2
        assert (await client.subscribe("1/b")).reason_codes == (ReasonCode.QUOTA_EXCEEDED,)
        await client.unsubscribe(filters[0])
        assert (await client.subscribe("1/b")).reason_codes == (2,)


async def test_the_filters_of_a_session_fit_into_its_row():
    """Where a character may take twelve bytes, and a message of the broker has a limit."""
    rabbits = "\N{RABBIT}" * 10_000
    async with mqtt_gateway() as running, running.connected("a", **KEPT) as client:
        for number in range(4):
            assert (await client.subscribe(f"{rabbits}{number}")).reason_codes == (2,)
        answer = await client.subscribe(rabbits)
        assert answer.reason_codes == (ReasonCode.QUOTA_EXCEEDED,)


async def test_a_group_has_a_name_that_is_a_key_in_the_broker():
    async with mqtt_gateway() as running, running.connected("a", **KEPT) as client:
        answer = await client.subscribe(f"$share/{'g' * 1000}/a", f"$share/{'g' * 1010}/a")
        assert answer.reason_codes == (2, ReasonCode.QUOTA_EXCEEDED)
        await running.publish("a", b"1")
        assert await client.payloads(1) == [b"1"]
        await running.state.save()


# -- messages from the client --------------------------------------------------------------------


async def test_a_message_of_qos_2_that_comes_twice_before_its_release_is_stored_once():
    async with mqtt_gateway() as running, running.connected() as client:
        message = Publish("a", b"1", qos=2, packet_id=7)
        await client.send(message, message)
        assert [await client.read(), await client.read()] == [PubRec(7), PubRec(7)]
        await client.send(PubRel(7))
        assert await client.read() == PubComp(7)
        await client.send(PubRel(7))
        assert await client.read() == PubComp(7, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
        await client.send(message)
        assert await client.read() == PubRec(7)
        assert len(await running.stored()) == 2


async def test_messages_before_one_that_ends_the_connection_are_stored_and_acknowledged():
    """A message of QoS 2 that was not stored must not pass for a duplicate when it comes again."""
    async with mqtt_gateway() as running:
        message = Publish("a", b"1", qos=2, packet_id=7)
        async with running.connected("x", **KEPT) as client:
            await client.send(message, Publish("a/#", b"2", qos=2, packet_id=8))
            assert await client.expect(PubRec) == PubRec(7)
            assert await client.reason() == ReasonCode.TOPIC_NAME_INVALID
        async with running.connected("x", clean_start=False, **KEPT) as client:
            await client.send(message)
            assert await client.expect(PubRec) == PubRec(7)
        assert [message.payload for message in await running.stored()] == [b"1"]


async def test_more_unreleased_messages_than_the_receive_maximum_end_the_connection(monkeypatch):
    monkeypatch.setattr("zaichik.apps.mqtt.conversation.MOST_MESSAGES", 3)
    async with mqtt_gateway() as running, running.connected() as client:
        await client.send(*(Publish("a", qos=2, packet_id=n) for n in range(1, 5)))
        assert [await client.read() for _ in range(3)] == [PubRec(1), PubRec(2), PubRec(3)]
        assert await client.reason() == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


@pytest.mark.parametrize("topic", ["a/+", "#"])
async def test_a_message_to_a_filter_ends_the_connection(topic):
    async with mqtt_gateway() as running, running.connected() as client:
        await client.send(Publish(topic, qos=1, packet_id=1))
        assert await client.reason() == ReasonCode.TOPIC_NAME_INVALID


async def test_a_topic_alias_ends_the_connection():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.send(Publish("a", properties=Properties(topic_alias=1)))
        assert await client.reason() == ReasonCode.TOPIC_ALIAS_INVALID


@both
async def test_a_message_that_is_refused_is_answered_by_itself_and_others_are_stored(version):
    topics = ["a", "x" * 1025, "b"]
    bad = ReasonCode.TOPIC_NAME_INVALID
    if version is V4:
        bad = ReasonCode.SUCCESS
    async with mqtt_gateway() as running, running.connected(version=version) as client:
        packets = [Publish(topic, qos=1, packet_id=n) for n, topic in enumerate(topics, 1)]
        await client.send(*packets)
        answers = [await client.expect(PubAck) for _ in topics]
        assert [answer.reason_code for answer in answers] == [0, bad, 0]
        assert running.state.counters.refused == (version is V4)
        assert [message.key for message in await running.stored()] == [b"a", b"b"]


# -- properties ----------------------------------------------------------------------------------


async def test_the_properties_of_a_message_reach_a_subscriber_and_a_request_is_answered():
    asked = Properties(
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic="answers/1",
        correlation_data=b"17",
        user_properties=(("a", "1"), ("a", "2")),
    )
    async with (
        mqtt_gateway() as running,
        running.connected() as server,
        running.connected() as client,
    ):
        await server.subscribe("questions")
        await client.subscribe("answers/1")
        await client.publish("questions", b"?", properties=asked)
        question = await server.message()
        assert question.properties == asked
        told = Properties(correlation_data=question.properties.correlation_data)
        await server.publish(question.properties.response_topic, b"!", properties=told)
        answer = await client.message()
        assert (answer.payload, answer.properties) == (b"!", told)


async def test_a_client_of_3_1_1_gets_a_message_with_properties_without_them():
    async with mqtt_gateway() as running, running.connected(version=V4) as client:
        await client.subscribe("a")
        await running.publish("a", b"1", properties=Properties(content_type="text/plain"))
        assert without_id(await client.message()) == Publish("a", b"1", qos=1)


async def test_topic_and_properties_must_fit_into_a_key():
    async with mqtt_gateway() as running, running.connected() as client:
        long = Properties(content_type="x" * 1100)
        answer = await client.publish("a", b"1", properties=long)
        assert answer.reason_code == ReasonCode.QUOTA_EXCEEDED
        assert (await client.publish("a", b"2")).reason_code == ReasonCode.SUCCESS


# -- what a client can take ----------------------------------------------------------------------


async def test_no_more_messages_are_in_flight_than_the_client_has_said():
    few = Properties(receive_maximum=3)
    async with mqtt_gateway() as running, running.connected(properties=few) as client:
        await client.subscribe("a")
        for number in range(7):
            await running.publish("a", b"%d" % number)
        first = [await client.expect(Publish) for _ in range(3)]
        assert await client.nothing()
        await client.acknowledge(first[0])
        fourth = await client.expect(Publish)
        assert fourth.payload == b"3"
        assert await client.nothing()
        await client.send(*(PubAck(one.packet_id) for one in [*first[1:], fourth]))
        assert await client.payloads(3) == [b"4", b"5", b"6"]


async def test_what_is_sent_again_keeps_to_what_the_client_says_now():
    """A client that comes back may take fewer messages in flight, and smaller ones."""
    async with mqtt_gateway() as running:
        async with running.connected("x", **KEPT) as client:
            await client.subscribe("a")
            for payload in (b"0", b"x" * 200, b"1", b"2", b"3"):
                await running.publish("a", payload)
            for _ in range(5):
                await client.expect(Publish)
            await client.break_off()
        few = Properties(session_expiry_interval=60, receive_maximum=2, maximum_packet_size=100)
        async with running.connected("x", clean_start=False, properties=few) as client:
            first = await client.message()
            assert (first.payload, first.dup) == (b"0", True)
            second = await client.expect(Publish)
            third = await client.expect(Publish)
            assert (second.payload, third.payload) == (b"1", b"2")
            assert await client.nothing()
            await running.publish("a", b"4")
            await client.acknowledge(second)
            last = await client.expect(Publish)
            assert (last.payload, last.dup) == (b"3", True)
            assert await client.nothing()
            await client.acknowledge(third)
            assert (await client.message()).payload == b"4"


async def test_messages_in_flight_have_different_identifiers():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.subscribe("a", qos=1)
        running.gateway.state.sessions.all[
            next(iter(running.state.connected))
        ].window._last = 65_530
        for number in range(12):
            await running.publish("a", b"%d" % number)
        messages = [await client.expect(Publish) for _ in range(12)]
        assert len({message.packet_id for message in messages}) == 12
        assert {message.packet_id for message in messages} > {65_535, 1}


async def test_a_message_of_qos_0_does_not_wait_for_the_window():
    few = Properties(receive_maximum=2)
    async with mqtt_gateway() as running, running.connected(properties=few) as client:
        await client.subscribe("a")
        await running.publish("a", b"1")
        await running.publish("a", b"2")
        await running.publish("a", b"3", 0)
        assert [(await client.expect(Publish)).payload for _ in range(3)] == [b"1", b"2", b"3"]


async def test_a_message_that_is_larger_than_the_client_takes_is_left_out_and_no_other():
    small = Properties(maximum_packet_size=100, receive_maximum=1)
    async with mqtt_gateway() as running, running.connected(properties=small) as client:
        await client.subscribe("a")
        for payload in (b"1", b"x" * 100, b"x" * 100, b"2"):
            await running.publish("a", payload)
        assert await client.payloads(2) == [b"1", b"2"]
        assert running.state.counters.too_large == 2


async def test_a_message_that_a_client_refuses_is_done_with():
    few = Properties(receive_maximum=1)
    async with mqtt_gateway() as running, running.connected(properties=few) as client:
        await client.subscribe("a")
        await running.publish("a", b"1", 2)
        await running.publish("a", b"2", 2)
        message = await client.expect(Publish)
        await client.send(PubRec(message.packet_id, ReasonCode.QUOTA_EXCEEDED))
        assert (await client.message()).payload == b"2"


async def test_a_pubrec_of_an_unknown_message_is_answered():
    async with mqtt_gateway() as running, running.connected() as client:
        await client.send(PubRec(9))
        assert await client.read() == PubRel(9, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)


async def test_a_client_that_reads_nothing_holds_up_nobody_and_costs_little():
    payload = bytes(100_000)
    async with (
        mqtt_gateway() as running,
        running.connected() as stuck,
        running.connected() as reader,
        running.connected() as writer,
    ):
        await stuck.subscribe("a", qos=0)
        await reader.subscribe("a", qos=0)
        for _ in range(300):
            await writer.publish("a", payload)
            assert (await reader.message()).payload == payload
        waiting = [
            session.delivery._output._bytes for session in running.state.sessions.all.values()
        ]
        assert 0 < max(waiting) < 300_000
        # What has left the tail meanwhile is read again.
        assert not running.state.tails["mqtt"].has(
            next(
                place
                for one in running.state.sessions.all.values()
                for place in one.places.values()
            )
        )
        assert [len(one) for one in await stuck.payloads(300)] == [100_000] * 300


async def test_a_client_that_asks_and_reads_no_answer_is_not_read_either():
    async with mqtt_gateway() as running, running.connected("a") as client:
        output = running.state.sessions.all[SessionId("a")].delivery._output
        asked, refused = [], 0
        # As soon as the answers fill all buffers between the two, so do the questions.
        while refused < 300:
            pieces = asked or [bytes.fromhex("c000") * 20_000]
            asked = client._stream.send_pieces_nowait(pieces)
            refused += 1
            if asked != pieces:
                refused = 0
            await checkpoint()
        assert 0 < output._bytes < 300_000
        await running.settle()


# -- goodbye -------------------------------------------------------------------------------------


async def test_a_client_may_not_have_its_session_kept_after_all():
    async with mqtt_gateway() as running, running.connected("a") as client:
        await client.send(Disconnect(properties=Properties(session_expiry_interval=5)))
        assert await client.reason() == ReasonCode.PROTOCOL_ERROR


async def test_a_client_may_have_its_session_ended_after_all():
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as client:
            await client.disconnect(properties=Properties(session_expiry_interval=0))
        async with running.connecting("a", clean_start=False, **KEPT) as (_, answer):
            assert not answer.session_present


async def test_a_gateway_that_stops_says_so():
    async with mqtt_gateway() as running, running.connected() as client:
        running.stop()
        assert await client.reason() == ReasonCode.SERVER_SHUTTING_DOWN


# -- time ----------------------------------------------------------------------------------------


async def test_a_message_is_told_what_is_left_of_its_time_and_is_not_delivered_after_it():
    expiring = Properties(message_expiry_interval=60)
    async with mqtt_gateway() as running:
        async with running.connected("a", **KEPT) as client:
            await client.subscribe("t")
            await client.disconnect()
        await running.publish("t", b"1", properties=expiring)
        await running.pass_time(20)
        async with running.connected("a", clean_start=False, **KEPT) as client:
            assert (await client.message()).properties.message_expiry_interval == 40
            await client.disconnect()
        await running.publish("t", b"2", properties=expiring)
        await running.pass_time(61)
        async with running.connected("a", clean_start=False, **KEPT) as client:
            assert await client.nothing()
        assert running.state.counters.expired == 1
