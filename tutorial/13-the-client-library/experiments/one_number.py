"""How fast is my broker? One publish, timed."""

import time

from zaichik.learn.lab import running

with running() as broker:
    client = broker.client()
    began = time.perf_counter()
    client.publish("orders", b"two apples")
    took = time.perf_counter() - began
    print(f"one publish took {1000 * took:.2f} ms")
