"""Connections that are cut in the middle of anything: what was acknowledged is there, once and in
order.
"""

import anyio
import pytest
from resuming import WRITERS, run_through_cuts

pytestmark = pytest.mark.anyio

SOAK = pytest.mark.soak

PATIENCE = 1800.0  # seconds for the longest run on a busy machine


@pytest.mark.parametrize("messages", [1_000, pytest.param(100_000, marks=pytest.mark.soak)])
async def test_what_was_acknowledged_before_a_cut_is_there_once(broker, messages):
    """PUB-1, CLO-1: a client that never tries again knows what it has, and the broker has that."""
    with anyio.fail_after(PATIENCE):
        outcome = await run_through_cuts(
            broker.port, messages, lasting=False, seed=1, at_most=20_000
        )
    outcome.ledger.check()
    assert outcome.cuts > messages // 200  # half as many as there usually are
    assert outcome.ledger.lagged == 0
    assert outcome.ledger.acknowledged <= outcome.stored <= WRITERS * messages


@pytest.mark.parametrize(
    ("messages", "at_most"), [(6_000, 30_000), pytest.param(1_000_002, 100_000, marks=SOAK)]
)
async def test_a_client_that_reconnects_loses_nothing_and_stores_nothing_twice(
    broker, messages, at_most
):
    """PUB-4: numbered batches are sent again after a cut until each is acknowledged."""
    with anyio.fail_after(PATIENCE):
        outcome = await run_through_cuts(
            broker.port, messages // WRITERS, lasting=True, seed=2, at_most=at_most
        )
    outcome.ledger.check()
    assert outcome.cuts > 10 * messages // at_most
    assert outcome.ledger.lagged == 0
    assert outcome.ledger.acknowledged == outcome.ledger.came == outcome.stored == messages
