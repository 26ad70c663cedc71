"""How fast is my broker? A number that fools nobody."""

import sys
import time
from typing import Any

import anyio
from batches import encode_batch
from client import Client, connect

WARM_UP = 200  # requests that nobody counts
ORDER: dict[str, Any] = {
    "producer": 0,
    "sequence": 0,
    "topic": b"measured",
    "batch": encode_batch([(b"", b"two apples")]),
}


async def answered(client: Client, count: int) -> list[float]:
    """Ask, wait for the answer, ask again. Returns seconds for each."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await client.ask("publish", **ORDER)
        times.append(time.perf_counter() - began)
    return times


async def on_time(client: Client, count: int, per_second: int) -> list[float]:
    """Ask when it is time to, whatever becomes of earlier requests.

    Returns the seconds from when each was due until it was answered.
    """
    times = []
    start = time.perf_counter()

    async def one(due: float) -> None:
        await client.ask("publish", **ORDER)
        times.append(time.perf_counter() - due)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            due = start + number / per_second
            await anyio.sleep(max(0, due - time.perf_counter()))
            tasks.start_soon(one, due)
    return times


async def rate(port: int, size: int, batches: int) -> float:
    """Messages a second in batches of a size, as their reader sees it."""
    batch = encode_batch([(b"", bytes(100))] * size)
    order = {**ORDER, "topic": b"rate", "batch": batch}
    async with connect(port) as publisher, connect(port) as reader:
        messages = await reader.subscribe("rate")
        began = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(batches):
                tasks.start_soon(lambda: publisher.ask("publish", **order))
            for _ in range(size * batches):
                await anext(messages)
        return size * batches / (time.perf_counter() - began)


def show(name: str, times: list[float]) -> None:
    """The middle, the tail and the worst, in milliseconds."""
    ordered = sorted(times)
    half, most, worst = (
        1000 * ordered[int(share * (len(ordered) - 1))]
        for share in (0.5, 0.99, 1)
    )
    print(f"{name}: p50 {half:.2f}  p99 {most:.2f}  worst {worst:.2f} ms")


async def main(port: int) -> None:
    """Measure, three times."""
    async with connect(port) as client:
        await answered(client, WARM_UP)
        for _ in range(3):
            show("when answered", await answered(client, 1000))
            show("on time      ", await on_time(client, 500, 500))
    for size in (1, 10, 100):
        await rate(port, size, 10)  # nobody counts this one
        rates = [await rate(port, size, 1000 // size) for _ in range(3)]
        print(f"batches of {size:3}: {sorted(rates)[1]:8,.0f} messages/s")


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
