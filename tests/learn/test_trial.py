"""The connections of one trial."""

import anyio
import pytest
from learn_hosts import answering

from zaichik.learn.failure import Failure, Inconclusive
from zaichik.learn.stages.s14_ends import unless_it_gave_up
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


async def test_bytes_that_are_taken_in_are_told_from_the_silence_after_them(monkeypatch):
    async def send_and_end(stream):
        await stream.send(b"some")
        await stream.aclose()

    async with answering(send_and_end) as host:
        trial = Trial(await host.ready(), host, name="t", stage=5, seed=0, pace=Pace())
        async with trial.running():
            connection = await trial.dial()
            times = iter([1.0, 3.0, 8.0])
            with monkeypatch.context() as patched:
                patched.setattr(Trial, "elapsed", property(lambda _: next(times)))
                assert await connection.take_in() == (2.0, 5.0)


@pytest.mark.parametrize(("took_s", "silent_s", "verdict"), [
    (0.5, 0.0, Failure),
    (3.0, 0.1, Inconclusive),
    (3.0, 3.0, Failure),  # it was not the check that was slow
])  # fmt: skip
def test_only_a_stopping_broker_that_may_have_given_up_gets_no_verdict(took_s, silent_s, verdict):
    with pytest.raises(verdict), unless_it_gave_up(took_s, silent_s):
        raise Failure("something is missing")
