"""The network in memory keeps what TCP promises, and nothing more."""

from random import Random

import anyio
import pytest
import trio
import trio.testing

from simulation.network import Pipe, SimulatedSocket, Weather

BAD = Weather(latency_ms=(0, 1, 300), piece=7, buffer=100, stall=0.1, stall_ms=2000, short=0.5)


def pair(weather=BAD, seed=1):
    random = Random(seed)
    up, down = Pipe(random, weather), Pipe(random, weather)
    return SimulatedSocket(up, down, 1), SimulatedSocket(down, up, 1)


def simulated(function):
    def test():
        trio.run(function, clock=trio.testing.MockClock(autojump_threshold=0))

    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


@simulated
async def test_bytes_come_in_order_whatever_the_weather():
    one, other = pair()
    sent = bytes(range(256)) * 20
    received = bytearray()
    async with trio.open_nursery() as tasks:
        tasks.start_soon(one.send, sent)
        while len(received) < len(sent):
            received += await other.receive()
    assert received == sent


@simulated
async def test_nobody_sends_more_than_the_buffer_holds():
    one, other = pair(Weather(buffer=100))
    assert one.send_nowait(bytes(150)) == 100
    assert one.send_nowait(b"more") == 0
    assert len(await other.receive(60)) == 60
    await one.wait_writable()
    assert one.send_nowait(bytes(150)) == 60


@simulated
async def test_the_end_comes_after_the_last_byte():
    one, other = pair(Weather(latency_ms=(50,)))
    await one.send(b"last")
    await one.send_eof()
    assert await other.receive() == b"last"
    assert trio.current_time() == pytest.approx(0.05)
    with pytest.raises(anyio.EndOfStream):
        await other.receive()


@simulated
async def test_a_cut_takes_what_was_on_its_way():
    one, other = pair(Weather(latency_ms=(50,)))
    await one.send(b"lost")
    one.cut()
    for end in (one, other):
        with pytest.raises(anyio.BrokenResourceError):
            await end.receive()
        with pytest.raises(anyio.BrokenResourceError):
            end.send_nowait(b"x")


@simulated
async def test_closing_with_bytes_unread_is_a_reset():
    one, other = pair(Weather())
    await one.send(b"read")
    await other.send(b"never read")
    await other.aclose()
    with pytest.raises(anyio.BrokenResourceError):
        await one.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await other.receive()


@simulated
async def test_a_pulled_cable_says_nothing_to_anybody():
    one, other = pair(Weather())
    await one.send(b"x")
    one.pull()
    with trio.move_on_after(1000) as waiting:
        await other.receive()
    assert waiting.cancelled_caught


@simulated
async def test_a_receive_that_is_cancelled_has_taken_nothing():
    one, other = pair(Weather(latency_ms=(50,)))
    await one.send(b"kept")
    with trio.move_on_after(0.049):
        await other.receive()
    assert await other.receive() == b"kept"
