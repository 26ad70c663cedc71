"""What was promised holds wherever the connection is cut."""

import random
import socket

import anyio
import pytest
from brokers import GUARD, HANG_UP, fake_client, real_broker
from proxy import DOWN, UP, cutting_proxy
from silence import silent as deaf_address

import zaichik
from zaichik.client import sequencer as sequencer_module
from zaichik.client import transport as transport_module
from zaichik.net import attempts
from zaichik_protocol import (
    CreateTopic,
    Delete,
    Describe,
    Described,
    Error,
    ErrorCode,
    Hello,
    Ping,
    Pong,
    TopicCreated,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(sequencer_module, "FIRST_RETRY_SECONDS", 0.001)


def silent(_frame):
    return None


async def stored(client, topic):
    """The payloads of a topic, in order."""
    (state,) = await client.topics(topic)
    async with client.subscribe(topic, start=0, until=state["next_offset"]) as subscription:
        return [message.payload async for message in subscription]


# -- cut anywhere --------------------------------------------------------------------------------


def cuts(seed):
    """A few connections that last for a few bytes each, the first long enough for its greeting."""
    chance = random.Random(seed)
    later = [
        (chance.choice((UP, DOWN)), chance.randrange(1, 1500)) for _ in range(chance.randrange(8))
    ]
    return [(chance.choice((UP, DOWN)), chance.randrange(200, 1500)), *later]


@pytest.mark.parametrize("first", range(0, 25, 5))
async def test_wherever_it_is_cut_nothing_is_lost_duplicated_or_reordered(first):
    """PUB-4."""
    payloads = [b"%d" % number for number in range(60)]
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        for seed in range(first, first + 5):
            topic = f"t{seed}"
            await other.create_topic(topic, retention_ttl="forever")
            async with cutting_proxy(broker.port, cuts(seed)) as proxy, connected(proxy) as client:
                async with client.producer(topic, max_batch=4) as producer:
                    for payload in payloads:
                        await producer.send(payload)
                        await anyio.lowlevel.checkpoint()
                assert producer.stored == len(payloads)
                result = await client.publish(topic, b"last")
                assert result.offset == len(payloads)
            assert await stored(other, topic) == [*payloads, b"last"], seed


def connected(proxy):
    """A client through the proxy."""
    return zaichik.connect(port=proxy.port, reconnect=GUARD)


@pytest.mark.parametrize("first", range(0, 10, 5))
async def test_wherever_it_is_cut_and_cancelled_nothing_is_duplicated_or_reordered(first):
    """PUB-4: of a publish that was cancelled nobody knows, but it is not stored later than the next
    of its task.
    """
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        for seed in range(first, first + 5):
            topic, chance, done = f"t{seed}", random.Random(seed), set()
            await other.create_topic(topic, retention_ttl="forever")
            async with (
                cutting_proxy(broker.port, cuts(seed)) as proxy,
                connected(proxy) as client,
                anyio.create_task_group() as tasks,
            ):
                for task in range(6):
                    tasks.start_soon(publish_impatiently, client, topic, task, chance, done)
            found = [tuple(payload.split()) for payload in await stored(other, topic)]
            assert len(set(found)) == len(found), seed
            assert done <= set(found), seed
            for task in range(6):
                numbers = [int(number) for name, number in found if int(name) == task]
                assert numbers == sorted(numbers), seed


async def publish_impatiently(client, topic, task, chance, done):
    """A dozen messages, in all ways there are; `done` is told of those that were not given up."""
    for number in range(12):
        payload = b"%d %d" % (task, number)
        with anyio.move_on_after(chance.choice((0.001, 0.005, GUARD))) as scope:
            match chance.randrange(3):
                case 0:
                    await client.publish(topic, payload)
                case 1:
                    await client.publish_batch(topic, [(None, payload)])
                case _:
                    async with client.producer(topic) as producer:
                        await producer.send(payload)
        if not scope.cancelled_caught:
            done.add(tuple(payload.split()))


@pytest.mark.parametrize("name", ["", "worker"])
@pytest.mark.parametrize("first", range(0, 10, 5))
async def test_wherever_it_is_cut_a_reader_is_given_everything_once_and_in_order(name, first):
    """CMT-3, CMT-4."""
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        for seed in range(first, first + 5):
            topic = f"t{seed}"
            await other.create_topic(topic, retention_ttl="forever")
            for number in range(0, 50, 5):
                await other.publish_batch(
                    topic, [(None, b"%d" % more) for more in range(number, number + 5)]
                )
            async with (
                cutting_proxy(broker.port, cuts(seed)) as proxy,
                connected(proxy) as client,
                client.subscribe(topic, start=0, until=50, credit=8, name=name) as subscription,
            ):
                assert [message.offset async for message in subscription] == list(range(50)), seed
                assert subscription.lagged == 0


@pytest.mark.parametrize("first", range(0, 10, 5))
async def test_wherever_it_is_cut_a_lossless_topic_loses_nothing(first):
    """RET-9, CMT-3, PUB-4: both ends are cut; the ring is far smaller than what passes through."""
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        for seed in range(first, first + 5):
            topic = f"t{seed}"
            await other.create_topic(
                topic, retention_ttl="forever", capacity=12, max_bytes=2**16, overflow="reject"
            )
            async with (
                cutting_proxy(broker.port, cuts(seed)) as proxy,
                cutting_proxy(broker.port, cuts(-seed)) as proxy_of_reader,
                connected(proxy) as client,
                connected(proxy_of_reader) as reader,
                reader.subscribe(topic, until=80, credit=8, name="worker") as subscription,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(publish, client, topic)
                assert [int(message.payload) async for message in subscription] == list(
                    range(80)
                ), seed
                assert subscription.lagged == 0


async def publish(client, topic):
    async with client.producer(topic, max_batch=4) as producer:
        for number in range(80):
            await producer.send(b"%d" % number)


async def test_requests_of_every_kind_survive():
    """What waits for its reply when the connection is lost is sent again, in order, under the same
    number.
    """
    answers = dict.fromkeys((Ping, CreateTopic, Describe), silent)
    async with fake_client(answers) as (broker, client), anyio.create_task_group() as tasks:
        for call in (client.ping, client.describe):
            tasks.start_soon(call)
        tasks.start_soon(client.create_topic, "t")
        for kind in answers:
            await broker.has_received(kind)
        before = [frame for frame in broker.received if type(frame) in answers]
        broker.answers[Ping] = lambda frame: Pong(frame.id, frame.value)
        broker.answers[CreateTopic] = lambda frame: TopicCreated(frame.id, 0, 1, ())
        broker.answers[Describe] = lambda frame: Described(frame.id, 0, b"{}")
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Describe)
        await broker.has_received(Ping)
        await broker.has_received(CreateTopic)
        assert [type(frame) for frame in broker.received] == [Hello, *map(type, before)]
        assert broker.received[1:] == before


@pytest.mark.parametrize("code", [ErrorCode.NO_SUCH_TOPIC, ErrorCode.EPOCH_CHANGED])
async def test_a_topic_gone_when_its_delete_is_retried_counts_as_deleted(code):
    """TOP-6: the first time has done it, and only its answer was lost."""
    error = [None, code]

    def gone(frame):
        code = error.pop(0) if error else ErrorCode.NO_SUCH_TOPIC
        return (
            HANG_UP
            if code is None
            else Error(frame.id, code, Delete.TYPE, "topic", 0, code.meaning)
        )

    async with fake_client({Delete: gone}) as (broker, client):
        await client.delete_topic("t", epoch=7)
        first, second = broker.of(Delete)
        assert first == second
        with pytest.raises(zaichik.NoSuchTopic):
            await client.delete_topic("t")


async def test_another_refusal_of_a_retried_delete_is_raised():
    """TOP-6."""
    answers = [HANG_UP, ErrorCode.NOT_EMPTY]

    def refused(frame):
        code = answers.pop(0)
        return (
            code
            if code is HANG_UP
            else Error(frame.id, code, Delete.TYPE, "topic", 0, code.meaning)
        )

    async with fake_client({Delete: refused}) as (_, client):
        with pytest.raises(zaichik.NotEmpty):
            await client.delete_topic("t", if_empty=True)


async def test_a_request_without_a_connection_waits_for_one():
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        connected(proxy) as client,
    ):
        await client.ping()
        target, proxy.target = proxy.target, 1  # nobody listens there
        proxy.cut()
        async with anyio.create_task_group() as tasks:
            await until(lambda: not client._connection._transport.is_open)
            tasks.start_soon(client.publish, "t", b"a")
            tasks.start_soon(client.ping)
            await until(lambda: len(client._connection._pending) >= 2)
            proxy.target = target
        assert await stored(client, "t") == [b"a"]


async def until(condition):
    while not condition():
        await anyio.lowlevel.checkpoint()


async def test_a_silent_address_does_not_hide_the_next_one_of_the_host(monkeypatch):
    """At connecting, and at reconnecting."""
    with deaf_address() as (*_, deaf):
        async with real_broker() as broker, cutting_proxy(broker.port) as proxy:
            places = [deaf, ("127.0.0.1", proxy.port)]
            resolve = anyio.getaddrinfo

            async def resolved(host, *arguments, **options):
                if host != "name":
                    return await resolve(host, *arguments, **options)
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

            monkeypatch.setattr(anyio, "getaddrinfo", resolved)
            monkeypatch.setattr(attempts, "DELAY_SECONDS", 0.0)
            async with zaichik.connect("name", 1, reconnect=GUARD) as client:
                await client.ping()
                proxy.cut()
                await client.ping()
                assert proxy.connections == 2
