"""A broker without descriptors: it goes on with the connections it has, and takes new ones as soon
as it can.
"""

import time
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from pair import healthy_pair
from rude import HELLO, answers, first_reply, greeted, is_served, knock
from served import GUARD, eventually, served

import zaichik
from zaichik.core.settings import LOG_FILES, connection_sockets, refused_sockets
from zaichik.core.sharing.quota import Quota
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import Error, Welcome

pytestmark = pytest.mark.anyio

REFUSED = "connections are turned away"


@pytest.mark.parametrize("seconds", [1, pytest.param(15, marks=pytest.mark.soak)])
async def test_a_broker_out_of_descriptors_goes_on_calmly(broker, seconds):
    """EMFILE on accept: those who are there are answered; the processor rests; the log has a line a
    second.
    """
    async with AsyncExitStack() as stack:
        here = [await stack.enter_async_context(greeted(broker.port)) for _ in range(20)]
        broker.limit_descriptors(broker.descriptors)
        async with anyio.create_task_group() as strangers:
            for _ in range(50):
                strangers.start_soon(knock, broker.port)
            await eventually(lambda: REFUSED in broker.log)
            begin = (
                time.monotonic()
            )  # and looked at again when all is counted: this machine may stand still anywhere
            lines, used = broker.log.count(REFUSED), broker.processor_seconds
            await anyio.sleep(seconds)  # the processor is measured over this time
            used, lines = broker.processor_seconds - used, broker.log.count(REFUSED) - lines
            took = time.monotonic() - begin
            assert lines <= took + 1
            assert all([await answers(stream) for stream in here])
            strangers.cancel_scope.cancel()
        if seconds > 1:  # too short a time says little on a busy machine
            assert used < 0.2 * took
        while here:  # their descriptors are free now
            await here.pop().aclose()
        freed = time.monotonic()
        with anyio.fail_after(GUARD):
            while not await is_served(broker.port):
                pass
        if seconds > 1:
            assert time.monotonic() - freed < 2


@pytest.mark.parametrize(
    ("strangers", "times"), [(100, 3), pytest.param(2000, 20, marks=pytest.mark.soak)]
)
async def test_a_small_limit_and_more_strangers_than_it(strangers, times):
    """`ulimit -n 100`: the broker keeps some for itself, says no to who comes late, and forgets
    nobody who is there.
    """
    with served(descriptors=100) as broker:
        async with healthy_pair(broker.port) as pair:
            base = broker.descriptors
            async with anyio.create_task_group() as tasks:
                for _ in range(strangers):
                    tasks.start_soon(knock, broker.port)
                await eventually(lambda: "TOO_MANY_CONNECTIONS" in broker.log)
                for _ in range(times):
                    await pair.goes_on()
                assert broker.descriptors <= 100
                tasks.cancel_scope.cancel()
            await eventually(lambda: broker.descriptors == base)
            assert await is_served(broker.port)


async def dial(port, here):
    """Returns an open connection's first reply, None if it was closed without one.

    It does not leave by itself.
    """
    stream = await here.enter_async_context(await SocketStream.connect("127.0.0.1", port))
    try:
        await stream.send(HELLO)
        return await first_reply(stream)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return None


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="what a process holds is read from Linux's /proc"
)
@pytest.mark.parametrize("limit", [40, 64, 80])
async def test_the_log_can_always_open_its_files(limit):
    """CLO-5: two hundred dial at once, and none leaves.

    All of them are answered or closed without waiting.
    """
    quota = Quota(connection_sockets(limit))
    while quota.has_room("one client"):
        quota.take("one client")
    connections = quota.used + 1  # an operator's, as they come from loopback
    with served("--log-level", "warning", descriptors=limit) as broker:
        await broker.describe()  # what is opened only once is open now
        base, most, replies = broker.descriptors, 0, []
        async with AsyncExitStack() as here:

            async def one():
                replies.append(await dial(broker.port, here))

            with anyio.fail_after(GUARD):
                async with anyio.create_task_group() as tasks:
                    for _ in range(200):
                        tasks.start_soon(one)
                    while len(replies) < 200:
                        await anyio.lowlevel.checkpoint()
                        most = max(most, broker.descriptors)
            assert connections < most <= limit - LOG_FILES
            assert sum(isinstance(reply, Welcome) for reply in replies) == connections
            assert sum(isinstance(reply, Error) for reply in replies) >= refused_sockets(limit)
        await eventually(lambda: broker.descriptors <= base)  # until then, who comes may be refused
        async with zaichik.connect(port=broker.port) as client:
            ends = (await client.describe())["disconnects"]
        assert ends["TURNED_AWAY"] == replies.count(None) > 0
