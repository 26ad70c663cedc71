"""What `benchmarks.durable` measures: publishing to a disk, reading back from it, and what a disk
does to the rest.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.measures import RATE, Figures, complete, told
from benchmarks.peers.peer import Job
from benchmarks.peers.zaichik_durable import COLD
from benchmarks.peers.zaichik_slow_disk import DURABLE
from benchmarks.processes import Failed, actor
from benchmarks.scenarios import Cell, Scenario, queue

SYNCS = "syncs/s"
RING = "from the ring"
# which number of a block device's statistics counts its flushes (Linux,
# Documentation/block/stat.rst)
FLUSHES = 15
PAYLOAD = 1000  # bytes of each message that fills a log for a start
ENDLESS = 1_000_000_000  # messages of a stream that is ended
LONG = 1200.0  # seconds that filling a large log may take

Measure = Callable[[Job], Figures]


def scenarios(gigabytes: float, *, quick: bool) -> list[Scenario]:
    """All of them, in full size or so small that they take seconds."""
    million, seconds = (1_000, 0.2) if quick else (1_000_000, 3.0)
    stream = Job("publisher", "", 0, "", messages=4 * million)

    def tasks(number: int, measure: Measure, label: str = "") -> Cell:
        job = replace(stream, role="acknowledged", tasks=number, seconds=seconds)
        return Cell(label or f"{number} task{'s' if number > 1 else ''}", measure, job)

    late, topics = (10_000, 10) if quick else (million, 100)
    log = replace(stream, role="restart", size=PAYLOAD, points=(topics,), deadline=LONG)
    log = replace(log, messages=int(gigabytes * 1e9 / PAYLOAD))
    publishing = (Cell("a stream", published, stream), tasks(1, published), tasks(64, published))
    neighbours = (
        Cell("a stream", beside, stream),
        tasks(64, beside, "64 tasks, each awaiting"),
        tasks(1, beside, "1 task awaiting"),
    )
    return [
        Scenario(
            "publishing",
            "Publishing 100 B until all is acknowledged, and what a power cut leaves",
            publishing[:2] if quick else publishing,
        ),
        queue(replace(stream, messages=million)),
        Scenario(
            "cold",
            "A late subscriber to a durable topic, 100 B",
            (Cell("replay", replayed, replace(stream, role="replay", messages=late)),),
        ),
        Scenario(
            "beside",
            "A memory topic beside a stream to a durable one, on a disk that takes a second for a "
            "write, 100 B",
            neighbours[:1] if quick else neighbours,
        ),
        Scenario(
            "restart",
            "Until a broker serves",
            (Cell(f"{gigabytes:g} GB in {topics} durable topics", told, log, servers=0),),
            "ms",
        ),
    ]


# -- publishing ----------------------------------------------------------------------------------


def published(job: Job) -> Figures:
    """Returns acknowledged messages per second; and the flushes of the whole disk, where the system
    counts them.
    """
    with actor(job) as process:
        process.ready()
        os.sync()  # nobody waits for what another has left unwritten
        before, begin = flushes(), time.monotonic()
        process.go()
        result = process.result()
        after = flushes()
    if job.role == "publisher":
        complete(int(result["count"]), job.messages)
    seconds = result["end"] - result.get("begin", begin)
    counted = {} if before is None or after is None else {SYNCS: (after - before) / seconds}
    return {RATE: result["count"] / seconds, **counted}


def flushes() -> int | None:
    """Returns how often the disk has been flushed since the system started; None where nobody
    counts that.
    """
    device = Path(tempfile.gettempdir()).stat().st_dev
    try:
        words = (
            Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
            .read_text(encoding="ascii")
            .split()
        )
        return int(words[FLUSHES])
    except (OSError, IndexError):
        return None


# -- reading -------------------------------------------------------------------------------------


def replayed(job: Job) -> Figures:
    """Returns messages per second that a late subscriber gets, from memory and from the disk."""
    return {
        name: replay(replace(job, axis=name, topic=job.topic + name[-4:])) for name in (RING, COLD)
    }


def replay(job: Job) -> float:
    """Publishes, and reads everything; from the disk if the axis says so."""
    (_, server) = job.servers[0]
    with actor(job) as process:
        process.ready()
        if job.axis == COLD:
            forget_pages(Path(tempfile.gettempdir()))
        before = bytes_read(server)
        process.go()
        process.ready()  # the subscription stands
        result = process.result()
    complete(int(result["count"]), job.messages)
    if (
        job.axis == COLD and before is not None and flushes() is not None
    ):  # there is a device, and reads are counted
        complete_reads((bytes_read(server) or 0) - before, job.messages * job.size)
    seconds: float = result["end"] - result["begin"]
    return int(result["count"]) / seconds


def complete_reads(found: int, payloads: int) -> None:
    """Raises `Failed` if a server read less than half of these bytes from the disk."""
    if found < payloads / 2:
        raise Failed("the system read the log from its memory, although it was told to forget it")


def forget_pages(folder: Path) -> None:
    """Have the system drop the pages of all files in a folder, so that the next reads come from the
    disk.
    """
    for path in files(folder):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def files(folder: Path) -> Iterator[Path]:
    """Those in it and in its folders."""
    return (path for path in folder.rglob("*") if path.is_file())


def bytes_read(process: int) -> int | None:
    """Returns how much a process has had read from a disk; None where nobody counts that."""
    try:
        lines = Path(f"/proc/{process}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


# -- beside --------------------------------------------------------------------------------------


def beside(job: Job) -> Figures:
    """Returns the rate at which a memory topic is published to: alone, and while a durable one is,
    too.
    """
    figures = {"alone": published(job)[RATE]}
    durable = replace(
        job, role="publisher", axis=DURABLE, topic=f"{job.topic}-durable", messages=ENDLESS
    )
    with ExitStack() as stack:
        stream = stack.enter_context(actor(durable))
        stream.ready()
        stream.go()
        figures["beside"] = published(replace(job, topic=f"{job.topic}-beside"))[RATE]
    return figures
