"""Clients that behave badly, each in its own way: they must disturb nobody, and most must be cut
off in time.
"""

import trio

from zaichik_protocol import HEARTBEAT, Batch, Describe, Hello, Publish, Start, Subscribe, encode

from .client import connected
from .trace import Anomaly

PAGE = 4  # names: what is asked for at once
AT_HAND = 5  # simulated seconds on top of a limit: two looks of the broker, and the way


async def _is_cut_off(client, seconds, why):
    if not await client.gone(seconds + AT_HAND):
        raise Anomaly(
            "P6", f"{client.book.name} {why}, and is still there after {seconds} s and {AT_HAND}"
        )


async def deaf(world, name, random):
    """Asks for much and reads nothing any more."""
    async with connected(world, name, random, world.weather(random), is_good=False) as client:
        await client.hello()
        client.stop_reading(90)
        with trio.move_on_after(
            60
        ):  # the broker stops reading at some point, and then we cannot send
            for _ in range(400):
                await client.send(Describe, random.randrange(3), limit=PAGE)
        await _is_cut_off(client, 90, "did not read")


async def sipper(world, name, random):
    """Asks for much and reads a little of it now and then: never nothing, so it may stay, until the
    broker stops.
    """
    async with connected(world, name, random, world.weather(random), is_good=False) as client:
        await client.hello()
        client.gulp, client.pause = 30, 4
        with trio.move_on_after(60):
            for _ in range(100):
                await client.send(Describe, 2, limit=PAGE)
        await client.gone(250)


async def hoarder(world, name, random):
    """Commits nothing, and stays."""
    async with connected(world, name, random, world.weather(random), is_good=False) as client:
        await client.hello()
        for topic in sorted(
            world.topics.keys() - {"full"}
        ):  # it would be full for ever, and by right (RET-9)
            await client.ask(
                Subscribe, topic, "", Start.EARLIEST, credit=random.choice([1, 10, 1000])
            )
        while not world.is_published:
            await client.news(10)
            client.events.clear()
        await client.close()


async def sleepy(world, name, random):
    """Takes for ever over its Hello (TIM-1)."""
    async with connected(world, name, random, is_good=False) as client:
        await _trickle(client, encode(Hello(1, client="x" * 200)), random)
        await _is_cut_off(client, world.settings.handshake_timeout, "says no Hello")


async def trickler(world, name, random):
    """Takes for ever over a frame (TIM-2)."""
    async with connected(world, name, random, is_good=False) as client:
        await client.hello()
        frame = encode(Describe(2, 1, "x" * 150))
        await _trickle(client, frame[: random.randint(1, 100)], random)
        await _is_cut_off(client, world.settings.frame_timeout, "does not end a frame")


async def _trickle(client, data, random):
    with trio.move_on_after(8):
        for byte in data:
            await client.send_bytes(bytes([byte]))
            await trio.sleep(random.choice([0.1, 0.5]))


async def silent(world, name, random):
    """Promises a heartbeat and is silent (TIM-3)."""
    async with connected(world, name, random, is_good=False) as client:
        await client.hello(HEARTBEAT)
        await _is_cut_off(client, world.settings.idle_timeout, "is silent")


async def babbler(world, name, random):
    """Sends what is no frame."""
    half = encode(Publish(1, "ring", Batch.of([(b"", b"one")])))[:30]
    sayings = [
        random.randbytes(40),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\x7f",
        half,
    ]
    async with connected(world, name, random, is_good=False) as client:
        if random.random() < 0.5:
            await client.hello()
        await client.send_bytes(random.choice(sayings))
        await client.socket.send_eof()
        await _is_cut_off(client, 1, "talks nonsense")


async def vanisher(world, name, random):
    """Is gone in the middle of a frame; sometimes a cable was pulled, and TCP finds that out much
    later.
    """
    async with connected(world, name, random, world.weather(random), is_good=False) as client:
        await client.hello()
        for topic in world.topics:
            await client.send(Subscribe, topic, "", Start.EARLIEST, credit=1000)
        await trio.sleep(random.choice([0, 0.1, 3]))
        frame = encode(Describe(0, 0, "x" * 100))
        await client.send_bytes(frame[: random.randrange(len(frame))])
        if random.random() < 0.3:
            client.socket.pull()
            await trio.sleep(90)
        client.socket.cut()


TROUBLE = [deaf, sipper, hoarder, sleepy, trickler, silent, babbler, vanisher]
