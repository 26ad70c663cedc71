"""What a cluster of several shards does on the cores that there are, and what more would cost.

    python -m benchmarks.cluster [--quick] [--seconds N] [--rounds N]

The first table is measured: clusters of one, two and four shards, each shard a broker process of
its own, and one program that publishes to topics of all of them through `zaichik.cluster`. The
program needs a core for itself, so on a machine with two cores two shards share the other one: the
messages a second say little then. What counts is the brokers' processor time for a message, in all
shards together: if it stays the same, each core that is added carries as many messages as the first
one. The clusters take turns, so whatever slows the machine down slows down all of them.

The second table is measured, too: what a client pays for the map of a cluster of that size. The
third is a model: it multiplies what was measured, and says what it assumes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import anyio

import zaichik
from benchmarks.growth import processor_us
from benchmarks.processes import process
from benchmarks.serving import port_in, serving
from zaichik.base.build import interpreter
from zaichik.client.cluster.map import TOPIC, ClusterMap, Shard

SIZES = (1, 2, 4)  # shards that are measured
MODELLED = (10, 100, 1_000)  # shards that are not
TOPICS = 16  # that are published to, spread over the shards by their names
PAYLOAD = b"x" * 100
BATCH = 100  # messages
CLIENTS = 1_000  # of the model
SHARDS_OF_A_MACHINE = 8  # of the model, one for each core


@dataclass
class Shards:
    """The brokers of a cluster.

    Attributes:
        ports, pids: of each shard.
    """

    ports: list[int]
    pids: list[int]

    @property
    def address(self) -> str:
        """Any of them."""
        return f"127.0.0.1:{self.ports[0]}"

    def map(self, features: int = 0) -> ClusterMap:
        """Returns where they are."""
        shards = tuple(Shard(1, f"127.0.0.1:{port}", "a") for port in self.ports)
        return ClusterMap(features, shards)

    async def publish_map(self) -> None:
        """Do what the nodes of a cluster do."""
        for port in self.ports:
            async with zaichik.connect(port=port) as client:
                await client.create_topic(TOPIC, capacity=1, retention_ttl="forever")
                await client.publish(TOPIC, self.map().encoded())


@contextmanager
def running(count: int) -> Iterator[Shards]:
    """Returns a cluster of so many shards that run as long as the block."""
    found = Shards([], [])
    with tempfile.TemporaryDirectory(prefix="cluster-") as name, ExitStack() as stack:
        for number in range(count):
            command = serving("--no-auto-create", "--data", str(Path(name, f"shard-{number}")))
            log = Path(name, f"{number}.log")
            child = stack.enter_context(
                process(command, log, {}, stdout=subprocess.PIPE, text=True)
            )
            line = child.stdout.readline()
            if not line:
                raise RuntimeError(f"a shard did not start: {log.read_text(encoding='utf-8')}")
            found.ports.append(port_in(line))
            found.pids.append(child.pid)
        yield found


class Slice(NamedTuple):
    """What one slice of publishing came to.

    Attributes:
        rate: messages a second.
        brokers_us: processor time of all shards together for a message, in microseconds.
        client_us: that of the program.
    """

    rate: float
    brokers_us: float
    client_us: float


class Publisher:
    """A program that publishes to topics of all shards."""

    def __init__(self, client: zaichik.Cluster, shards: Shards) -> None:
        self._client = client
        self._shards = shards

    async def slice(self, seconds: float) -> Slice:
        """Publish for that long."""
        until = time.monotonic() + seconds
        brokers, own = self._brokers_us(), time.process_time()
        began = time.monotonic()
        counts = [0] * TOPICS

        async def publish(number: int) -> None:
            batch = [(None, PAYLOAD)] * BATCH
            while not counts[number] or time.monotonic() < until:
                result = await self._client.publish_batch(f"t{number}", batch)
                counts[number] += result.stored

        async with anyio.create_task_group() as tasks:
            for number in range(TOPICS):
                tasks.start_soon(publish, number)
        took = time.monotonic() - began
        count = sum(counts)
        own_us = (time.process_time() - own) * 1e6
        return Slice(count / took, (self._brokers_us() - brokers) / count, own_us / count)

    def _brokers_us(self) -> float:
        return sum(processor_us(pid) or 0.0 for pid in self._shards.pids)


async def measure(seconds: float, rounds: int) -> dict[int, list[Slice]]:
    """Returns the slices of each cluster, which take turns."""
    slices: dict[int, list[Slice]] = {count: [] for count in SIZES}
    async with AsyncExitStack() as stack:
        publishers: dict[int, Publisher] = {}
        for count in SIZES:
            shards = stack.enter_context(running(count))
            await shards.publish_map()
            client = await stack.enter_async_context(zaichik.cluster(shards.address))
            publishers[count] = Publisher(client, shards)
            await publishers[count].slice(seconds / 10)
        for _ in range(rounds):
            for count, publisher in publishers.items():
                slices[count].append(await publisher.slice(seconds))
    return slices


class Map(NamedTuple):
    """What the map of a cluster costs.

    Attributes:
        size: bytes.
        read_us: processor time of a client to read one and compare it with the one before.
        find_us: to find the shard of a topic.
    """

    size: int
    read_us: float
    find_us: float


def map_of(count: int) -> Map:
    """Returns what the map of so many shards costs."""
    shards = [
        Shard(12, f"machine-{number // SHARDS_OF_A_MACHINE}.example.org:{8900 + number}", "machine")
        for number in range(count)
    ]
    before = ClusterMap(3, tuple(shards))
    shards[0] = Shard(13, "elsewhere.example.org:8900", "elsewhere")
    payload = ClusterMap(3, tuple(shards)).encoded()
    times = max(1, 20_000 // count)
    begin = time.process_time()
    for _ in range(times):
        before.updated(ClusterMap.parse(payload))
    read_us = (time.process_time() - begin) / times * 1e6
    begin = time.process_time()
    for number in range(10_000):
        before.shard_of(f"topic-{number}")
    return Map(len(payload), read_us, (time.process_time() - begin) / 10_000 * 1e6)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown, for the page."""
    print(f"\n{title}\n")
    for row in (head, ["---", *["--:"] * (len(head) - 1)], *rows):
        print(f"| {' | '.join(row)} |")


def show_measured(slices: dict[int, list[Slice]]) -> float:
    """Print what was measured; returns the brokers' processor time for a message."""
    rows = []
    for count, of_count in slices.items():
        rates, brokers, client = (
            statistics.median(figures) for figures in zip(*of_count, strict=True)
        )
        rows.append([str(count), f"{rates:,.0f}", f"{brokers:.2f}", f"{client:.2f}"])
    title = (
        f"Measured: {TOPICS} topics in memory, {len(PAYLOAD)} bytes a message, {BATCH} in a batch, "
        f"one program; {os.cpu_count()} cores, {interpreter()}; medians of "
        f"{len(slices[1])} slices"
    )
    head = ("shards", "messages/s", "brokers, µs a message", "program, µs a message")
    print_table(title, head, rows)
    return statistics.median(figures.brokers_us for figures in slices[max(SIZES)])


def show_maps() -> dict[int, Map]:
    """Print what maps cost; returns it."""
    maps = {count: map_of(count) for count in (*SIZES, *MODELLED)}
    rows = [
        [f"{count:,}", f"{found.size:,}", f"{found.read_us:,.0f}", f"{found.find_us:.1f}"]
        for count, found in maps.items()
    ]
    head = ("shards", "the map, bytes", "to read a change, µs", "to find a topic's shard, µs")
    print_table("Measured: the map, at a client", head, rows)
    return maps


def show_model(broker_us: float, maps: dict[int, Map]) -> None:
    """Print what follows from that for clusters that were not measured."""
    rows = []
    for count in MODELLED:
        machines = -(-count // SHARDS_OF_A_MACHINE)
        sent = CLIENTS * maps[count].size
        rows.append(
            [
                f"{count:,}",
                f"{machines:,}",
                f"{count * 1e6 / broker_us / 1e6:,.1f} million",
                f"{CLIENTS / count:,.0f}",
                f"{CLIENTS * (count + 1):,}",
                f"{sent / 2**20:,.1f} MiB",
                f"{sent * count / 2**30:,.1f} GiB",
                f"{machines:,}",
                f"{machines * count:,}",
                f"{machines + 1:,}",
            ]
        )
    head = (
        "shards",
        "machines",
        "messages/s, at most",
        "map subscriptions of a shard",
        "connections, at most",
        "sent to clients for a change",
        "for a restart of each shard",
        "ZooKeeper: sessions",
        "watches",
        "requests for a change",
    )
    print_table(f"Model, {CLIENTS:,} clients", head, rows)
    print(
        f"""
It assumes: a core for each shard, and as many again for clients; topics that load the shards
evenly (one busy topic has one shard); {SHARDS_OF_A_MACHINE} shards on a machine; {broker_us:.2f} µs
of a broker's processor for a message, as measured above with {max(SIZES)} shards, and nothing else
in the way (network, disk). Each client follows the map at one shard, chosen at random, and uses
topics of every shard, which is the worst case: one that uses a single topic has two connections. A
node has one session with ZooKeeper and watches every shard. A change is one write of one node;
each node is notified, and reads what has changed. Clients ask ZooKeeper nothing. A restart of each
shard, one after the other, is as many changes, each of which is sent as a whole map."""
    )


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="shows that it works, not how fast")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each slice (default 1)")
    parser.add_argument("--rounds", type=int, default=9, help="slices of each (default 9)")
    parser.add_argument("--json", action="store_true", help="print the slices as JSON")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seconds, options.rounds = 0.05, 1
    slices = anyio.run(measure, options.seconds, options.rounds)
    if options.json:
        print(json.dumps({count: [one._asdict() for one in of] for count, of in slices.items()}))
        return
    broker_us = show_measured(slices)
    show_model(broker_us, show_maps())


if __name__ == "__main__":
    main(sys.argv[1:])
