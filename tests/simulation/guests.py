"""Clients that are odd and do nothing wrong: each must be served to its end."""

from contextlib import suppress
from functools import partial

import trio

from zaichik_protocol import (
    FOREVER,
    HEARTBEAT,
    Commit,
    CreateTopic,
    Describe,
    ErrorCode,
    Hello,
    Ping,
    Start,
    Subscribe,
    SubscriptionEnded,
    Unsubscribe,
)

from .client import PATIENCE, Lost, connected
from .network import MS
from .publisher import FULL
from .trace import Anomaly
from .trouble import PAGE

MUCH = ["ring", "bytes"]  # the topics that may hold most


async def quiet(world, name, random):
    """Says nothing for minutes, which it may, having promised nothing; or keeps a promise."""
    features = random.choice([0, HEARTBEAT])
    async with connected(world, name, random, world.weather(random)) as client:
        await client.hello(features)
        for _ in range(8):
            await trio.sleep(30)
            if features:
                await client.ask(Ping, 1)
        await client.ask(Ping, 2)
        await client.close()


async def clumsy(world, name, random):
    """Asks for what cannot be had; each time it is told so, and goes on."""
    topic = random.choice(list(world.topics))
    async with connected(world, name, random, world.weather(random)) as client:
        await client.hello()
        reply = await client.ask(Subscribe, topic, "", Start.LATEST, until=0)
        number = reply.id
        wishes = [
            (ErrorCode.NOT_IN_FLIGHT, Commit, number, 2**40),
            (ErrorCode.NO_SUCH_SUBSCRIPTION, Commit, 999, 0),
            (ErrorCode.NO_SUCH_SUBSCRIPTION, Unsubscribe, 999),
            (ErrorCode.OFFSET_AHEAD, Subscribe, topic, "", Start.OFFSET, 2**40),
            (ErrorCode.EPOCH_CHANGED, Subscribe, topic, "", Start.LATEST, 0, 5),
            (ErrorCode.TOPIC_EXISTS, CreateTopic, topic, ((3, 7),)),
            (ErrorCode.TOO_MANY_TOPICS, CreateTopic, "another"),
            (ErrorCode.INVALID_FIELD, Subscribe, topic, "", Start.LATEST, 0, 0, FOREVER, 0),
        ]
        random.shuffle(wishes)
        for code, kind, *fields in wishes:
            reply = await client.ask(kind, *fields, expects={code})
            if getattr(reply, "code", None) != code:
                raise Anomaly(
                    "ERR",
                    f"{name}: {kind.__name__} should fail with {code.name}, and the answer is "
                    f"{reply}",
                )
            await trio.sleep(random.choice([0, 1]))
        await client.close()


async def echo(world, name, random):
    """Publishes much to what it reads and reads nothing meanwhile: neither side may wait for the
    other for ever.
    """
    topic = random.choice(list(world.topics))
    async with connected(world, name, random, world.weather(random)) as client:
        await client.hello()
        reply = await client.ask(Subscribe, topic, "", Start.LATEST, credit=10_000)
        client.stop_reading(random.choice([1, 5]))
        numbers = []
        for serial in range(30):
            payload = b"%s/%d " % (name.encode(), serial) + random.randbytes(600)
            numbers.append(await client.publish(topic, [(b"", payload)], expects=FULL))
        for number in numbers:
            await client.answer(number)
        await client.ask(Unsubscribe, reply.id)
        await client.close()


async def rival(world, name, random):
    """Takes over its own name from another connection, which is told, and goes on where that one
    stood.
    """
    topic, weather = random.choice(list(world.topics)), world.weather(random)
    async with connected(world, f"{name}.1", random, weather) as first:
        await first.hello()
        old = await first.ask(Subscribe, topic, name, Start.EARLIEST, credit=20)
        await first.news(3)
        async with connected(world, f"{name}.2", random, weather) as second:
            await second.hello()
            new = await second.ask(Subscribe, topic, name, Start.LATEST, credit=20)
            if not new.resumed or new.start != old.start:
                raise Anomaly(
                    "P2", f"{name} has not committed {old.start}, and goes on at {new.start}"
                )
            with trio.move_on_after(PATIENCE):
                while not any(isinstance(event, SubscriptionEnded) for event in first.events):
                    first.events.clear()
                    await first.news(PATIENCE)
                await first.ask(Commit, old.id, old.start)
                await second.ask(Unsubscribe, new.id, forget=True)
                await second.close()
                await first.close()
                return
            raise Anomaly("P5", f"{name} was not told that it was taken over")


async def absent(world, name, random):
    """Asks much and reads the answers later: it must wait meanwhile, and no longer than that."""
    async with connected(world, name, random, world.weather(random)) as client:
        await client.hello()
        client.stop_reading(random.choice([1, 5]))
        for number in [await client.send(Describe, 2, limit=PAGE) for _ in range(60)]:
            await client.answer(number)
        await client.close()


async def metronome(world, name, random):
    """Publishes one key at the very edges of its window: half of its messages are stored."""
    window_ms = world.topics["keys"].settings.compaction_window_ms
    async with connected(world, name, random) as client:
        await client.hello()
        for serial in range(6):
            number = await client.publish(
                "keys", [(name.encode(), b"%s/%d " % (name.encode(), serial))]
            )
            reply = await client.answer(number)
            if reply.stored != (serial + 1) % 2:
                raise Anomaly(
                    "COM-2", f"{name}: {reply.stored} stored, {serial / 2} windows after the first"
                )
            await trio.sleep(window_ms / 2 * MS)
        await client.close()


async def leaver(world, name, random):
    """Asks a lot, ends its side at once, and still gets every answer (CLO-1)."""
    async with connected(world, name, random, world.weather(random)) as client:
        await client.hello()
        numbers = [await client.send(Ping, value) for value in range(random.randint(1, 300))]
        await client.socket.send_eof()
        for number in numbers:
            await client.answer(number)
        if not await client.gone(30):
            raise Anomaly("P7", f"{name} has left, and its connection is still open")


async def hasty(world, name, random):
    """Asks for much in one breath: more than a turn of it."""
    async with connected(world, name, random, world.weather(random)) as client:
        await client.hello()
        for _ in range(random.randint(1, 5)):
            for number in await client.send_together(
                Ping, [(value,) for value in range(random.choice([20, 100]))]
            ):
                await client.answer(number)
            await trio.sleep(random.choice([0, 1, 10]))
        await client.close()


async def dozer(world, name, random):
    """Asks for all there is, again and again, and begins to read it some seconds later: never too
    late (LAG-3).
    """
    async with connected(world, name, random, world.weather(random)) as client:
        await client.hello()
        while not world.is_published:
            replies = [
                await client.ask(Subscribe, topic, "", Start.EARLIEST, credit=1000)
                for topic in MUCH * 3
            ]
            seconds = random.choice([1, 3, 8])
            client.stop_reading(seconds)
            await trio.sleep(seconds)
            for reply in replies:
                await client.ask(Unsubscribe, reply.id)
            client.events.clear()
            await trio.sleep(random.choice([0, 1]))
        await client.close()


async def crowd(world, name, random):
    """Comes in numbers: more than there may be are told to come back later."""
    async with trio.open_nursery() as tasks:
        for number in range(random.randint(1, world.settings.max_connections)):
            tasks.start_soon(partial(_one_of_crowd, world, f"{name}.{number}", random))


async def _one_of_crowd(world, name, random):
    with suppress(Lost):
        async with connected(world, name, random, is_good=False) as client:
            await client.send(Hello)
            await client.gone(random.choice([0, 1, 2]))


GUESTS = [quiet, clumsy, echo, rival, absent, metronome, leaver, hasty, dozer, crowd]
