"""One throughput run of `nats bench`, NATS's own measuring program in Go, with one publisher and one subscriber.

Its figure is that of the subscriber, which is given its messages last: their number divided by the time from its first
message to its last. (All other rates here begin when the publisher is told to, which is less than a millisecond before
the first message comes.) The subscriber ends only when it has counted all messages; one that is lost makes it wait
until the job's deadline.
"""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process

from benchmarks.obtain import nats_cli
from benchmarks.peers.peer import Job

SUBSCRIBING = b"Starting Core NATS subscriber, expecting"  # said before it subscribes
SUBSCRIBE_SECONDS = 0.3
RATE = re.compile(r"subscriber stats: ([\d,]+) msgs/sec")


async def play(job: Job) -> dict[str, float]:
    """Messages a second, as the subscriber counts them.

    Raises:
        RuntimeError: the subscriber does not say how many there were, or the publisher failed.
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
        await asyncio.sleep(SUBSCRIBE_SECONDS)  # it does not say when it has; if it has not, messages are missing
        publisher = await started("pub", job)
        told, _ = await publisher.communicate()
        if publisher.returncode:
            raise RuntimeError(f"nats bench pub: {told.decode()[-200:]}")
        rest, _ = await subscriber.communicate()
    return {"messages/s": rate(rest.decode())}


async def started(command: str, job: Job) -> Process:
    """`nats bench sub` or `nats bench pub`, with as many messages as the job says."""
    program, server = str(nats_cli()), f"nats://127.0.0.1:{job.port}"
    counted = ("--msgs", str(job.messages), "--size", f"{job.size}B", "--clients", "1", "--no-progress")
    return await asyncio.create_subprocess_exec(
        program, "--server", server, "bench", command, job.topic, *counted, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
    )


def rate(output: str) -> float:
    """The subscriber's messages a second, out of what it prints.

    Raises:
        RuntimeError: it prints none.
    """
    found = RATE.findall(output)
    if len(found) != 1:
        raise RuntimeError(f"nats bench printed no rate: {output[-200:]!r}")
    return float(found[0].replace(",", ""))
