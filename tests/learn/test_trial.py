"""The connections of one trial."""

import anyio
import pytest
from learn_hosts import answering

from zaichik.learn.trial import Pace, Trial

pytestmark = pytest.mark.anyio


async def test_connections_that_are_opened_at_once_have_numbers_of_their_own():
    """By them a failure's frames are told apart."""

    async def wait(_stream):
        await anyio.sleep_forever()

    async with answering(wait) as host:
        trial = Trial(await host.ready(), host, name="t", stage=5, seed=0, pace=Pace())
        numbers = []

        async def dial():
            numbers.append((await trial.dial()).number)

        async with trial.running(), anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(dial)
    assert sorted(numbers) == [1, 2, 3, 4, 5]
