"""What a node of a cluster costs while nothing happens, with ZooKeeper and without.

    python -m benchmarks.cluster_away [--seconds N]

Processor time of the node alone, from /proc/PID/stat, all of its threads, as a part of one core:
its brokers have nothing to do with ZooKeeper.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.zookeepers import ZooKeepers, free_ports

TICKS = os.sysconf("SC_CLK_TCK")
SECONDS = 30.0
CALM_SECONDS = 5.0  # until what has just happened is over
SHARDS = 4


@contextmanager
def node(folder: Path, hosts: str, port: int) -> Iterator["subprocess.Popen[str]"]:
    """Runs a node of four shards; it ends with the block, and its brokers with it."""
    command = [
        *(sys.executable, "-m", "zaichik", "cluster", "serve", "--json", "--log-level", "error"),
        *("--zookeeper", f"{hosts}/zaichik", "--create-path", "--machine", "a"),
        *("--data", str(folder / "node"), "--shards", str(SHARDS), "--first-port", str(port)),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def processor_s(pid: int) -> float:
    """Returns the seconds that a process has run, in user and system mode."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def measure(name: str, pid: int, seconds: float) -> None:
    """Print what a process takes of a core, after it has come to rest."""
    time.sleep(CALM_SECONDS)
    before, began = processor_s(pid), time.monotonic()
    time.sleep(seconds)
    part = (processor_s(pid) - before) / (time.monotonic() - began)
    print(f"{name:40} {part:.2%} of a core", flush=True)


def main() -> None:
    """Measure with ZooKeeper, without, and with one that is not there at the start."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each line")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        servers = ZooKeepers(folder, 1)
        (port,) = free_ports(1)
        try:
            servers.start()
            servers.wait()
            with node(folder, servers.hosts, port) as process:
                assert process.stdout is not None
                process.stdout.readline()
                measure("ZooKeeper answers", process.pid, seconds)
                servers.kill(0)
                measure("ZooKeeper is away", process.pid, seconds)
            with node(folder, servers.hosts, port) as process:
                measure("ZooKeeper is not there at the start", process.pid, seconds)
        finally:
            servers.close()


if __name__ == "__main__":
    main()
