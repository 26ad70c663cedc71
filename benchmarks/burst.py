"""Memory freed after a burst: resident memory before, at the peak, and five seconds after all
messages have expired.

Resident memory is Linux's `VmRSS`, and `VmHWM` for the peak.
"""

import asyncio

import zaichik
from benchmarks.idle import BATCH, IdleConnection, messages
from benchmarks.memory import peak_bytes, resident_bytes
from benchmarks.peers.peer import Job
from zaichik_protocol import CreateTopic, Setting

TOPIC = "burst"
RETENTION = 0.6  # as a share of the seconds waited afterwards; longer than publishing takes
LOOK_SECONDS = 0.1
MIB = 1024 * 1024


async def play(job: Job) -> dict[str, float]:
    """Returns the three figures in MiB.

    Raises:
        RuntimeError: the first messages expired before the last ones were published.
    """
    (port, pid), total = job.servers[0], job.messages // BATCH * BATCH
    first = IdleConnection(port)
    settings = {
        Setting.RETENTION_TTL_MS: int(job.seconds * RETENTION * 1000),
        Setting.CAPACITY: total,
        Setting.MAX_BYTES: 2**40,
    }
    first.ask(
        [CreateTopic(1, TOPIC, tuple((int(name), value) for name, value in settings.items()))]
    )
    before = resident_bytes(pid)
    first.ask(messages(TOPIC, total, job.size))
    async with zaichik.connect(port=port) as client, asyncio.timeout(job.deadline):
        if (resident := (await client.topics(TOPIC))[0]["resident"]) != total:
            raise RuntimeError(
                f"{resident:,} messages were there at the end of the burst, not {total:,}"
            )
        peak = peak_bytes(pid)
        while (await client.topics(TOPIC))[0]["resident"]:  # noqa: ASYNC110 - another process tells only when asked
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(job.seconds)
        after = resident_bytes(pid)
    return {"before": before / MIB, "at its peak": peak / MIB, "5 s after": after / MIB}
