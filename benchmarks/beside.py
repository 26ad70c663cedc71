"""Parts of what `zaichik watch` does, each as a process of its own, for `benchmarks/looking.py`.

    python -m benchmarks.beside asks PORT      # takes its readings of a topic, and draws nothing
    python -m benchmarks.beside computes PORT  # asks nothing, and computes as long as drawing takes

The second shows what any third process costs a broker and its clients that share two processors.
Each prints a line when it begins.
"""

import sys
import time

import anyio

from benchmarks.busy import TOPIC
from zaichik.apps.watch.polling import Poller
from zaichik.cli.watch_topic import HZ, Topic
from zaichik.client.client import connect

DRAWING_S = 0.005


async def asks(port: int) -> None:
    """Take readings as `zaichik watch` takes them."""
    topic, is_first = Topic(TOPIC), True

    def changed() -> None:
        nonlocal is_first
        if is_first:
            print("begun", flush=True)
        is_first = False

    async with connect(port=port) as client:
        await topic.watch(Poller(client), changed)


async def computes(_: int) -> None:
    """Take the processor for as long as a picture of `zaichik watch` takes it, as often."""
    print("begun", flush=True)
    while True:
        began, end = anyio.current_time(), time.process_time() + DRAWING_S
        while time.process_time() < end:
            pass
        await anyio.sleep_until(began + 1 / HZ)


if __name__ == "__main__":
    anyio.run({"asks": asks, "computes": computes}[sys.argv[1]], int(sys.argv[2]))
