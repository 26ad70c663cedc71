"""As many connections as the broker may have: they cost nobody else anything, and all may come back
at once.
"""

from contextlib import ExitStack

import anyio
import pytest
from crowds import LIMIT, all_come, all_come_back, crowds
from pair import healthy_pair
from served import GUARD, served

from zaichik.core.settings import connection_sockets

pytestmark = pytest.mark.anyio

# connections: a broker has 10,000 by default, of which the last are for clients that have none yet
FULL = 9_800


async def counted(broker, connections):
    """Returns when there are so many: the broker may hear of the new ones before it hears that the
    old ones went.
    """
    with anyio.fail_after(GUARD):
        while (await broker.describe())["connections"] != connections:
            pass


@pytest.mark.parametrize(
    ("connections", "processes"), [(300, 1), pytest.param(FULL, 3, marks=pytest.mark.soak)]
)
async def test_a_full_house_is_served_and_may_come_back_at_once(connections, processes):
    """Nobody is lost, and a healthy pair beside them misses nothing."""
    some = [min(connections, connection_sockets(LIMIT) - 10) // processes] * processes
    with ExitStack() as stack, served("--log-level", "warning", descriptors=LIMIT) as broker:
        crowd = crowds(stack, broker.port, some)
        async with healthy_pair(broker.port) as pair:
            await all_come(crowd)
            await counted(broker, sum(some) + 3)  # with the pair, and who asks
            await pair.goes_on()
            await all_come_back(crowd)
            await counted(broker, sum(some) + 3)
            await pair.goes_on()
