"""What a program sees that publishes while the broker's machine is lost, and the topic restored.

RS-2: the numbers of producers are not in Kafka. What was in flight ends with an error, once: it may
be stored. Nothing is stored twice, and what comes next is stored.
"""

from contextlib import asynccontextmanager

import anyio
import pytest
from brokers import GUARD, START_US
from copied import copied, message, restored
from switch import switch

import zaichik
from zaichik.apps.replication.restoring import SKIP

pytestmark = pytest.mark.anyio
LATER_US = START_US + 60_000_000


@asynccontextmanager
async def broker(folder, at_us):
    """A broker of that folder: its port, and a client."""
    async with (
        zaichik.running_broker(clock=zaichik.ManualClock(at_us), data=folder) as running,
        zaichik.connect(port=running.port) as client,
    ):
        yield running.port, client


async def payloads(client, count):
    """The first so many payloads of the topic, when they are there."""
    async with client.subscribe("orders", start=0) as subscription:
        return [(await anext(subscription)).payload for _ in range(count)]


async def in_kafka(client, count):
    """What a bridge has copied of the topic: so many messages."""
    state = await client.topic("orders")
    async with client.subscribe("orders", start=0, until=count) as subscription:
        found = [message async for message in subscription]
    return copied(found, state["epoch"], state["settings"])


class Flight:
    """Calls that are in flight when the broker is lost, and what becomes of each."""

    def __init__(self, tasks):
        self._tasks = tasks
        self.results = []
        self.errors = []

    def begin(self, function, *arguments, **options):
        """Begin a call."""
        self._tasks.start_soon(self._outcome, function, arguments, options)

    async def _outcome(self, function, arguments, options):
        try:
            self.results.append(await function(*arguments, **options))
        except zaichik.ZaichikError as error:
            self.errors.append(error)


@asynccontextmanager
async def loss(folder, before, during, *, reach=True, copied_of_them=True):
    """Loses the broker under a program, and restores the topic.

    Args:
        folder: for both brokers.
        before: a coroutine function of the program's client; returns how many are stored then.
        during: called with the client and a `Flight`; returns how many are in flight.
        reach: whether what is in flight reaches the broker; its answers never come.
        copied_of_them: whether Kafka has it, too.

    Returns:
        The program's client, one of the restored broker, the flight, and how many Kafka had.
    """
    with anyio.fail_after(GUARD):
        async with switch(0) as between, anyio.create_task_group() as tasks:
            async with broker(folder / "a", START_US) as (port, witness):
                await witness.create_topic("orders", durable=True)
                await witness.publish("orders", b"somebody else's")
                between.target = port
                client = await tasks.start(program, between.port)
                stored = 1 + await before(client)
                between.is_mute = True
                between.is_deaf = not reach
                flight = Flight(tasks)
                count = during(client, flight)
                await anyio.wait_all_tasks_blocked()
                if reach:
                    await payloads(witness, stored + count)
                kept = stored + count * (reach and copied_of_them)
                restored(folder / "b", await in_kafka(witness, kept))
                between.target = 0
                between.cut()
            async with broker(folder / "b", LATER_US) as (port, witness):
                between.is_mute = between.is_deaf = False
                between.target = port
                yield client, witness, flight, kept
                tasks.cancel_scope.cancel()


async def program(port, *, task_status):
    """A client that outlives its broker."""
    async with zaichik.connect(port=port, reconnect=GUARD) as client:
        task_status.started(client)
        await anyio.sleep_forever()


async def nothing(_client):
    return 0


async def created(client):
    """The program has created the topic: a reconnection creates it again."""
    await client.create_topic("orders", durable=True)
    return 0


async def three(client):
    for number in range(3):
        await client.publish("orders", b"%d" % number)
    return 3


def one_message(client, flight):
    flight.begin(client.publish, "orders", b"in flight")
    return 1


def several(client, flight):
    """Messages that travel together, and a batch."""
    for number in range(4):
        flight.begin(client.publish, "orders", b"together %d" % number)
    flight.begin(client.publish_batch, "orders", [(None, b"a"), (None, b"b")])
    return 6


FATES = {
    "it is in Kafka": {},
    "only the broker had it": {"copied_of_them": False},
    "it never came to the broker": {"reach": False},
}


@pytest.mark.parametrize("before", [nothing, created, three])
@pytest.mark.parametrize("during", [one_message, several])
@pytest.mark.parametrize("fate", FATES)
async def test_what_was_in_flight_ends_with_an_error_once_and_the_next_is_stored(
    fate, during, before, tmp_path
):
    """Also the first batch of a producer, which a broker takes from anybody."""
    async with loss(tmp_path, before, during, **FATES[fate]) as (client, witness, flight, kept):
        result = await client.publish("orders", b"next")
        assert result.offset == kept + SKIP
        assert (await client.publish("orders", b"and next")).offset == kept + SKIP + 1
        assert {type(error) for error in flight.errors} == {zaichik.ProducerUnknown}
        assert flight.results == []
        found = await payloads(witness, kept + 2)
        assert len(set(found)) == len(found)
        assert found[-2:] == [b"next", b"and next"]


async def test_a_restart_of_a_restored_topic_is_a_pause(tmp_path):
    """Its end is far away, and was before: nothing is in doubt, not even a first batch."""
    made = restored(tmp_path / "b", [message(0, START_US, epoch=START_US)])
    with anyio.fail_after(GUARD):
        async with switch(0) as between, anyio.create_task_group() as tasks:
            async with broker(tmp_path / "b", LATER_US) as (port, witness):
                between.target = port
                client = await tasks.start(program, between.port)
                flight = Flight(tasks)
                await client.publish("orders", b"one")
                between.is_mute = True
                flight.begin(client.publish, "orders", b"two")
                async with witness.subscribe("orders", start=made.next) as subscription:
                    assert (await anext(subscription)).payload == b"one"
                    assert (await anext(subscription)).payload == b"two"
                between.target = 0
                between.cut()
            async with broker(tmp_path / "b", LATER_US) as (port, _):
                between.is_mute = False
                between.target = port
                assert (await client.publish("orders", b"three")).offset == made.next + 2
                assert [result.offset for result in flight.results] == [made.next + 1]
                assert flight.errors == []
                tasks.cancel_scope.cancel()
