"""A worker of a shared name: a program that takes jobs until it is killed, and writes down what it
does.

    python worker_program.py PORT JOBS FILE

It does so many jobs at a time. What becomes of one is its payload's second word. What it writes is
said in `work_ledger`.
"""

import os
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import anyio
from work_ledger import DEADLY, FAILS, REJECTED

import zaichik

TOPIC, NAME = "jobs", "workers"
MAX_DELIVERIES = 3
TIMEOUT = 4.0  # seconds for a job
SLOW_SECONDS = 0.3  # that a slow job takes


class Record:
    """What this worker writes down, a line at a time, which survives its end."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, event: str, message: zaichik.WorkMessage, *words: object) -> None:
        """Append a line."""
        text = " ".join(map(str, words))
        line = f"{event} {time.monotonic()} {message.ticket} {text}\n"
        os.write(self._file, line.encode())


async def settle(message: zaichik.WorkMessage, kind: str, record: Record) -> bool:
    """Say what the job has come to; returns whether that counts."""
    is_first = not message.redelivered
    if kind == FAILS or (kind == "flaky" and is_first):
        record.note("said", message, "retry")
        return await message.retry(reason="it failed")
    if kind == REJECTED:
        record.note("said", message, "reject")
        return await message.reject("it can never succeed")
    if kind == "returned" and is_first:
        record.note("said", message, "give_back")
        return await message.give_back()
    record.note("said", message, "done")
    return await message.done()


async def do_jobs(work: zaichik.WorkSubscription, record: Record) -> None:
    """Take one after the other."""
    async for message in work:
        number, kind = message.payload.decode().split()
        record.note("began", message, message.offset, number, kind, message.delivery)
        if kind == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "slow":
            await anyio.sleep(SLOW_SECONDS)
        record.note("answered", message, await settle(message, kind, record))


async def connected(port: int, stack: AsyncExitStack) -> zaichik.Client:
    """Returns a client. The very first connection is tried once by the library, and here until it
    is not cut.
    """
    while True:
        with suppress(zaichik.ConnectFailed, zaichik.HandshakeTimeout, zaichik.ConnectionLost):
            return await stack.enter_async_context(zaichik.connect(port=port, reconnect=300))
        await anyio.sleep(0.05)


async def main(port: int, jobs: int, path: Path) -> None:
    """Work."""
    record = Record(path)
    async with AsyncExitStack() as stack:
        client = await connected(port, stack)
        work = await stack.enter_async_context(
            client.subscribe(
                TOPIC,
                name=NAME,
                shared=True,
                timeout=TIMEOUT,
                max_deliveries=MAX_DELIVERIES,
                credit=jobs,
            )
        )
        async with anyio.create_task_group() as tasks:
            for _ in range(jobs):
                tasks.start_soon(do_jobs, work, record)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
