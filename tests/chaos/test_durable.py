"""kill -9 of the broker, again and again: what was acknowledged is there, once, in order, at its
offset for ever.
"""

import anyio
import pytest
from killed import Killed

pytestmark = pytest.mark.anyio

PATIENCE = 1800.0  # seconds for the longest run on a busy machine


@pytest.mark.parametrize("rounds", [5, pytest.param(300, marks=pytest.mark.soak)])
async def test_a_broker_that_is_killed_keeps_what_it_has_acknowledged(tmp_path, rounds):
    """DUR-1, DUR-3, DUR-8, PUB-4, COM-1: also if it is killed again before it has recovered."""
    killed = Killed(tmp_path / "data", seed=rounds)
    with anyio.fail_after(PATIENCE):
        await killed.run(rounds)
    assert killed.broker.kills == rounds + rounds // 3
    assert killed.ledger.acknowledged >= rounds
    assert killed.compacted > 0
