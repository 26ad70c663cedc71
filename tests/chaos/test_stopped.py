"""SIGSTOP and SIGCONT: a process that stands still for longer than any deadline, and nobody
innocent is cut off.
"""

import signal
import subprocess
import sys
from contextlib import AsyncExitStack

import anyio
import pytest
from ledger import Ledger, numbered
from pair import healthy_pair
from rude import HELLO, PING, answers, first_reply, greeted
from served import GUARD

import zaichik
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import Ping, Pong, Welcome, encode

pytestmark = pytest.mark.anyio

LONGEST = 100  # seconds: more than the handshake, a frame, a write and a heartbeat may take
TOPIC, MESSAGES = "stopped", 20_000


@pytest.mark.parametrize("seconds", [1, pytest.param(LONGEST, marks=pytest.mark.soak)])
async def test_a_broker_that_was_stopped_cuts_nobody_off(broker, seconds):
    """TIM-1 to TIM-3, LAG-3: neither who waited for it, nor who began a Hello or a frame, nor who
    came meanwhile.
    """
    ping = encode(Ping(PING, PING))
    async with healthy_pair(broker.port) as pair, AsyncExitStack() as stack:
        silent = await stack.enter_async_context(greeted(broker.port))
        beating = await stack.enter_async_context(greeted(broker.port, heartbeat=True))
        half_frame = await stack.enter_async_context(greeted(broker.port))
        half_hello = await stack.enter_async_context(
            await SocketStream.connect("127.0.0.1", broker.port)
        )
        await half_frame.send(ping[:9])
        await half_hello.send(HELLO[:9])
        await pair.goes_on()  # the broker has read both halves
        broker.signal(signal.SIGSTOP)
        late = await stack.enter_async_context(await SocketStream.connect("127.0.0.1", broker.port))
        await late.send(HELLO[:9])
        await anyio.sleep(seconds)  # what is tested is that time passes
        broker.signal(signal.SIGCONT)
        await pair.goes_on()
        await half_frame.send(ping[9:])
        assert isinstance(await first_reply(half_frame), Pong)
        for stream in (half_hello, late):
            await stream.send(HELLO[9:])
            assert isinstance(await first_reply(stream), Welcome)
        for stream in (silent, beating, half_frame, half_hello, late):
            assert await answers(stream)
        assert (await broker.describe())["disconnects"].keys() <= {"CLOSED"}


READER = """
import sys, anyio, zaichik
async def main():
    async with zaichik.connect(port=int(sys.argv[1]), reconnect=0) as client:
        limits = {"until": int(sys.argv[2]), "credit": int(sys.argv[3])}
        async with client.subscribe("stopped", events=True, **limits) as subscription:
            print("reads", flush=True)
            async for item in subscription:
                if isinstance(item, zaichik.Lagged):
                    print(f"lag {item.count}")
                else:
                    print(item.payload.decode())
anyio.run(main)
"""


def reader(port, credit):
    command = [sys.executable, "-c", READER, str(port), str(MESSAGES), str(credit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize("seconds", [1, pytest.param(15, marks=pytest.mark.soak)])
async def test_a_reader_that_was_stopped_is_given_the_rest(broker, seconds):
    """It is owed no more than its credit, and its socket takes that: so nothing stands still, and
    it is not cut off.
    """
    async with zaichik.connect(port=broker.port) as client, healthy_pair(broker.port) as pair:
        await client.create_topic(TOPIC, retention_ttl="forever", capacity=MESSAGES)
        with reader(broker.port, credit=1000) as process:
            try:
                assert await anyio.to_thread.run_sync(process.stdout.readline) == "reads\n"
                process.send_signal(signal.SIGSTOP)
                async with client.producer(TOPIC) as producer:
                    for number in range(MESSAGES):
                        await producer.send(numbered("all", number))
                await anyio.sleep(seconds)  # what is tested is that time passes
                await pair.goes_on()
                process.send_signal(signal.SIGCONT)
                out = await anyio.to_thread.run_sync(process.communicate, None, GUARD)
            finally:
                process.kill()
    assert [line.split()[1] for line in out[0].splitlines()] == [
        str(number) for number in range(MESSAGES)
    ]


@pytest.mark.soak
async def test_a_reader_that_was_stopped_with_full_sockets_is_cut_off_and_told_why(broker):
    """LAG-3: nothing moved for ten seconds. Who reads beside it goes on, and gets everything."""
    ledger = Ledger()
    async with zaichik.connect(port=broker.port) as client, healthy_pair(broker.port) as pair:
        await client.create_topic(TOPIC, retention_ttl="forever", capacity=MESSAGES)
        with reader(broker.port, credit=MESSAGES) as process:
            try:
                assert await anyio.to_thread.run_sync(process.stdout.readline) == "reads\n"
                process.send_signal(signal.SIGSTOP)
                async with client.producer(TOPIC) as producer:
                    for number in range(MESSAGES):
                        await producer.send(numbered("all", number, size=1000))
                with anyio.fail_after(GUARD):
                    while "SLOW_CONSUMER" not in (await client.describe())["disconnects"]:
                        await pair.goes_on()
            finally:
                process.kill()
        async with client.subscribe(TOPIC, until=MESSAGES, events=True) as subscription:
            async for item in subscription:
                ledger.take(item)
    ledger.acknowledge("all", range(MESSAGES))
    ledger.check()
    assert broker.log.count("SLOW_CONSUMER") == 1
