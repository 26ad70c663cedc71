"""Readers that subscribe to a long history, and fall asleep."""

from zaichik.learn.lab import running
from zaichik.learn.layouts import FOREVER, TTL

MIB, SLEEPERS = 2**20, 8

with running() as broker:
    publisher = broker.client()
    publisher.ask("CreateTopic", topic="orders", settings={TTL: FOREVER})
    for _ in range(160):
        publisher.publish("orders", bytes(65_536))
    before = broker.memory()
    print("a topic holds 10 MiB")

    sleepers = [broker.client() for _ in range(SLEEPERS)]
    for sleeper in sleepers:
        sleeper.send("Subscribe", topic="orders", credit_bytes=2**32 - 1)
    publisher.send("Ping", value=1)
    publisher.frame(30)  # answered: so the sleepers had their turn
    grown = (broker.memory() - before) / MIB
    print(SLEEPERS, "sleepers subscribe; the broker has grown by",
          "more" if grown > 40 else "less", "than 40 MiB")  # fmt: skip
