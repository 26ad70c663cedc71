"""One throughput run of `nats bench`, NATS's own measuring program in Go, with one publisher and
one subscriber.

The figure is the subscriber's: the number of messages divided by the time between the first and the
last. (The clock of all other rates starts with the publisher, less than a millisecond before the
first message arrives.) The subscriber ends once it has counted all messages; if one is lost, it
waits until the job's deadline.
"""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process

from benchmarks.obtain import nats_cli
from benchmarks.peers.peer import Job

SUBSCRIBING = b"Starting Core NATS subscriber, expecting"  # printed just before it subscribes
SUBSCRIBE_SECONDS = 0.3
RATE = re.compile(r"subscriber stats: ([\d,]+) msgs/sec")


async def play(job: Job) -> dict[str, float]:
    """Returns messages a second, as counted by the subscriber.

    Raises:
        RuntimeError: the subscriber printed no rate, or a program failed.
        TimeoutError: messages are missing.
    """
    async with asyncio.timeout(job.deadline):
        subscriber = await started("sub", job)
        assert subscriber.stdout is not None
        output = b""
        while SUBSCRIBING not in output:
            if not (line := await subscriber.stdout.readline()):
                raise RuntimeError(f"nats bench sub: {output.decode()[-200:]}")
            output += line
        await asyncio.sleep(
            SUBSCRIBE_SECONDS
        )  # nothing tells when it has subscribed; if it is too late, messages are missing
        publisher = await started("pub", job)
        told, _ = await publisher.communicate()
        if publisher.returncode:
            raise RuntimeError(f"nats bench pub: {told.decode()[-200:]}")
        rest, _ = await subscriber.communicate()
    return {"messages/s": rate(rest.decode())}


async def started(command: str, job: Job) -> Process:
    """Starts `nats bench sub` or `nats bench pub`, with the job's number and size of messages."""
    program, server = str(nats_cli()), f"nats://127.0.0.1:{job.port}"
    counted = (
        "--msgs",
        str(job.messages),
        "--size",
        f"{job.size}B",
        "--clients",
        "1",
        "--no-progress",
    )
    return await asyncio.create_subprocess_exec(
        program,
        "--server",
        server,
        "bench",
        command,
        job.topic,
        *counted,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
    )


def rate(output: str) -> float:
    """Returns the subscriber's messages a second, read from its output.

    Raises:
        RuntimeError: there is none in it.
    """
    found = RATE.findall(output)
    if len(found) != 1:
        raise RuntimeError(f"nats bench printed no rate: {output[-200:]!r}")
    return float(found[0].replace(",", ""))
