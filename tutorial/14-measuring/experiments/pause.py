"""A broker that stands still for a second: which measurement notices?"""

import threading

import anyio
from client import connect
from measure import answered, on_time

from zaichik.learn.lab import Broker, running

SLOW = 0.1  # seconds


def stand_still(broker: Broker) -> None:
    """After half a second, for a second."""
    threading.Timer(0.5, broker.pause).start()
    threading.Timer(1.5, broker.go_on).start()


async def main(broker: Broker) -> None:
    async with connect(broker.port) as client:
        stand_still(broker)
        times: list[float] = []
        with anyio.move_on_after(4):
            while True:
                times += await answered(client, 1)
                await anyio.sleep(0.002)
        slow = sum(time > SLOW for time in times)
        print("when answered: slow requests:", slow)

        stand_still(broker)
        times = await on_time(client, 1600, 400)
        share = sum(time > SLOW for time in times) / len(times)
        print("on time: slow requests:", "more" if share > 0.2 else "less",
              "than a fifth of all")  # fmt: skip


with running() as broker:
    anyio.run(main, broker)
