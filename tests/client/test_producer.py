import anyio
import pytest
from brokers import HANG_UP, TABLES_GRANTED, fake_broker, fake_client, real_client

import zaichik
from zaichik.client.producer import BATCHES_IN_FLIGHT
from zaichik_protocol import Error, ErrorCode, Publish, Published

pytestmark = pytest.mark.anyio


class Own(Exception):
    pass


def stored(request):
    return Published(request.id, 0, request.batch.count, 0, 0)


def refused(request, code=ErrorCode.FORBIDDEN):
    return Error(request.id, code, Publish.TYPE, "", 0, "no")


def payloads(requests):
    return [payload for request in requests for payload in request.batch.payloads()]


async def all_of(client, topic, **options):
    (state,) = await client.topics(topic)
    async with client.subscribe(
        topic, start=state["head"], until=state["next_offset"], **options
    ) as subscription:
        return [message async for message in subscription]


# -- batches and order ---------------------------------------------------------------------------


async def test_everything_sent_is_stored_in_order_when_the_block_ends():
    """PUB-1."""
    async with real_client() as client:
        async with client.producer("t") as producer:
            for number in range(5000):
                await producer.send(b"%d" % number, key=str(number % 7))
        messages = await all_of(client, "t")
    assert [message.payload for message in messages] == [b"%d" % number for number in range(5000)]
    assert [message.key for message in messages[:8]] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
        b"6",
        b"0",
    ]
    assert (producer.topic, producer.stored, producer.compacted) == ("t", 5000, 0)


async def test_a_lone_message_is_sent_at_once():
    async with fake_client() as (broker, client), client.producer("t") as producer:
        await producer.send(b"a")
        assert payloads([await broker.has_received(Publish)]) == [b"a"]


async def test_while_one_batch_is_in_flight_the_next_one_gathers():
    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        client.producer("t") as producer,
    ):
        await producer.send(b"a")
        first = await broker.has_received(Publish)
        for payload in (b"b", b"c", b"d"):
            await producer.send(payload)
        await anyio.wait_all_tasks_blocked()
        assert broker.of(Publish) == [first]
        broker.answers[Publish] = stored
        await broker.send(stored(first))
        await producer.flush()
        assert [request.batch.count for request in broker.of(Publish)] == [1, 3]
        assert payloads(broker.of(Publish)) == [b"a", b"b", b"c", b"d"]


async def test_batches_do_not_wait_once_the_ring_has_accepted_one_as_large():
    async with fake_client() as (broker, client), client.producer("t", max_batch=3) as producer:
        for number in range(4):
            await producer.send(b"%02d" % number)
        await producer.flush()
        broker.answers[Publish] = lambda _: None
        broker.received.clear()

        async def send():
            for number in range(100):
                await producer.send(b"%02d" % number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            waiting = [
                await broker.has_received(Publish, number + 1)
                for number in range(BATCHES_IN_FLIGHT)
            ]
            await anyio.wait_all_tasks_blocked()
            assert broker.of(Publish) == waiting, "as many as the window, and no more"
            assert [request.batch.count for request in waiting[1:]] == [3] * (BATCHES_IN_FLIGHT - 1)
            broker.answers[Publish] = stored
            await broker.send(*map(stored, waiting))
        await producer.flush()
        assert payloads(broker.of(Publish)) == [b"%02d" % number for number in range(100)]


async def test_messages_of_one_turn_are_sent_although_others_are_in_flight():
    async with fake_client() as (broker, client), client.producer("t") as producer:
        for _ in range(3):
            await producer.send(b"a")
        await producer.flush()
        broker.answers[Publish] = lambda _: None
        broker.received.clear()
        await producer.send(b"b")
        first = await broker.has_received(Publish)
        await producer.send(b"c")
        await producer.send(b"d")
        second = await broker.has_received(Publish, 2)
        assert payloads([first, second]) == [b"b", b"c", b"d"]
        broker.answers[Publish] = stored
        await broker.send(stored(first), stored(second))


async def test_a_batch_larger_than_any_before_travels_alone():
    """Or else one that is refused and sent again in halves would come after those behind it."""
    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        client.producer("t") as producer,
    ):
        await producer.send(b"a")
        first = await broker.has_received(Publish)
        await producer.send(b"larger")
        await anyio.wait_all_tasks_blocked()
        assert broker.of(Publish) == [first]
        await broker.send(stored(first))
        second = await broker.has_received(Publish, 2)
        await producer.send(b"b")
        await producer.send(b"c")
        await anyio.wait_all_tasks_blocked()
        assert broker.of(Publish) == [first, second]
        broker.answers[Publish] = stored
        await broker.send(stored(second))
        await producer.flush()
        assert payloads(broker.of(Publish)) == [b"a", b"larger", b"b", b"c"]


async def test_nothing_is_sent_after_a_batch_larger_than_any_before():
    """Not even a small one: were the large one refused, its halves would come after it."""
    async with fake_client() as (broker, client), client.producer("t") as producer:
        await producer.send(b"a")
        await producer.flush()
        broker.answers[Publish] = lambda _: None
        await producer.send(b"larger")
        large = await broker.has_received(Publish, 2)
        await producer.send(b"b")
        await anyio.wait_all_tasks_blocked()
        assert broker.of(Publish)[1:] == [large]
        broker.answers[Publish] = stored
        await broker.send(stored(large))
        await producer.flush()
        assert payloads(broker.of(Publish)) == [b"a", b"larger", b"b"]


async def assert_all_wait_for_the_first(broker, producer, following):
    broker.answers[Publish] = lambda _: None
    broker.received.clear()
    await producer.send(b"first")
    first = await broker.has_received(Publish)
    for payload in following:
        await producer.send(payload)
    await anyio.wait_all_tasks_blocked()
    assert broker.of(Publish) == [first]
    broker.answers[Publish] = stored
    await broker.send(stored(first))


async def test_one_long_message_does_not_prove_as_many_bytes_in_many_messages():
    """A ring counts the offsets of each message, too: 90 of 10 bytes take more of it than one of
    900.
    """
    async with fake_client() as (broker, client), client.producer("t") as producer:
        for payload, count in ((b"a", 99), (b"a" * 900, 1)):
            for _ in range(count):
                await producer.send(payload)
            await producer.flush()
        await assert_all_wait_for_the_first(broker, producer, [b"0123456789"] * 90)


async def test_one_message_does_not_prove_as_many_bytes_in_several():
    """A ring is bounded in messages, too."""
    async with fake_client() as (broker, client), client.producer("t") as producer:
        await producer.send(b"a" * 900)
        await producer.flush()
        await assert_all_wait_for_the_first(broker, producer, [b""] * 50)


async def test_a_producer_ends_with_its_block():
    async with fake_client() as (broker, client):
        async with client.producer("t") as producer:
            await producer.send(b"a")
        with pytest.raises(RuntimeError, match="has ended"):
            await producer.send(b"b")
        assert payloads(broker.of(Publish)) == [b"a"]


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({"max_batch": 3}, 3),
        ({"max_bytes": 30}, 3),
        ({"max_bytes": 39}, 3),
        ({"max_batch": 3, "max_bytes": 20}, 2),
    ],
)
async def test_a_full_queue_makes_send_wait(options, fits):
    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        client.producer("t", **options) as producer,
    ):
        sent = []

        async def send():
            for number in range(10):
                await producer.send(b"%010d" % number)
                sent.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            first = await broker.has_received(Publish)
            await anyio.wait_all_tasks_blocked()
            assert len(sent) == first.batch.count + fits
            broker.answers[Publish] = stored
            await broker.send(stored(first))
        await producer.flush()
        assert payloads(broker.of(Publish)) == [b"%010d" % number for number in range(10)]
        assert max(request.batch.count for request in broker.of(Publish)) <= fits


async def test_keys_count_as_bytes():
    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        client.producer("t", max_bytes=10) as producer,
    ):
        await producer.send(b"")
        first = await broker.has_received(Publish)
        await producer.send(b"12345", key="12345")
        with anyio.move_on_after(0) as scope:
            await producer.send(b"1")
        assert scope.cancelled_caught
        broker.answers[Publish] = stored
        await broker.send(stored(first))


async def test_a_message_larger_than_max_bytes_is_sent_alone():
    async with real_client() as client:
        async with client.producer("t", max_bytes=10) as producer:
            for payload in (b"a", b"x" * 1000, b"b"):
                await producer.send(payload)
        assert [len(message.payload) for message in await all_of(client, "t")] == [1, 1000, 1]


async def test_batches_are_never_larger_than_the_broker_accepts():
    async with real_client(max_batch=10, max_message=1000) as client:
        async with client.producer("t", max_batch=10**6, max_bytes=2**30) as producer:
            for number in range(100):
                await producer.send(b"%0300d" % number)
            for _ in range(100):
                await producer.send(b"")
        assert producer.stored == 200


async def test_a_producer_of_many_tasks_keeps_the_order_of_each():
    async with real_client() as client:
        async with (
            client.producer("t", max_batch=7) as producer,
            anyio.create_task_group() as tasks,
        ):

            async def send(name):
                for number in range(100):
                    await producer.send(b"%d" % number, key=name)

            for name in "abc":
                tasks.start_soon(send, name)
        messages = await all_of(client, "t")
    for name in (b"a", b"b", b"c"):
        assert [int(message.payload) for message in messages if message.key == name] == list(
            range(100)
        )


async def test_compacted_messages_are_counted():
    """COM-2."""
    async with real_client() as client:
        await client.create_topic("t", compaction_window="forever")
        async with client.producer("t", max_batch=10) as producer:
            for number in range(100):
                await producer.send(b"", key=str(number % 8))
    assert (producer.stored, producer.compacted) == (8, 92)


@pytest.mark.parametrize("settings", [{"capacity": 7}, {"capacity": 1}, {"max_bytes": 100}])
async def test_a_batch_too_large_for_the_ring_goes_in_pieces_in_order(settings):
    """RET-6: the client splits."""
    async with real_client() as client:
        await client.create_topic("t", **settings)
        async with client.subscribe("t", start="latest", events=True) as subscription:
            async with client.producer("t") as producer:
                for number in range(50):
                    await producer.send(b"%d" % number)
            assert producer.stored == 50
            assert subscription.start == 0
        (state,) = await client.topics()
        last = [message.payload for message in await all_of(client, "t")]
    assert (state["next_offset"], state["left_over"]["published - stored - compacted"]) == (50, 0)
    assert last == [b"%d" % number for number in range(50)][-len(last) :]


async def test_pieces_come_in_order_and_later_batches_are_small_from_the_start():
    def ring_of_three(request):
        return (
            stored(request)
            if request.batch.count <= 3
            else refused(request, ErrorCode.BATCH_TOO_LARGE)
        )

    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        client.producer("t") as producer,
    ):
        await producer.send(b"0")
        first = await broker.has_received(Publish)
        for number in range(1, 11):
            await producer.send(b"%d" % number)
        broker.answers[Publish] = ring_of_three
        await broker.send(stored(first))
        await producer.flush()
        taken = [request for request in broker.of(Publish) if request.batch.count <= 3]
        assert payloads(taken) == [b"%d" % number for number in range(11)]
        broker.received.clear()
        async with anyio.create_task_group() as tasks:
            for number in range(11):
                tasks.start_soon(producer.send, b"%d" % number)
        await producer.flush()
        assert max(request.batch.count for request in broker.of(Publish)) <= 3


async def test_one_message_too_large_for_the_broker_is_refused_by_send_itself():
    async with real_client(max_message=1000) as client:
        async with client.producer("t") as producer:
            for _ in range(2):
                with pytest.raises(zaichik.MessageTooLarge):
                    await producer.send(b"x" * 5_000_000)
                await producer.send(b"x" * 1000)
        assert producer.stored == 2


async def test_one_message_too_large_for_the_ring_is_a_failure():
    async with real_client() as client:
        await client.create_topic("t", max_bytes=100)
        with pytest.raises(zaichik.BatchTooLarge):
            async with client.producer("t") as producer:
                await producer.send(b"x" * 200)


# -- flushing ------------------------------------------------------------------------------------


async def test_flush_returns_when_all_is_stored():
    """PUB-1."""
    async with real_client() as client, client.producer("t") as producer:
        for _ in range(100):
            await producer.send(b"a")
        await producer.flush()
        (state,) = await client.topics()
        assert (state["stored"], producer.stored) == (100, 100)


async def test_flushing_nothing_returns():
    async with fake_client() as (broker, client):
        async with client.producer("t") as producer:
            await producer.flush()
        assert broker.of(Publish) == []


@pytest.mark.parametrize("stored", [0, 2])
async def test_a_broker_that_counts_wrongly_ends_a_flush_with_an_error(stored):
    """It waits for answers, and one that is about other messages confirms none."""
    async with fake_client({Publish: lambda request: Published(request.id, 0, stored, 0, 0)}) as (
        _,
        client,
    ):
        with pytest.raises(zaichik.ConnectionLost, match="another number of messages than 1"):
            async with client.producer("t") as producer:
                await producer.send(b"a")
        assert producer.stored == 0


async def test_flush_does_not_wait_for_what_is_sent_after_it():
    """It returns though another task never stops sending."""
    async with (
        fake_client({Publish: lambda _: None}) as (broker, client),
        client.producer("t") as producer,
    ):
        flushed = anyio.Event()

        async def flush():
            await producer.flush()
            flushed.set()

        async with anyio.create_task_group() as tasks:
            await producer.send(b"a")
            first = await broker.has_received(Publish)
            tasks.start_soon(flush)
            await anyio.wait_all_tasks_blocked()
            await producer.send(b"b")
            await broker.send(stored(first))
            await flushed.wait()
            broker.answers[Publish] = stored
            await broker.send(stored(await broker.has_received(Publish, 2)))


async def test_messages_sent_before_the_block_failed_are_stored():
    async with real_client() as client:

        async def block():
            async with client.producer("t", max_batch=3) as producer:
                for _ in range(10):
                    await producer.send(b"a")
                raise Own

        with pytest.raises(Own):
            await block()
        assert len(await all_of(client, "t")) == 10


async def test_a_cancelled_block_does_not_wait_for_the_broker():
    async with fake_client({Publish: lambda _: None}) as (broker, client):
        with anyio.CancelScope() as scope:
            async with client.producer("t") as producer:
                await producer.send(b"a")
                await broker.has_received(Publish)
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught


# -- failures ------------------------------------------------------------------------------------


async def test_a_failure_is_raised_by_flush_then_send_then_at_the_end():
    async with fake_client({Publish: refused}) as (_, client):

        async def block():
            async with client.producer("t") as producer:
                await producer.send(b"a")
                with pytest.raises(zaichik.Forbidden):
                    await producer.flush()
                with pytest.raises(zaichik.Forbidden):
                    await producer.send(b"b")

        with pytest.raises(zaichik.Forbidden):
            await block()


async def test_a_failure_is_raised_by_a_send_that_waits():
    async with fake_client({Publish: lambda _: None}) as (broker, client):

        async def block():
            async with (
                client.producer("t", max_batch=1) as producer,
                anyio.create_task_group() as tasks,
            ):

                async def send():
                    with pytest.raises(zaichik.Forbidden):
                        await producer.send(b"c")

                await producer.send(b"a")
                first = await broker.has_received(Publish)
                await producer.send(b"b")
                tasks.start_soon(send)
                tasks.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                await broker.send(refused(first))

        with pytest.raises(zaichik.Forbidden):
            await block()
        assert payloads(broker.of(Publish)) == [b"a"], "nothing follows a failure"


async def test_a_failure_nobody_asked_for_is_raised_at_the_end():
    async with fake_client({Publish: refused}) as (_, client):
        with pytest.raises(zaichik.Forbidden):
            async with client.producer("t") as producer:
                await producer.send(b"a")


async def test_the_blocks_own_failure_goes_before_the_producers():
    async with fake_client({Publish: refused}) as (_, client):

        async def block():
            async with client.producer("t") as producer:
                await producer.send(b"a")
                raise Own

        with pytest.raises(Own):
            await block()


async def test_a_lost_connection_ends_a_producer():
    async with fake_broker({Publish: lambda _: HANG_UP}) as broker:

        async def block():
            async with (
                zaichik.connect(port=broker.port, reconnect=0) as client,
                client.producer("t") as producer,
            ):
                for _ in range(100_000):
                    await producer.send(b"x" * 1000)

        with pytest.raises(zaichik.ConnectionLost):
            await block()


@pytest.mark.parametrize(
    ("topic", "payload", "kind"),
    [("t", 5.5, TypeError), ("t", "text", TypeError), ("x" * 70_000, b"", ValueError)],
)
async def test_an_unsendable_message_is_raised_unwrapped(topic, payload, kind):
    async with real_client() as client:
        with pytest.raises(kind):
            async with client.producer(topic) as producer:
                await producer.send(payload)


async def test_an_empty_key_is_refused_by_send_itself():
    """COM-5."""
    async with real_client() as client, client.producer("t") as producer:
        with pytest.raises(ValueError, match="empty key"):
            await producer.send(b"", key="")


# -- tombstones ----------------------------------------------------------------------------------


async def test_a_batch_deletes_with_all_of_its_empty_payloads_or_with_none():
    """TAB-6."""
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
        async with client.producer("t") as producer:
            await producer.send(b"the first is sent alone")
            for key, payload in meant:
                await producer.send(payload, key)
        _, *requests = broker.of(Publish)
        sent = [
            (key, payload if payload or not key or not request.tombstones else None)
            for request in requests
            for key, payload in zip(request.batch.keys(), request.batch.payloads(), strict=True)
        ]
    assert sent == [((key or "").encode(), payload) for key, payload in meant]


async def test_halves_of_a_batch_delete_as_the_whole_would_have():
    """TAB-6."""

    def answer(request):
        if request.batch.count > 2:
            return refused(request, ErrorCode.BATCH_TOO_LARGE)
        return stored(request)

    async with fake_client({**TABLES_GRANTED, Publish: answer}) as (broker, client):
        async with client.producer("t") as producer:
            for number in range(5):
                await producer.send(None, key=str(number))
        assert {request.batch.count for request in broker.of(Publish)} >= {1, 2, 4}
        assert all(request.tombstones for request in broker.of(Publish))


async def test_what_follows_a_deletion_deletes_nothing():
    """TAB-6."""
    async with fake_client(TABLES_GRANTED) as (broker, client):
        async with client.producer("t") as producer:
            for payload in (None, b"1", None, b"2"):
                await producer.send(payload, key="k")
                await producer.flush()
        assert [request.tombstones for request in broker.of(Publish)] == [True, False, True, False]


async def test_a_tombstone_without_a_key_is_not_queued():
    async with real_client() as client:
        async with client.producer("t") as producer:
            with pytest.raises(ValueError, match="name the key"):
                await producer.send(None)
            await producer.send(b"goes on")
        assert producer.stored == 1


async def test_a_failed_producer_takes_no_tombstone():
    async def send_and_delete(client):
        async with client.producer("t") as producer:
            await producer.send(b"", key="k")
            await client.ping()
            await producer.send(None, key="k")
            pytest.fail("it was taken")

    async with fake_client({**TABLES_GRANTED, Publish: refused}) as (_, client):
        with pytest.raises(zaichik.Forbidden):
            await send_and_delete(client)


async def test_keys_of_a_table_are_deleted_by_a_producer():
    """TAB-5."""
    async with real_client() as client:
        await client.create_topic("t", table=True)
        async with client.producer("t") as producer:
            for number in range(100):
                await producer.send(b"%d" % number, key=str(number % 10))
            for number in range(0, 10, 2):
                await producer.send(None, key=str(number))
        state = await client.topic("t")
        messages = [message for message in await all_of(client, "t") if message.payload]
    assert state["keys"] == 5
    assert [message.payload for message in messages] == [b"91", b"93", b"95", b"97", b"99"]
