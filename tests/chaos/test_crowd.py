"""As many connections as the broker may have: they cost nobody else anything, and all may come back at once."""

import resource
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
from pair import healthy_pair
from served import GUARD, served

pytestmark = pytest.mark.anyio

FULL = 10_000  # connections, as many as a broker has by default where descriptors allow it
LIMIT = min(20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
CROWD = Path(__file__).parent / "crowd.py"
COMMAND = ["sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh", sys.executable, str(CROWD)]


def crowds(stack, port, how_many):
    """Processes that hold so many connections together."""
    processes = []
    for number, some in enumerate(how_many, 2):
        command = [*COMMAND, str(port), str(some), f"127.0.0.{number}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        processes.append(stack.enter_context(subprocess.Popen(command, **pipes)))
        stack.callback(processes[-1].kill)
    return processes


async def all_there(processes):
    for process in processes:
        assert await anyio.to_thread.run_sync(process.stdout.readline)


async def counted(broker, connections):
    """Returns when there are so many: the broker may hear of the new ones before it hears that the old ones went."""
    with anyio.fail_after(GUARD):
        while (await broker.describe())["connections"] != connections:
            pass


@pytest.mark.parametrize("connections", [300, pytest.param(FULL - 10, marks=pytest.mark.soak)])
async def test_a_full_house_is_served_and_may_come_back_at_once(connections):
    """Nobody is lost, and a healthy pair beside them misses nothing."""
    connections = min(connections, LIMIT - 64 - 10)
    some = [connections // 3] * 3
    with ExitStack() as stack, served("--log-level", "warning", descriptors=LIMIT) as broker:
        processes = crowds(stack, broker.port, some)
        async with healthy_pair(broker.port) as pair:
            await all_there(processes)
            await counted(broker, sum(some) + 3)  # with the pair, and who asks
            await pair.goes_on()
            for process in processes:
                process.stdin.write("\n")
                process.stdin.flush()
            await all_there(processes)
            await counted(broker, sum(some) + 3)  # with the pair, and who asks
            await pair.goes_on()
        for process in processes:
            process.stdin.close()
            process.wait()
