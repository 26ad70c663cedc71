"""Two publishers, one reader, and large messages: who pays?"""

import time

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

LARGE = bytes(1_000_000)

with running() as broker:
    reader, alice, bob = broker.client(), broker.client(), broker.client()
    reader.subscribe("orders")
    print("a reader subscribes, and is in no hurry")

    for _ in range(8):  # more than the system keeps for a reader
        alice.send("Publish", topic="orders", batch=[(b"alice", LARGE)])
    print("Alice publishes eight large messages")
    time.sleep(0.5)  # her task now waits for the reader
    try:
        for number in range(1, 9):
            bob.publish("orders", b"three pears", key=b"bob")
            print("Bob's order", number, "is taken")
    except Silence as silence:
        print("Bob's next order:", silence)
    _, _, error = broker.output()[-1].rpartition(".")  # without its module
    print("the broker:", error)
