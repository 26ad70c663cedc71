"""The scenarios: which cells each has, and how one cell is measured for one peer.

A measurement returns figures by name. It raises `Failed` if a single message is missing.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from benchmarks.peers.peer import Job, Peer
from benchmarks.peers.zaichik import zipf_keys
from benchmarks.processes import Actor, Failed, actor

Figures = dict[str, float]
RATE = "messages/s"
BYTES = 256 * 1024 * 1024  # of payloads in a run at most


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of a scenario's table.

    Attributes:
        label: its heading.
        measure: how it is measured.
        job: what is measured; peer, port and topic are filled in for each run.
    """

    label: str
    measure: Callable[[Job], Figures]
    job: Job


@dataclass(frozen=True, slots=True)
class Scenario:
    """A table.

    Attributes:
        name: for `--only`.
        title: what is measured, in words.
        cells: its columns.
        unit: what the figures are.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    unit: str = RATE


def sized(job: Job, peer: Peer) -> Job:
    """The job with as many messages as this peer is given, none of them without end."""
    if job.role not in ("publisher", "replay"):
        return job
    few = BYTES // job.size // job.subscribers if peer.label != "bare relay (the limit)" else job.messages * job.size
    return replace(job, messages=min(peer.messages(job.messages, job.size), few))


def complete(found: int, expected: int) -> None:
    """Raises `Failed` if messages are missing."""
    if found != expected:
        raise Failed(f"{expected - found:,} of {expected:,} messages are missing")


def stream(job: Job) -> Figures:
    """Deliveries a second from a publisher's process to all subscribers, which share one or two processes."""
    processes = 1 if job.subscribers == 1 else 2
    expected = len(set(zipf_keys(job.keys, job.messages))) if job.keep_first else job.messages
    reading = replace(job, role="subscriber", expected=expected, subscribers=job.subscribers // processes)
    with ExitStack() as stack:
        readers: list[Actor] = [stack.enter_context(actor(reading)) for _ in range(processes)]
        for reader in readers:
            reader.ready()
        writer = stack.enter_context(actor(job))
        writer.ready()
        begin = time.monotonic()
        writer.go()
        results = [process.result() for process in (*readers, writer)]
    complete(sum(result["count"] for result in results[:-1]), expected * job.subscribers)
    return {RATE: job.messages * job.subscribers / (max(result["end"] for result in results) - begin)}


def alone(job: Job) -> tuple[dict[str, float], float]:
    """The result of a role that needs no other process, and how long it took."""
    with actor(job) as process:
        process.ready()
        process.go()
        if job.role == "replay":
            process.ready()  # the subscription stands
        result = process.result()
    return result, result.get("end", 0.0) - result.get("begin", 0.0)


def acknowledged(job: Job) -> Figures:
    """Acknowledged messages a second."""
    result, seconds = alone(job)
    return {RATE: result["count"] / seconds}


def replay(job: Job) -> Figures:
    """Messages a second that a late subscriber is given, from its connecting on."""
    result, seconds = alone(job)
    complete(int(result["count"]), job.messages)
    return {RATE: result["count"] / seconds}


def roundtrip(job: Job) -> Figures:
    """Quantiles of the latency in microseconds."""
    result, _ = alone(job)
    complete(int(result["count"]), job.messages)
    return {name: result[name] * 1e6 for name in ("p50", "p99", "p99.9")}


def scenarios(*, quick: bool) -> list[Scenario]:
    """All of them, in full size or so small that they take seconds."""
    million = 10_000 if quick else 1_000_000
    seconds = 0.2 if quick else 2.0
    publishing = Job("publisher", "", 0, "", messages=million)

    def sizes(size: int, label: str) -> Cell:
        return Cell(label, stream, replace(publishing, size=size))

    def fans(number: int) -> Cell:
        return Cell(f"1 → {number}", stream, replace(publishing, subscribers=number, messages=million // number))

    def tasks(number: int) -> Cell:
        job = replace(publishing, role="acknowledged", tasks=number, seconds=seconds)
        return Cell(f"{number} task{'s' if number > 1 else ''}", acknowledged, job)

    def rates(rate: int) -> Cell:
        job = replace(publishing, role="roundtrip", rate=rate, messages=int(rate * seconds * 2))
        return Cell(f"{rate:,}/s", roundtrip, job)

    with_keys = replace(publishing, keys=max(10, million // 100))
    return [
        Scenario(
            "throughput",
            "Throughput 1 → 1 by size of payload",
            (sizes(16, "16 B"), sizes(100, "100 B"), sizes(1024, "1 KiB"), sizes(65536, "64 KiB")),
        ),
        Scenario("acknowledged", "Single publishes, each awaited until acknowledged, 100 B", (tasks(1), tasks(64))),
        Scenario(
            "roundtrip", "Round trip of 100 B at a fixed rate, from the time due", (rates(1000), rates(10_000)), "µs"
        ),
        Scenario("fanout", "Deliveries to many subscribers, 100 B", (fans(1), fans(4), fans(16), fans(64))),
        Scenario(
            "keepfirst",
            "A topic that keeps each key's first message, 100 B, zipf-distributed keys",
            (
                Cell("plain", stream, with_keys),
                Cell("keep-first", stream, replace(with_keys, keep_first=True)),
            ),
        ),
        Scenario(
            "replay",
            "A late subscriber to retained messages, 100 B",
            (Cell("live", stream, publishing), Cell("replay", replay, replace(publishing, role="replay"))),
        ),
    ]
