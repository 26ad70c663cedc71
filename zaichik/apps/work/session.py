"""The processes of a session: a job, and what it has started.

A job leads a session of its own, so a Ctrl-C in the terminal does not reach it, and it can be ended
with everything that belongs to it. A signal to its process group would miss some: a job that is run
by `timeout`, or by a shell with job control, is in a group of its own. Linux lists the processes of
a session in /proc; elsewhere, the group has to do.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio

GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL
_POLL_SECONDS = 0.02
_MOST_ROUNDS = 100  # of SIGKILL, against a session that forks without end

_PROCESSES = Path("/proc")


async def end(leader: int, grace_seconds: float = GRACE_SECONDS) -> None:
    """End all processes of a session: SIGTERM, and after a while SIGKILL.

    Args:
        leader: the process id of its leader, which need not be there any more.
        grace_seconds: for which they may put things in order.
    """
    send(leader, signal.SIGTERM)
    # One that is stopped gets the first signal when it continues.
    send(leader, signal.SIGCONT)
    with anyio.move_on_after(grace_seconds):
        await _gone(leader)
    for _ in range(_MOST_ROUNDS):
        if not members(leader):
            break
        send(leader, signal.SIGKILL)
        await anyio.sleep(_POLL_SECONDS)


async def _gone(leader: int) -> None:
    # Nothing tells us: they are children of others.
    while members(leader):  # noqa: ASYNC110
        await anyio.sleep(_POLL_SECONDS)


def send(leader: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a session."""
    for process in members(leader):
        # It may have ended meanwhile, or belong to another user by now.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def members(leader: int) -> list[int]:
    """Returns the process ids of a session, without those that only wait to be collected.

    Where the system has no list, the process group of the leader, as a negative number.
    """
    if not (_PROCESSES / "self" / "stat").exists():
        return _group(leader)
    numbers = [entry.name for entry in os.scandir(_PROCESSES) if entry.name.isdigit()]
    return [int(number) for number in numbers if _session_of(number) == leader]


def _session_of(process: str) -> int | None:
    """Returns the session of a process; None if the process has ended."""
    try:
        status = (_PROCESSES / process / "stat").read_bytes()
    except OSError:
        return None
    # The second field is a name in parentheses, and may hold anything.
    state, _parent, _group, session, *_ = status.rpartition(b")")[2].split()
    if state in {b"Z", b"X"}:
        return None
    return int(session)


def _group(leader: int) -> list[int]:
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [-leader]
