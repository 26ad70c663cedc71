"""As many connections as the broker may have: they cost nobody else anything, and all may come back at once."""

from contextlib import ExitStack

import anyio
import pytest
from crowds import LIMIT, all_come, all_come_back, crowds
from pair import healthy_pair
from served import GUARD, served

pytestmark = pytest.mark.anyio

FULL = 10_000  # connections, as many as a broker has by default where descriptors allow it


async def counted(broker, connections):
    """Returns when there are so many: the broker may hear of the new ones before it hears that the old ones went."""
    with anyio.fail_after(GUARD):
        while (await broker.describe())["connections"] != connections:
            pass


@pytest.mark.parametrize("connections", [300, pytest.param(FULL - 10, marks=pytest.mark.soak)])
async def test_a_full_house_is_served_and_may_come_back_at_once(connections):
    """Nobody is lost, and a healthy pair beside them misses nothing."""
    some = [min(connections, LIMIT - 64 - 10) // 3] * 3
    with ExitStack() as stack, served("--log-level", "warning", descriptors=LIMIT) as broker:
        processes = crowds(stack, broker.port, some)
        async with healthy_pair(broker.port) as pair:
            await all_come(processes)
            await counted(broker, sum(some) + 3)  # with the pair, and who asks
            await pair.goes_on()
            await all_come_back(processes)
            await counted(broker, sum(some) + 3)
            await pair.goes_on()
