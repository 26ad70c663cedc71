"""A broker that stands still for a second: which measurement notices?

Run it after "Type: on time".
"""

import threading

import anyio
from client import connect
from measure import answered, on_time

from zaichik.learn.lab import Broker, running

SLOW = 0.3  # seconds


def stand_still(broker: Broker) -> None:
    """After half a second, for a second."""
    threading.Timer(0.5, broker.pause).start()
    threading.Timer(1.5, broker.go_on).start()


def show(what: str, times: list[float]) -> None:
    """Roughly: the exact share depends on what else the machine does."""
    share = sum(time > SLOW for time in times) / len(times)
    if share < 0.02:
        text = "fewer than one in fifty"
    else:
        text = ("more" if share > 0.2 else "fewer") + " than one in five"
    print(f"{what}: slow requests: {text}")


async def main(broker: Broker) -> None:
    async with connect(broker.port) as client:
        stand_still(broker)
        times: list[float] = []
        with anyio.move_on_after(4):
            while True:
                times += await answered(client, 1)
                await anyio.sleep(0.002)
        show("when answered", times)

        stand_still(broker)
        show("on time", await on_time(client, 1200, 400))


with running() as broker:
    anyio.run(main, broker)
