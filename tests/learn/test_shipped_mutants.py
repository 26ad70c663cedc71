"""Checks of what a broker may leave out find brokers that do it wrong; the suite asks every fifth
of these.
"""

import re

import pytest
from learn_hosts import SURE, find, run, shipped
from mutants_shared import MUTANTS as SHARED_MUTANTS
from mutants_shipped import MUTANTS as SHIPPED_MUTANTS
from sampling import sampled

from zaichik.core import producers

MUTANTS = [*SHIPPED_MUTANTS, *SHARED_MUTANTS]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.unmeasured,
    pytest.mark.skipif(
        not producers.__file__.endswith(".py"), reason="compiled code cannot be replaced"
    ),
]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("mutant", sampled(MUTANTS, MUTANTS[::5]), ids=lambda mutant: mutant.name)
async def test_a_broker_that_does_an_option_wrong_is_found(mutant):
    with mutant.in_force():
        async with shipped(clock=mutant.clock) as host:
            result = await find(host, mutant.kills, mutant.says, patience=mutant.patience)
    assert result.outcome == "failed", (
        f"{mutant.kills} does not find it: {result.outcome} {result.reason}"
    )
    assert re.search(mutant.says, f"{result.failure.summary}. {result.failure.cause}"), (
        result.failure.summary
    )
    async with shipped(clock=mutant.clock) as host:
        assert (await run(host, mutant.kills, seeds=[0], pace=SURE)).outcome == "passed"
