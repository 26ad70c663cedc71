"""A client that asks and asks, and never reads an answer."""

import threading

from zaichik.learn import wire
from zaichik.learn.lab import running

MIB = 2**20
ASK = wire.encode("CreateTopic", frame_id=7, topic="orders") * 1000

with running() as broker:
    greedy = broker.client()
    before = broker.memory()
    greedy.socket.settimeout(3)

    def ask() -> None:
        """Send, until nobody takes it for three seconds."""
        try:
            for _ in range(1000):
                greedy.socket.sendall(ASK)
            print("a million requests were taken")
        except TimeoutError:
            print("after a while, no more requests are taken")

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    grown = (broker.memory() - before) / MIB
    print("the broker has grown by", "more" if grown > 20 else "less",
          "than 20 MiB")  # fmt: skip
