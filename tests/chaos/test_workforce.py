"""Workers killed, stopped and cut off, and their broker killed: no job is lost, and what was done
twice has a reason.
"""

import anyio
import pytest
from workforce import Workforce

pytestmark = pytest.mark.anyio

PATIENCE = 3600.0  # seconds for the longest run on a busy machine


@pytest.mark.parametrize(("rounds", "seed"), [(1, 1), pytest.param(60, 2, marks=pytest.mark.soak)])
async def test_jobs_outlive_workers_and_brokers_that_are_killed(tmp_path, rounds, seed):
    """SHR-3 to SHR-6, SHR-9: each is done at least once or dead, and the dead are those that
    failed.
    """
    print(f"seed {seed}")
    workforce = Workforce(tmp_path, seed)
    with anyio.fail_after(PATIENCE):
        await workforce.run(rounds)
    ledger = workforce.ledger
    print(
        f"{workforce.published} jobs, {len(ledger.deliveries)} deliveries, "
        f"{len(ledger.disturbances)} disturbances, {len(workforce.dead)} dead"
    )
    assert workforce.broker.kills == rounds
    assert workforce.dead
