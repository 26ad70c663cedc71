"""The whole life of a small program: the interpreter starts, the client is imported, it connects,
publishes one message, closes, and ends.
"""

import os
import statistics
import subprocess
import sys
import time

from benchmarks.peers.peer import Job, Peer

PROCESSOR = "processor"  # a job's axis: its own processor time, and not what passes meanwhile


def play(peer: Peer, job: Job) -> dict[str, float]:
    """Returns the median of some lives in milliseconds, after one uncounted life that fills the
    page cache.
    """
    program = peer.script(job)
    lived(program, job.axis)
    return {"ms": statistics.median(lived(program, job.axis) for _ in range(job.rounds)) * 1000}


def lived(program: str, axis: str) -> float:
    """Returns the seconds that a program's life took, by the clock or of the processor.

    Raises:
        RuntimeError: it has failed.
    """
    begin = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", program])
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.monotonic() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"the program ended with {child.returncode}:\n{program}")
    if axis == PROCESSOR:
        return used.ru_utime + used.ru_stime
    return seconds
