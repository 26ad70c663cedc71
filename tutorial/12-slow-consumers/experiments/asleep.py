"""Readers that subscribe to a long history, and fall asleep."""

from zaichik.learn.lab import running
from zaichik.learn.layouts import FOREVER, TTL

MIB, SLEEPERS = 2**20, 5

with running() as broker:
    publisher = broker.client()
    publisher.ask("CreateTopic", topic="orders", settings={TTL: FOREVER})
    for _ in range(480):
        publisher.publish("orders", bytes(65_536))
    before = broker.memory()
    print("a topic holds 30 MiB")

    sleepers = [broker.client() for _ in range(SLEEPERS)]
    for sleeper in sleepers:
        sleeper.send("Subscribe", topic="orders", credit_bytes=2**32 - 1)
    publisher.ask("Ping", value=1)
    grown = (broker.memory() - before) / MIB
    print(SLEEPERS, "sleepers subscribe; the broker has grown by",
          "more" if grown > 60 else "less", "than 60 MiB")  # fmt: skip
