"""Servers that are no brokers."""

import anyio
import pytest
from learn_hosts import SURE, answering, run

from zaichik.learn.external import ExternalBroker
from zaichik.learn.server import free_port
from zaichik.learn.stages import CHECKS, STAGES
from zaichik.learn.trial import Pace, Target

pytestmark = pytest.mark.anyio

HASTY = Pace(scale=0.2, patience=0.15)
LISTENING = ["S0.1", "S0.2", "S0.3"]


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def outcomes(host, names, pace=HASTY):
    """Of many checks at once."""
    found = {}

    async def one(name):
        found[name] = (await run(host, name, seeds=[5], pace=pace)).outcome

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(one, name)
    return found


def passed_stages(found):
    return [
        stage.id for stage in STAGES if all(found[check.id] == "passed" for check in stage.checks)
    ]


async def do_nothing(stream):
    async for _ in stream:
        pass


async def talk_nonsense(stream):
    """Random bytes at once, and after everything that comes."""
    await stream.send(bytes.fromhex("9e1b4c07aa5df3120800000081"))
    async for data in stream:
        await stream.send(bytes((byte * 167 + 13) % 256 for byte in data))


async def test_a_server_that_does_nothing_passes_nothing_but_listening():
    async with answering(do_nothing) as host:
        found = await outcomes(host, [name for name in CHECKS if name not in {*LISTENING, "S14.5"}])
        found |= await outcomes(host, LISTENING, SURE)  # what must pass is not hurried
    assert passed_stages(found | {"S14.5": "failed"}) == ["S0"]
    assert {name for name, outcome in found.items() if outcome == "passed"} == set(LISTENING)


async def test_a_server_of_random_bytes_passes_no_stage():
    async with answering(talk_nonsense) as host:
        names = [name for name in CHECKS if name != "S14.5"]
        found = await outcomes(
            host, names, Pace(scale=3, patience=0.15)
        )  # a quiet period that is long for 60 at once
    assert passed_stages(found | {"S14.5": "failed"}) == []
    assert {name for name, outcome in found.items() if outcome == "passed"} <= {"S0.1", "S0.3"}


async def test_where_nobody_listens_nothing_passes():
    nowhere = ExternalBroker(Target("127.0.0.1", free_port()))
    result = await run(nowhere, "S0.1")
    assert result.outcome == "failed"
    assert "nothing listens at that port" in result.failure.cause


async def test_what_needs_a_process_of_its_own_is_skipped_without_one():
    async with answering(do_nothing) as host:
        result = await run(host, "S14.5")
    assert result.outcome == "skipped"
    assert "learn.toml" in result.reason
