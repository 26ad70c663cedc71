"""How one cell is measured for one peer: its processes, and the figures from their results.

A measurement returns figures by name. It raises `Failed` if a single message is missing.
"""

import time
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.peers.peer import Job
from benchmarks.peers.zaichik import zipf_keys
from benchmarks.processes import Actor, Failed, actor

Figures = dict[str, float]
RATE = "messages/s"


def complete(found: int, expected: int) -> None:
    """Raises `Failed` if messages are missing."""
    if found != expected:
        raise Failed(f"{expected - found:,} of {expected:,} messages are missing")


def stream(job: Job) -> Figures:
    """Returns deliveries per second from all publishers to all subscribers; many of a kind share
    two processes.
    """
    processes = 1 if job.subscribers == 1 else 2
    writing = replace(job, processes=1 if job.publishers == 1 else 2)
    expected = len(set(zipf_keys(job.keys, job.messages))) if job.keep_first else job.messages
    reading = replace(
        job, role="subscriber", expected=expected, subscribers=job.subscribers // processes
    )
    with ExitStack() as stack:
        readers: list[Actor] = [stack.enter_context(actor(reading)) for _ in range(processes)]
        for reader in readers:
            reader.ready()
        writers: list[Actor] = [
            stack.enter_context(actor(writing)) for _ in range(writing.processes)
        ]
        for writer in writers:
            writer.ready()
        begin = time.monotonic()
        for writer in writers:
            writer.go()
        written = [
            writer.result() for writer in writers
        ]  # first, because readers would wait for a writer that failed
        read = [reader.result() for reader in readers]
    complete(sum(result["count"] for result in read), expected * job.subscribers)
    return {
        RATE: job.messages
        * job.subscribers
        / (max(result["end"] for result in (*written, *read)) - begin)
    }


def alone(job: Job) -> tuple[dict[str, float], float]:
    """Returns the result of a role that needs no other process, and the seconds it took."""
    with actor(job) as process:
        process.ready()
        process.go()
        if job.role == "replay":
            process.ready()  # the subscription stands
        result = process.result()
    return result, result.get("end", 0.0) - result.get("begin", 0.0)


def worked(job: Job) -> Figures:
    """Returns messages per second that the workers of a queue have settled, which was filled
    before; many of them share two processes.
    """
    processes = 1 if job.subscribers == 1 else 2
    filled, _ = alone(replace(job, role="publisher"))
    complete(int(filled["count"]), job.messages)
    working = replace(job, subscribers=job.subscribers // processes)
    with ExitStack() as stack:
        workers: list[Actor] = [stack.enter_context(actor(working)) for _ in range(processes)]
        for worker in workers:
            worker.ready()
        begin = time.monotonic()
        for worker in workers:
            worker.go()
        results = [worker.result() for worker in workers]
    complete(int(sum(result["count"] for result in results)), job.messages)
    return {RATE: job.messages / (max(result["end"] for result in results) - begin)}


def acknowledged(job: Job) -> Figures:
    """Returns acknowledged messages per second."""
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


def told(job: Job) -> Figures:
    """Returns the result of a role that runs alone, so that nothing has to begin at the same
    moment.
    """
    with actor(job) as process:
        return process.result()
