"""Single publishes from programs without an event loop: each returns when it is acknowledged."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.peers.peer import Job, Peer

WARM_UP = 0.1  # of the seconds


def play(peer: Peer, job: Job) -> dict[str, float]:
    """Publish one message after the other in each of the threads, for a while.

    Returns how many were acknowledged. One thread is the main one, which is also the one that
    signals interrupt.
    """
    payload = b"x" * job.size
    with peer.caller(job) as publish:
        call(publish, payload, job.tasks, job.seconds * WARM_UP)
        print("ready", flush=True)
        sys.stdin.readline()
        begin = time.monotonic()
        count = call(publish, payload, job.tasks, job.seconds)
        return {"count": count, "begin": begin, "end": time.monotonic()}


def call(publish: Callable[[bytes], object], payload: bytes, threads: int, seconds: float) -> int:
    """Returns how often that many threads have published in that time."""
    end = time.monotonic() + seconds
    if threads == 1:
        return call_until(end, publish, payload)
    with ThreadPoolExecutor(threads) as pool:
        counts = [pool.submit(call_until, end, publish, payload) for _ in range(threads)]
        return sum(count.result() for count in counts)


def call_until(end: float, publish: Callable[[bytes], object], payload: bytes) -> int:
    """Returns how often one thread has published by then."""
    count = 0
    while time.monotonic() < end:
        publish(payload)
        count += 1
    return count
