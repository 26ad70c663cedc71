"""Crowds, each in a process of its own (`crowd.py`), because a process has only so many
descriptors.
"""

import resource
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio

LIMIT = min(
    20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
)  # descriptors that any process may have here
_CROWD = Path(__file__).parent / "crowd.py"
_COMMAND = ["sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh", sys.executable, str(_CROWD)]

Process = subprocess.Popen[str]


def crowds(stack: ExitStack, port: int, how_many: list[int]) -> list[Process]:
    """Processes that hold so many connections each, as long as the stack."""
    processes = []
    for number, some in enumerate(how_many, 2):
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*_COMMAND, str(port), str(some), f"127.0.0.{number}"], **pipes)
        processes.append(stack.enter_context(process))
        stack.callback(process.kill)
    return processes


async def all_come(processes: list[Process]) -> None:
    """Returns when all of them are there."""
    for process in processes:
        assert process.stdout is not None
        assert await anyio.to_thread.run_sync(process.stdout.readline)


async def all_come_back(processes: list[Process]) -> None:
    """Have all of them leave and come again, at once."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    await all_come(processes)
