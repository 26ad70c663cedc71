"""A broker without descriptors: it goes on with the connections it has, and takes new ones as soon as it can."""

import time
from contextlib import AsyncExitStack

import anyio
import pytest
from pair import healthy_pair
from rude import answers, greeted, is_served, knock
from served import GUARD, eventually, served

pytestmark = pytest.mark.anyio

REFUSED = "connections are turned away"


@pytest.mark.parametrize("seconds", [1, pytest.param(15, marks=pytest.mark.soak)])
async def test_a_broker_out_of_descriptors_goes_on_calmly(broker, seconds):
    """EMFILE on accept: those who are there are answered; the processor rests; the log has a line a second."""
    async with AsyncExitStack() as stack:
        here = [await stack.enter_async_context(greeted(broker.port)) for _ in range(20)]
        broker.limit_descriptors(broker.descriptors)
        async with anyio.create_task_group() as strangers:
            for _ in range(50):
                strangers.start_soon(knock, broker.port)
            await eventually(lambda: REFUSED in broker.log)
            begin = time.monotonic()  # and looked at again when all is counted: this machine may stand still anywhere
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


@pytest.mark.parametrize("strangers", [100, pytest.param(2000, marks=pytest.mark.soak)])
async def test_a_small_limit_and_more_strangers_than_it(strangers):
    """`ulimit -n 100`: the broker keeps some for itself, says no to who comes late, and forgets nobody who is there."""
    with served(descriptors=100) as broker:
        async with healthy_pair(broker.port) as pair:
            base = broker.descriptors
            async with anyio.create_task_group() as tasks:
                for _ in range(strangers):
                    tasks.start_soon(knock, broker.port)
                await eventually(lambda: "TOO_MANY_CONNECTIONS" in broker.log)
                for _ in range(20):
                    await pair.goes_on()
                assert broker.descriptors <= 100
                tasks.cancel_scope.cancel()
            await eventually(lambda: broker.descriptors == base)
            assert await is_served(broker.port)
