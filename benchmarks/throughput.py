"""Messages per second from a publisher process through a broker process to a subscriber process.

    python benchmarks/throughput.py                  # 100-byte messages, batches of 1 and of 1000
    python benchmarks/throughput.py --runs 5 --bytes 1024

Each run starts its own broker on a free loopback port. The clock runs from the moment the publisher is told to go
until the subscriber has the last message; all messages are counted. The batch sizes take turns
(A B A B …), so that a machine that slows down slows down both. Machines differ: compare figures of one run.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import anyio

import zaichik
from zaichik_protocol import Batch

TOPIC = "benchmark"


async def broker() -> None:
    """Serve until standard input ends."""
    async with zaichik.running_broker() as server:
        print(server.port, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)


async def publisher(port: int, messages: int, size: int, batch: int) -> None:
    """Publish as soon as there is a line on standard input; one awaited request at a time."""
    payload = b"x" * size
    async with zaichik.connect(port=port) as client:
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        whole = Batch.of_columns([b""] * batch, [payload] * batch)
        for _ in range(messages // batch):
            await client.publish_batch(TOPIC, whole)


async def subscriber(port: int, messages: int, credit: int) -> None:
    """Count messages; print when the first subscription stood and when the last message came."""
    async with zaichik.connect(port=port) as client:
        await client.create_topic(TOPIC, capacity=messages, retention_ttl="forever", max_bytes=2**32)
        async with client.subscribe(TOPIC, credit=credit, until=messages) as subscription:
            print("ready", flush=True)
            count = 0
            async for _ in subscription:
                count += 1
        print(json.dumps({"count": count, "lagged": subscription.lagged, "end": time.monotonic()}), flush=True)


def start(*arguments: object) -> subprocess.Popen[str]:
    """This file again, as another process in a role."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    """The next line a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def run(messages: int, size: int, batch: int, credit: int) -> float:
    """Messages per second of one run."""
    processes: list[subprocess.Popen[str]] = []
    try:
        processes.append(start("broker"))
        port = line(processes[0])
        processes.append(start("subscriber", port, messages, credit))
        assert line(processes[1]) == "ready"
        processes.append(start("publisher", port, messages, size, batch))
        assert line(processes[2]) == "ready"
        begin = time.monotonic()
        assert processes[2].stdin is not None
        processes[2].stdin.write("go\n")
        processes[2].stdin.flush()
        result = json.loads(line(processes[1]))
        if result["count"] != messages or result["lagged"]:
            raise SystemExit(f"not all messages arrived: {result}")
        return float(messages / (result["end"] - begin))
    finally:
        for process in reversed(processes):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait(timeout=10)
            process.stdout.close()


def main(arguments: Sequence[str]) -> None:
    """Measure and print a table, or play one of the three roles."""
    roles: dict[str, Callable[..., Awaitable[None]]] = {
        "broker": broker,
        "publisher": publisher,
        "subscriber": subscriber,
    }
    if arguments and arguments[0] in roles:
        anyio.run(roles[arguments[0]], *map(int, arguments[1:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each batch size (default 3)")
    parser.add_argument("--bytes", type=int, default=100, help="size of a payload (default 100)")
    parser.add_argument("--messages", type=int, default=200_000, help="messages a run, for batches (default 200000)")
    parser.add_argument("--credit", type=int, default=10_000, help="the subscriber's credit (default 10000)")
    options = parser.parse_args(arguments)
    rates: dict[int, list[float]] = {1: [], 1000: []}
    for number in range(options.runs):
        for batch, results in rates.items():
            wanted = options.messages if batch > 1 else options.messages // 10
            messages = max(1, wanted // batch) * batch
            results.append(run(messages, options.bytes, batch, options.credit))
            print(f"run {number + 1}, batches of {batch}: {results[-1]:,.0f} messages/s", file=sys.stderr, flush=True)
    print(
        f"{options.bytes}-byte messages, publisher → broker → subscriber, median of {options.runs} (lowest to highest)"
    )
    for batch, results in rates.items():
        median, low, high = statistics.median(results), min(results), max(results)
        print(f"  batches of {batch:4}: {median:10,.0f} messages/s  ({low:,.0f} to {high:,.0f})")


if __name__ == "__main__":
    main(sys.argv[1:])
