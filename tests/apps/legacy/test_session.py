"""One connection of an original client, byte by byte as the original's server had it; and without
its faults.
"""

import logging
import socket
from contextlib import suppress

import anyio
import pytest
from brokers import GUARD
from original import gateway
from recorded import (
    CLOSE,
    COMMIT,
    COMPACTION_CONSUMER,
    COMPACTION_PRODUCER,
    CONVERSATIONS,
    ECHO,
    ECHO_ANSWER,
    KEY1,
    KEY2,
    RETENTION_ANSWER,
    RETENTION_CONSUMER,
    RETENTION_PRODUCER,
)

import zaichik
from zaichik.apps.legacy import session as session_module
from zaichik.apps.legacy.frames import (
    CloseConnection,
    Commit,
    CreateTopic,
    Publish,
    Subscribe,
    Unsubscribe,
    encode,
)
from zaichik.apps.legacy.session import MAX_SUBSCRIPTIONS, Session
from zaichik.base.escapes import shown

pytestmark = pytest.mark.anyio

KEPT = zaichik.TopicSettings(retention_ttl_ms=2**64 - 1)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(session_module, "PAUSE_SECONDS", 0)


def segments(conversation: str) -> list[tuple[str, str]]:
    """Each segment of a recorded conversation: its direction, and its bytes as hex or what is said
    instead.
    """
    lines = conversation.replace("\n  ", "").strip().split("\n")
    return [(line[0], line[2:]) for line in lines]


# -- as recorded ---------------------------------------------------------------------------------


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_a_conversation_is_as_with_the_original(conversation):
    async with gateway() as running, running.connected() as client:
        for segment in segments(conversation):
            match segment:
                case ">", "FIN":
                    await client.send_eof()
                case ">", data:
                    await client.send(bytes.fromhex(data))
                case "<", "nothing":
                    await running.settle()
                    assert client.has_nothing()
                case "<", "FIN":
                    assert await client.ended()
                case "<", data:
                    assert (await client.receive(len(data) // 2)).hex() == data
        await running.settle()
        assert client.has_nothing()


async def test_the_example_echo():
    async with gateway() as running, running.connected() as client:
        await client.send(ECHO)
        assert await client.receive(len(ECHO_ANSWER)) == ECHO_ANSWER
        await client.send(CLOSE)
        assert await client.ended()


async def test_the_example_retention():
    async with (
        gateway() as running,
        running.connected() as producer,
        running.connected() as consumer,
    ):
        await producer.send(RETENTION_PRODUCER)
        await running.settle()
        await consumer.send(RETENTION_CONSUMER)
        assert await consumer.receive(len(RETENTION_ANSWER)) == RETENTION_ANSWER
        await consumer.send(COMMIT)


async def test_the_example_compaction_if_it_subscribes_before_the_producer_publishes():
    async with (
        gateway() as running,
        running.connected() as producer,
        running.connected() as consumer,
    ):
        await consumer.send(COMPACTION_CONSUMER)
        await running.settle()
        await producer.send(COMPACTION_PRODUCER)
        for answer in (KEY1, KEY2):
            assert await consumer.receive(len(answer)) == answer
            await consumer.send(COMMIT)


async def test_the_example_compaction_if_it_subscribes_too_late():
    """The topic keeps nothing, so nothing comes: the example hangs, as it did with the original."""
    async with (
        gateway() as running,
        running.connected() as producer,
        running.connected() as consumer,
    ):
        await producer.send(COMPACTION_PRODUCER)
        await running.settle()
        await consumer.send(COMPACTION_CONSUMER)
        await running.settle()
        assert consumer.has_nothing()


# -- topics --------------------------------------------------------------------------------------


async def settings(running, topic):
    state = await running.client.topic(topic)
    return state["settings"]["retention_ttl_ms"], state["settings"]["compaction_window_ms"]


async def test_retention_and_compaction_are_the_topics():
    async with gateway() as running, running.connected() as client:
        await client.send(CreateTopic("a", 60_000, 1))
        await running.settle()
        assert await settings(running, "a") == (60_000, 1)


async def test_a_topic_made_by_first_use_and_still_empty_takes_the_settings_that_come_later():
    async with gateway() as running, running.connected() as reader, running.connected() as client:
        await reader.send(Subscribe("a"))
        await running.settle()
        await client.send(CreateTopic("a", 5, 7))
        await running.settle()
        assert await settings(running, "a") == (5, 7)


async def test_settings_that_come_too_late_change_nothing(caplog):
    async with gateway() as running, running.connected() as client:
        await client.send(
            Publish("a", None, b"x"),
            CreateTopic("a", 5, 7),
            Subscribe("a"),
            Publish("a", None, b"y"),
        )
        assert (await client.read()).payload == b"y"
        assert await settings(running, "a") == (0, 0)
    assert not caplog.records  # nothing was dropped that the original would have done


async def test_a_duration_beyond_all_bounds_is_forever():
    async with gateway() as running, running.connected() as client:
        await client.send(
            CreateTopic("a", 2**64 - 1, 2**64 - 1), Publish("a", "k", b"1"), Subscribe("a")
        )
        assert (await client.read()).payload == b"1"
        assert await settings(running, "a") == (2**64 - 1, 2**64 - 1)


async def test_a_message_is_not_delivered_after_its_time():
    async with gateway() as running, running.connected() as client:
        await client.send(CreateTopic("a", 60_000, 0), Publish("a", None, b"old"))
        await running.settle()
        running.broker.clock.advance(60)
        await client.send(Subscribe("a"))
        await running.settle()
        await client.send(Publish("a", None, b"new"))
        assert await client.read_payloads(1) == [b"new"]


async def test_a_message_whose_time_is_over_is_gone_without_another_publish():
    """The original held it until then."""
    async with gateway() as running, running.connected() as client:
        await client.send(CreateTopic("a", 60_000, 0), Publish("a", None, b"old"))
        await running.settle()
        running.broker.clock.advance(60)
        running.broker.sweep()
        assert (await running.client.topic("a"))["resident"] == 0


async def test_a_message_that_waits_for_its_commit_comes_even_if_its_time_is_over():
    async with gateway() as running, running.connected() as client:
        await client.send(CreateTopic("a", 60_000, 0), Subscribe("a"))
        await client.send(*(Publish("a", None, b"%d" % number) for number in range(4)))
        await client.read()
        await running.settle()
        running.broker.clock.advance(60)
        await client.send(Commit(), Publish("a", None, b"new"))
        assert await client.read_payloads(2) == [b"1", b"new"]


# -- credit --------------------------------------------------------------------------------------


async def test_topics_take_turns():
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"), Subscribe("b"))
        await client.send(*(Publish(topic, None, topic.encode()) for topic in "aaabbb"))
        payloads = await client.read_payloads(6)
        assert sorted(payloads) == [b"a"] * 3 + [b"b"] * 3
        assert payloads[1:5].count(b"a") == 2


async def test_a_commit_releases_one_message_although_two_topics_wait():
    async with gateway() as running, running.connected() as client:
        await client.send(
            *(Subscribe(topic) for topic in "abc"), *(Publish(topic, None, b"") for topic in "abc")
        )
        topics = {(await client.read()).topic}
        for _ in range(2):
            await running.settle()
            assert client.has_nothing()
            await client.send(Commit())
            topics.add((await client.read()).topic)
        assert topics == {*"abc"}


async def test_the_first_subscribe_after_the_last_unsubscribe_gives_credit():
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"), Publish("a", None, b"1"))
        assert (await client.read()).payload == b"1"  # not committed
        await client.send(Unsubscribe("a"), Subscribe("b"), Publish("b", None, b"2"))
        assert (await client.read()).payload == b"2"


async def test_a_message_that_waits_for_its_commit_is_not_delivered_after_unsubscribing():
    async with gateway() as running, running.connected() as client:
        await client.send(
            Subscribe("a"), Subscribe("b"), Publish("a", None, b"1"), Publish("a", None, b"2")
        )
        await client.read()
        await running.settle()
        await client.send(Unsubscribe("a"), Commit(), Publish("b", None, b"3"))
        assert (await client.read()).payload == b"3"


async def test_lag_is_skipped_and_the_next_message_comes():
    async with gateway() as running, running.connected() as client:
        await running.client.create_topic("a", capacity=2)
        await client.send(
            Subscribe("a"), *(Publish("a", None, b"%d" % number) for number in range(9))
        )
        await running.settle()
        # The second had left the broker in time.
        assert await client.read_payloads(4) == [b"0", b"1", b"7", b"8"]


# -- faults of the original ----------------------------------------------------------------------


async def test_a_frame_in_two_segments_is_carried_out():
    async with gateway() as running, running.connected() as client:
        frame = encode(Publish("a", None, b"1234"))
        await client.send(encode(Subscribe("a")), frame[:10])
        await running.settle()
        await client.send(frame[10:])
        assert (await client.read()).payload == b"1234"


async def test_a_connection_may_carry_more_than_8192_bytes():
    """After so many, the original's server heard nothing more of a client."""
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"))
        for number in range(20):
            await client.send(Publish("a", None, bytes(1000) + b"%d" % number))
            assert (await client.read_payloads(1))[0].endswith(b"%d" % number)
        await client.send(Publish("a", None, bytes(500_000)))
        assert len((await client.read()).payload) == 500_000


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("06000000", "command 6"),
        ("5a41494b", "command 1263092058"),
        ("02000000 0000000000000010", "a frame of 1,152,921,504,606,846,988 bytes"),
        ("02000000 0200000000000000 fffe", "a name or key that is not UTF-8"),
        ("01000000 0100000000000000 6d 02", "an option that is not 0 or 1"),
    ],
)
async def test_what_can_never_become_a_frame_ends_the_connection_after_what_came_before(
    data, reason, caplog
):
    """The original threw it away with everything else that it had read, and carried on with what
    followed.
    """
    caplog.set_level(logging.INFO, "zaichik.legacy")
    async with gateway() as running, running.connected() as client, running.connected() as other:
        await other.send(Subscribe("a"))
        await running.settle()
        await client.send(
            Publish("a", None, b"1"), bytes.fromhex(data), encode(Publish("a", None, b"2"))
        )
        assert await client.ended()
        await client.send_eof()
        await running.settle()
        assert f"disconnected: it sent {reason}" in caplog.text
        await other.send(Publish("a", None, b"3"))
        assert await other.read_payloads(2) == [b"1", b"3"]


async def test_clients_that_create_a_topic_at_once_all_keep_their_readers():
    """In the original, one of them replaced the topic of the other."""
    async with gateway() as running, running.connected() as first, running.connected() as second:
        for client in (first, second):
            await client.send(Subscribe("a"))
        await running.settle()
        await first.send(Publish("a", None, b"1"))
        for client in (first, second):
            assert (await client.read()).payload == b"1"


async def test_history_is_bounded():
    """In the original by time only, and it was copied for each subscriber."""
    async with (
        gateway(topic=zaichik.TopicSettings(capacity=2)) as running,
        running.connected() as client,
    ):
        await client.send(
            CreateTopic("a", 60_000, 0),
            *(Publish("a", None, b"%d" % number) for number in range(5)),
        )
        await client.send(Subscribe("a"))
        assert await client.read_payloads(2) == [b"3", b"4"]


async def start_unread_delivery(running, client):
    """Have a delivery of topic a begin that ends only when the client reads."""
    for _ in range(20):
        await running.client.publish("a", bytes(1_000_000))
    await client.send(Subscribe("a"), *(Commit() for _ in range(40)))
    await running.settle()


def hold_creations(monkeypatch):
    """Have each CreateTopic, and what comes after it, wait until this event is set."""
    event, create = anyio.Event(), Session._create

    async def held(self, command):
        await event.wait()
        await create(self, command)

    monkeypatch.setattr(Session, "_create", held)
    return event


@pytest.mark.parametrize(
    "before", [(), (Unsubscribe("a"),), (Subscribe("a"),), (Unsubscribe("a"), Subscribe("a"))]
)
async def test_commands_of_a_client_that_does_not_read_are_carried_out(before):
    """In the original, they waited behind the delivery that could not be sent."""
    async with (
        gateway(topic=KEPT) as running,
        running.connected() as client,
        running.connected() as other,
    ):
        await start_unread_delivery(running, client)
        await client.send(*before, Publish("b", None, b"1"))
        await other.send(Subscribe("b"))
        assert (await other.read()).payload == b"1"


async def test_commands_of_a_client_that_has_left_are_carried_out_although_a_delivery_to_it_fails(
    monkeypatch,
):
    creations = hold_creations(monkeypatch)
    async with gateway(topic=KEPT) as running, running.connected() as other:
        async with running.connected() as client:
            await start_unread_delivery(running, client)
            await client.send(
                CreateTopic("c", 0, 0), Publish("b", None, b"1"), Publish("b", None, b"2")
            )
            await running.settle()
        await running.settle()
        creations.set()
        await other.send(Subscribe("b"))
        assert await other.read_payloads(2) == [b"1", b"2"]


async def test_commands_that_were_received_are_carried_out_although_a_subscription_ends(
    monkeypatch,
):
    creations = hold_creations(monkeypatch)
    async with (
        gateway(topic=KEPT) as running,
        running.connected() as client,
        running.connected() as other,
    ):
        await client.send(Subscribe("a"), CreateTopic("c", 0, 0), Publish("b", None, b"1"))
        await running.settle()
        await running.client.delete_topic("a")
        await running.settle()
        creations.set()
        assert await client.ended()
        await other.send(Subscribe("b"))
        assert (await other.read()).payload == b"1"


async def test_small_writes_are_acknowledged_at_once(monkeypatch):
    """Or a client that leaves Nagle's algorithm on would wait 40 ms between two of them."""
    if not hasattr(socket, "TCP_QUICKACK"):
        pytest.skip("this system has no TCP_QUICKACK")
    options = []
    set_option = socket.socket.setsockopt
    monkeypatch.setattr(
        socket.socket, "setsockopt", lambda *call: options.append(call[2:]) or set_option(*call)
    )
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"))
        for _ in range(3):
            options.clear()
            await client.send(Publish("a", None, b"1"))
            await client.read()
            assert (socket.TCP_QUICKACK, 1) in options
            await client.send(Commit())


async def test_a_delivery_is_one_send(monkeypatch):
    """An unchanged client takes half a frame for a broken one."""
    sent = []
    send = socket.socket.sendmsg
    monkeypatch.setattr(
        socket.socket,
        "sendmsg",
        lambda raw, pieces: sent.append(b"".join(pieces)) or send(raw, pieces),
    )
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"))
        await running.settle()
        await running.client.publish("a", bytes(4000), key="k")
        assert encode(await client.read()) in sent


async def test_the_log_says_if_a_client_left_in_the_middle_of_a_frame(caplog):
    caplog.set_level(logging.INFO, "zaichik.legacy")
    async with gateway() as running, running.connected() as client:
        await client.send(encode(Subscribe("a"))[:7])
        await client.send_eof()
        assert await client.ended()
        await running.settle()
    assert "it has left in the middle of a frame" in caplog.text


# -- what the broker does not allow --------------------------------------------------------------


async def test_an_empty_key_is_a_key():
    async with gateway() as running, running.connected() as client:
        await client.send(CreateTopic("a", 0, 60_000), Subscribe("a"))
        await client.send(Publish("a", "", b"1"), Publish("a", "", b"2"), Publish("a", None, b"3"))
        first = await client.read()
        await client.send(Commit())
        second = await client.read()
        assert (first, second) == (Publish("a", "", b"1"), Publish("a", None, b"3"))


async def test_a_key_that_is_not_utf_8_is_escaped():
    """It comes from another client: one of the original's could not read it."""
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"))
        await running.settle()
        await running.client.publish("a", b"1", key=b"k\xfe")
        assert (await client.read()).key == "k\\xfe"


@pytest.mark.parametrize(
    "command",
    [
        Publish("", "", b""),
        Publish("n" * 201, None, b"x"),
        Publish("n" * 70_000, None, b"x"),
        Publish("$journal/a", None, b"x"),
        Publish("a", "k" * 2000, b"x"),
        Publish("a", None, bytes(2**20 + 1)),
        Subscribe(""),
        Subscribe("a\n"),
        CreateTopic("n" * 201, 0, 0),
        CreateTopic("n" * 70_000, 0, 0),
        Subscribe("n" * 70_000),
    ],
    ids=lambda command: f"{type(command).__name__} {command.topic[:9]!r}",
)
async def test_what_the_broker_refuses_is_dropped_and_logged(command, caplog):
    async with gateway() as running, running.connected() as client:
        await client.send(command, Subscribe("b"), Publish("b", None, b"next"))
        assert (await client.read()).payload == b"next"
    (line,) = [
        record.getMessage() for record in caplog.records if record.name == "zaichik.legacy.session"
    ]
    assert f": {type(command).__name__} to '{shown(command.topic[:5])}" in line
    assert len(line) < 300


async def test_a_subscription_too_many_is_dropped():
    async with gateway() as running, running.connected() as client:
        await client.send(*(Subscribe(f"t{number}") for number in range(MAX_SUBSCRIPTIONS + 1)))
        await client.send(Subscribe("t0"))  # not one more: it replaces the first
        await client.send(
            Publish(f"t{MAX_SUBSCRIPTIONS}", None, b"no"), Publish("t0", None, b"yes")
        )
        assert (await client.read()).payload == b"yes"
        assert len(await running.client.subscriptions("t")) == MAX_SUBSCRIPTIONS


async def test_refusals_are_paced(monkeypatch):
    """So neither the log nor what the client knows of topics grows as fast as a peer can send."""
    monkeypatch.setattr(session_module, "PAUSE_SECONDS", 3600)
    async with gateway() as running, running.connected() as client:
        await client.send(*(Publish("$", None, b"x") for _ in range(3)), Publish("a", None, b"x"))
        await running.settle()
        assert await running.client.topic("a") is None


async def test_a_subscription_that_ends_ends_the_connection(caplog):
    caplog.set_level(logging.INFO, "zaichik.legacy")
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"))
        await running.settle()
        await running.client.delete_topic("a")
        assert await client.ended()
        await client.send_eof()
        await running.settle()  # the line is written a moment later
    assert "disconnected: its subscription to 'a' has ended: " in caplog.text


# -- peers that cost -----------------------------------------------------------------------------


async def test_a_client_that_never_reads_holds_one_message_and_no_one_up():
    kept = zaichik.TopicSettings(retention_ttl_ms=2**64 - 1)
    async with (
        gateway(topic=kept) as running,
        running.connected() as client,
        running.connected() as other,
    ):
        for _ in range(30):
            await running.client.publish_batch("a", [(None, bytes(500_000))] * 2)
        await client.send(Subscribe("a"), *(Commit() for _ in range(200)))
        await running.settle()
        (reader,) = await running.client.subscriptions("a")
        assert reader["cursor"] < 60  # what is beyond the sockets' buffers stays in the broker
        assert reader["cursor"] - reader["committed"] == 1
        await other.send(Subscribe("b"), Publish("b", None, b"2"))
        assert (await other.read()).payload == b"2"


async def test_a_client_that_never_reads_can_still_be_cut_off():
    async with gateway(topic=zaichik.TopicSettings(retention_ttl_ms=2**64 - 1)) as running:
        for _ in range(20):
            await running.client.publish("a", bytes(1_000_000))
        async with running.connected() as client:
            await client.send(Subscribe("a"))
            for _ in range(40):
                await client.send(Commit())
            await running.settle()
        while await running.client.subscriptions("a"):
            await anyio.lowlevel.checkpoint()


async def test_unsubscribing_does_not_cut_the_delivery_that_is_being_sent():
    kept = zaichik.TopicSettings(retention_ttl_ms=2**64 - 1)
    async with gateway(topic=kept) as running, running.connected() as client:
        for _ in range(30):
            await running.client.publish("a", bytes(1_000_000))
        await client.send(Subscribe("a"), *(Commit() for _ in range(60)))
        await running.settle()
        await client.send(Unsubscribe("a"), Commit(), Subscribe("b"), Publish("b", None, b"1"))
        sizes = []
        while (message := await client.read()).topic == "a":
            sizes.append(len(message.payload))
        assert message.payload == b"1"
        assert 0 < len(sizes) < 30
        assert set(sizes) == {1_000_000}


@pytest.mark.parametrize(
    "end", ["close", "unsubscribe and close", "half-close", "delete the topic"]
)
async def test_the_end_of_a_connection_does_not_cut_the_delivery_that_is_being_sent(
    end, monkeypatch
):
    monkeypatch.setattr(session_module, "GOODBYE_SECONDS", GUARD)
    async with gateway(topic=KEPT) as running, running.connected() as client:
        await start_unread_delivery(running, client)
        match end:
            case "close":
                await client.send(CloseConnection())
            case "unsubscribe and close":
                await client.send(Unsubscribe("a"), CloseConnection())
            case "half-close":
                await client.send_eof()
            case "delete the topic":
                await running.client.delete_topic("a")
        await running.settle()
        with suppress(anyio.EndOfStream):
            while True:
                assert len((await client.read()).payload) == 1_000_000
        assert client.has_nothing()


async def test_closing_does_not_lose_what_was_delivered():
    async with gateway() as running, running.connected() as client:
        await client.send(Subscribe("a"), Publish("a", None, b"1"))
        await running.settle()
        await client.send(CloseConnection(), *(Publish("a", None, bytes(1000)) for _ in range(100)))
        assert (await client.read()).payload == b"1"
        assert await client.ended()


# -- tables --------------------------------------------------------------------------------------


async def test_a_table_is_not_read_and_all_else_goes_on(caplog):
    """These clients know no deletions, and would take one for an empty message."""
    async with gateway() as running, running.connected() as client:
        await running.client.create_topic("prices", table=True)
        await running.client.publish("prices", b"1", key="a")
        await client.send(Subscribe("prices"), Subscribe("b"), Publish("b", None, b"1"))
        assert (await client.read()).topic == "b"
        await running.settle()
        assert await running.client.subscriptions("prices") == []
    (line,) = [record.getMessage() for record in caplog.records if "dropped" in record.msg]
    assert "Subscribe to 'prices' was dropped: it is a table" in line


async def test_a_table_is_published_to_and_nothing_is_deleted(caplog):
    """TAB-6."""
    async with gateway() as running, running.connected() as client:
        await running.client.create_topic("prices", table=True)
        await client.send(Publish("prices", "a", b"1"), Publish("prices", "a", b""))
        await client.send(Publish("prices", "b", b"2"), Subscribe("b"), Publish("b", None, b"x"))
        assert (await client.read()).topic == "b"
        state = await running.client.topic("prices")
        assert (state["keys"], state["tombstones"]) == (2, 0)
    assert "Publish to 'prices' was dropped" in caplog.text
