"""50 MiB, published to nobody: where are they?"""

from zaichik.learn.lab import running

MIB = 2**20

with running() as broker:
    publisher = broker.client()
    before = broker.memory()
    for _ in range(800):
        publisher.publish("orders", bytes(65_536))
    grown = (broker.memory() - before) / MIB
    print("published: 50 MiB, and nobody listens")
    print("the broker has grown by", "more" if grown > 40 else "less",
          "than 40 MiB")  # fmt: skip
