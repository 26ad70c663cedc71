"""Nodes of a cluster as programs, and publishers that keep a ledger."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio

import zaichik
from zaichik import ConnectionLost
from zaichik.client.cluster.hashing import shard_of

GUARD_S = 120.0
COMMAND = [sys.executable, "-m", "zaichik", "cluster"]


class Machine:
    """A node as a program.

    Args:
        name: the machine's.
        folder: a private one.
        zookeeper: HOSTS/PATH.
        first_port: of shard 0, if it were here.
        shards: of the cluster.
        most: how many it takes.
        options: more of them.
    """

    def __init__(self, name, folder, zookeeper, first_port, shards, most, *options):
        self.name = name
        self.folder = Path(folder)
        self.first_port = first_port
        self.log = self.folder / f"{name}.log"
        self.options = [
            *("--zookeeper", zookeeper, "--machine", name, "--data", str(self.folder / name)),
            *("--first-port", str(first_port), "--shards", str(shards), "--most", str(most)),
            *("--session", "2s", "--create-path", "--json", "--log-level", "info", *options),
        ]
        self.process = None

    def start(self, *more):
        self.kill()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", *self.options, *more],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        return self

    def ready(self):
        """Returns what it says once it serves."""
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return json.loads(line)

    def logged(self, text):
        """Returns when it has logged this."""
        deadline = time.monotonic() + GUARD_S
        while text not in self.log.read_text():
            assert time.monotonic() < deadline, f"no {text!r} in\n{self.log.read_text()}"
            time.sleep(0.05)

    def brokers(self):
        """Returns the process ids of its brokers, by shard."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        brokers = {}
        for pid in map(int, found.stdout.split()):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            # One that is about to end has no words any more.
            if b"--port" not in words:
                continue
            brokers[int(words[words.index(b"--port") + 1]) - self.first_port] = pid
        return brokers

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is None:
            return
        self.process.kill()
        # A node that was stopped has no chance to; its brokers end all the same, in a while.
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def stop(self):
        """Stop it in order; returns its exit code."""
        self.process.terminate()
        return self.ended()

    def ended(self):
        """Returns the exit code when it has ended by itself."""
        code = self.process.wait(GUARD_S)
        self.process.stdout.close()
        self.process = None
        return code

    def run(self, *words):
        """Run another command of `zaichik cluster`."""
        return subprocess.run(
            [*COMMAND, *words], capture_output=True, text=True, timeout=GUARD_S, check=False
        )


def topic_of(shard, shards):
    """Returns the name of a topic that belongs to a shard."""
    number = 0
    while shard_of(f"orders-{number}", shards) != shard:
        number += 1
    return f"orders-{number}"


def kill_process(pid):
    os.kill(pid, signal.SIGKILL)


@dataclass
class Ledger:
    """What was acknowledged of one topic.

    Attributes:
        shard: to which it belongs.
        topic: its name.
        acknowledged: the numbers, in their order.
        doubtful: numbers whose fate was not told.
        longest_s: the longest wait for an acknowledgement since `begin`.
    """

    shard: int
    topic: str
    acknowledged: list = field(default_factory=list)
    doubtful: set = field(default_factory=set)
    longest_s: float = 0.0

    def check(self, read):
        """Check what was read of the topic: nothing acknowledged is lost, nothing comes twice."""
        assert len(read) == len(set(read)), f"{self.topic}: some came twice"
        missing = set(self.acknowledged) - set(read)
        assert not missing, f"{self.topic}: lost {sorted(missing)[:10]}"
        assert set(read) <= {*self.acknowledged, *self.doubtful}
        order = [number for number in read if number not in self.doubtful]
        assert order == self.acknowledged


class Publishers:
    """One publisher for each shard, which waits for each acknowledgement."""

    def __init__(self, cluster, shards):
        self.cluster = cluster
        self.ledgers = [Ledger(shard, topic_of(shard, shards)) for shard in range(shards)]
        self.is_over = False
        self.acknowledged = anyio.Event()

    async def publish(self, ledger):
        number = 0
        while not self.is_over:
            began = anyio.current_time()
            try:
                await self.cluster.publish(ledger.topic, b"%d" % number)
                ledger.acknowledged.append(number)
                self.acknowledged.set()
                self.acknowledged = anyio.Event()
            except ConnectionLost:
                ledger.doubtful.add(number)
            ledger.longest_s = max(ledger.longest_s, anyio.current_time() - began)
            number += 1
            await anyio.sleep(0.002)

    async def begin(self, tasks):
        for ledger in self.ledgers:
            await self.cluster.create_topic(ledger.topic, durable=True)
        for ledger in self.ledgers:
            tasks.start_soon(self.publish, ledger)

    async def go_on(self, shards, count=5):
        """Returns when each of these shards has acknowledged some more."""
        wanted = {shard: len(self.ledgers[shard].acknowledged) + count for shard in sorted(shards)}
        with anyio.fail_after(GUARD_S):
            while any(len(self.ledgers[s].acknowledged) < end for s, end in wanted.items()):
                await self.acknowledged.wait()

    async def check(self):
        for ledger in self.ledgers:
            ledger.check(await read_all(self.cluster, ledger.topic))


async def read_all(cluster, topic):
    """Returns the numbers in a topic."""
    end = (await cluster.topic(topic))["next_offset"]
    if not end:
        return []
    async with cluster.subscribe(topic, until=end) as subscription:
        return [int(message.payload) async for message in subscription]


def connected(port):
    return zaichik.cluster(f"127.0.0.1:{port}", reconnect=120, timeout=10)
