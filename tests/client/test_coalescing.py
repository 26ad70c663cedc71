from contextlib import AsyncExitStack

import anyio
import pytest
from brokers import GUARD, HANG_UP, TABLES_GRANTED, fake_client, real_broker, real_client
from proxy import cutting_proxy

import zaichik
from zaichik import PublishResult
from zaichik_protocol import Error, ErrorCode, Ping, Pong, Publish, Published

pytestmark = pytest.mark.anyio


def stored(request, first_offset=0):
    return Published(request.id, first_offset, request.batch.count, 0, 2)


async def at_once(client, *payloads, topic="t"):
    """The results, or errors, of publishing each of these in a task, in their order."""
    results = {}

    async def publish(number, payload):
        try:
            results[number] = await client.publish(topic, payload)
        except zaichik.ZaichikError as error:
            results[number] = error

    async with anyio.create_task_group() as tasks:
        for number, payload in enumerate(payloads):
            tasks.start_soon(publish, number, payload)
    return [results[number] for number in range(len(payloads))]


async def test_calls_of_one_turn_travel_as_one_batch_after_the_first():
    async with fake_client() as (broker, client):
        await at_once(client, *(b"%d" % number for number in range(10)))
        assert [request.batch.count for request in broker.of(Publish)] == [1, 9]


async def test_each_call_gets_the_offset_of_its_own_message():
    async with real_client() as client:
        payloads = [b"%d" % number for number in range(100)]
        results = await at_once(client, *payloads)
        async with client.subscribe("t", start=0, until=100) as subscription:
            found = {message.offset: message.payload async for message in subscription}
    assert {
        result.offset: payload for result, payload in zip(results, payloads, strict=True)
    } == found


async def test_a_tombstone_does_not_travel_with_an_empty_payload_that_is_none():
    """TAB-6: one flag holds for the whole batch."""
    meant = [
        ("a", None),
        ("b", b"1"),
        ("c", None),
        ("d", b""),
        (None, b""),
        ("e", b""),
        ("f", None),
    ]
    async with fake_client(TABLES_GRANTED) as (broker, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"the first travels alone")
            for key, payload in meant:
                tasks.start_soon(client.publish, "t", payload, key)
        requests = broker.of(Publish)
        empty = [
            (key, request.tombstones)
            for request in requests
            for key, payload in zip(request.batch.keys(), request.batch.payloads(), strict=True)
            if key and not payload
        ]
    assert dict(empty) == {b"a": True, b"c": True, b"f": True, b"d": False, b"e": False}
    assert len(empty) == 5
    assert len(requests) < len(meant), "the others share batches"


async def test_messages_refused_together_are_retried_as_they_were_meant():
    """TAB-6."""

    def one_by_one(request):
        if request.batch.count > 1:
            return Error(request.id, ErrorCode.BATCH_TOO_LARGE, Publish.TYPE, "batch", 0, "no")
        return stored(request)

    async with fake_client({**TABLES_GRANTED, Publish: one_by_one}) as (broker, client):
        async with anyio.create_task_group() as tasks:
            for key, payload in [("first", b""), ("a", None), ("b", b"1")]:
                tasks.start_soon(client.publish, "t", payload, key)
        alone = [request for request in broker.of(Publish) if request.batch.count == 1]
        assert {request.batch.keys()[0]: request.tombstones for request in alone} == {
            b"first": False,
            b"a": True,
            b"b": False,
        }


async def test_calls_for_different_topics_travel_apart():
    async with real_client() as client:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(client.publish, f"t{number % 2}", b"")
        assert [(state["name"], state["stored"]) for state in await client.topics()] == [
            ("t0", 10),
            ("t1", 10),
        ]


async def test_each_call_learns_whether_its_own_message_was_compacted_away():
    """COM-2."""
    async with fake_client({Publish: lambda _: None}) as (broker, client):
        payloads = [b"a", b"b", b"c", b"d", b"e"]
        results = []

        async def publish():
            results.extend(await at_once(client, *payloads))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            first, rest = await broker.has_received(Publish), await broker.has_received(Publish, 2)
            await broker.send(stored(first))
            await broker.send(
                Published(rest.id, 7, 2, 2, 2, b"\x05")
            )  # the first and the third are dropped
        by_payload = dict(zip(payloads, results, strict=True))
        assert [by_payload[payload] for payload in rest.batch.payloads()] == [
            PublishResult(None, compacted=True, subscribers=2),
            PublishResult(7, compacted=False, subscribers=2),
            PublishResult(None, compacted=True, subscribers=2),
            PublishResult(8, compacted=False, subscribers=2),
        ]


async def test_a_batch_never_holds_more_than_the_broker_accepts():
    async with real_client(max_batch=10, max_message=1000) as client:
        assert len({result.offset for result in await at_once(client, *[b""] * 100)}) == 100
        assert len({result.offset for result in await at_once(client, *[b"x" * 300] * 20)}) == 20


async def test_messages_refused_together_are_retried_alone_and_each_gets_its_own_answer():
    """PUB-2: nothing of a refused batch was stored."""

    def small_and_good(request):
        if request.batch.count > 1:
            return Error(
                request.id, ErrorCode.BATCH_TOO_LARGE, Publish.TYPE, "batch", 0, "together"
            )
        if request.batch.payloads() == [b"bad"]:
            return Error(request.id, ErrorCode.INVALID_FIELD, Publish.TYPE, "batch", 0, "alone")
        return stored(request)

    async with fake_client({Publish: small_and_good}) as (_, client):
        first, good, bad, better = await at_once(client, b"first", b"good", b"bad", b"better")
        assert first == good == better == PublishResult(0, compacted=False, subscribers=2)
        with pytest.raises(zaichik.InvalidField, match="alone"):
            raise bad


async def test_messages_that_may_have_been_stored_are_not_retried_alone():
    """PUB-4: the broker has forgotten the producer meanwhile, so it can tell nobody."""

    def forgotten(request):
        return Error(
            request.id, ErrorCode.PRODUCER_UNKNOWN, Publish.TYPE, "producer", 0, "nobody can tell"
        )

    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        results = []

        async def publish():
            results.extend(await at_once(client, b"a", b"b", b"c"))

        tasks.start_soon(publish)
        await broker.has_received(Publish, 2)
        broker.answers[Publish] = forgotten
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Publish, 2)
        await client.ping()
        assert [request.batch.count for request in broker.of(Publish)] == [1, 2]
        assert [type(result) for result in results] == [zaichik.ProducerUnknown] * 3


async def test_a_ring_smaller_than_a_batch_takes_the_messages_one_by_one():
    """RET-6."""
    async with real_client() as client:
        await client.create_topic("t", capacity=1)
        results = await at_once(client, *[b""] * 20)
        assert sorted(result.offset for result in results) == list(range(20))


async def test_a_call_that_is_cancelled_does_not_keep_the_others_of_its_batch():
    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        results = []
        impatient = anyio.CancelScope()

        async def publish(payload):
            results.append(await client.publish("t", payload))

        async def cancelled():
            with impatient:
                await publish(b"b")

        tasks.start_soon(client.publish, "t", b"a")
        first = await broker.has_received(Publish)
        tasks.start_soon(cancelled)
        tasks.start_soon(publish, b"c")
        second = await broker.has_received(Publish, 2)
        impatient.cancel()
        await broker.send(stored(first), stored(second, 5))
        await client.ping()
        assert [result.offset for result in results] == [5 + second.batch.payloads().index(b"c")]


async def test_a_call_that_is_cancelled_before_its_batch_leaves_takes_its_message_back():
    """Or a program that gives up and tries again, while there is no connection, would have all its
    tries stored.
    """
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        AsyncExitStack() as stack,
    ):
        client = await stack.enter_async_context(zaichik.connect(port=proxy.port, reconnect=GUARD))
        proxy.target = 1  # nobody listens there
        proxy.cut()
        while client._connection._transport.is_open:
            await anyio.lowlevel.checkpoint()
        found = {}

        async def publish(topic, payload):
            found[payload] = (await client.publish(topic, payload)).offset

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.ping)  # so that no call is alone
            for topic in ("t", "nobody"):
                async with anyio.create_task_group() as impatient:
                    for number in range(10):
                        await anyio.wait_all_tasks_blocked()
                        keeps = topic == "t" and number % 3
                        (tasks if keeps else impatient).start_soon(publish, topic, b"%d" % number)
                    await anyio.wait_all_tasks_blocked()
                    impatient.cancel_scope.cancel()
            proxy.target = broker.port
        assert found == {b"%d" % number: offset for offset, number in enumerate((1, 2, 4, 5, 7, 8))}
        assert [state["name"] for state in await client.topics()] == ["t"]
        async with client.subscribe("t", start=0, until=6) as subscription:
            assert [message.payload async for message in subscription] == sorted(
                found, key=found.__getitem__
            )


async def test_an_unencodable_name_is_raised_by_each_call_and_the_connection_continues():
    async with fake_client({Ping: lambda _: None}) as (broker, client):
        errors = []

        async def publish():
            with pytest.raises(ValueError, match="cannot be encoded") as caught:
                await client.publish("x" * 70_000, b"")
            errors.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.ping)
            ping = await broker.has_received(Ping)
            tasks.start_soon(publish)  # not alone: they leave in the writer's turn
            tasks.start_soon(publish)
            await anyio.wait_all_tasks_blocked()
            await broker.send(Pong(ping.id, ping.value))
        assert len(set(errors)) == 2, "an error each, or they would gather each other's tracebacks"


async def test_calls_that_wait_for_their_turn_learn_that_the_connection_is_lost():
    async with fake_client({Publish: lambda _: HANG_UP}, reconnect=0) as (_, client):
        results = await at_once(client, *[b""] * 10)
        assert all(isinstance(result, zaichik.ConnectionLost) for result in results)
        for _ in range(2):  # the second does not join what the first could not send
            with pytest.raises(zaichik.ConnectionLost):
                await client.publish("t", b"")


async def test_a_call_does_not_join_a_batch_that_could_not_be_sent():
    """A subscription that is left after the connection leaves its Unsubscribe unsent, so no call is
    alone.
    """
    async with real_broker() as broker, AsyncExitStack() as stack:
        async with zaichik.connect(port=broker.port) as client:
            await stack.enter_async_context(client.subscribe("t"))
        await stack.aclose()
        for _ in range(2):
            with pytest.raises(zaichik.ConnectionLost):
                await client.publish("t", b"")


async def test_a_fatal_error_is_not_answered_by_sending_again():
    """What waits is told of the error; on a connection that is ending nothing more is sent."""

    def fatal_for_many(request):
        if request.batch.count == 1:
            return stored(request)
        return Error(request.id, ErrorCode.INTERNAL, Publish.TYPE, "", 0, "a bug", fatal=True)

    async with fake_client({Publish: fatal_for_many}) as (broker, client):
        results = await at_once(client, b"a", b"b", b"c")
        assert sorted(type(result).__name__ for result in results) == [
            "Internal",
            "Internal",
            "PublishResult",
        ]
        assert len(broker.of(Publish)) == 2
