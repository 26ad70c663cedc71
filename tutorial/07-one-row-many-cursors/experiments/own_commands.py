"""A client that is slow in one topic, and publishes to another one."""

import time

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running() as broker:
    slow, publisher = broker.client(), broker.client()
    slow.subscribe("orders", credit_bytes=2**32 - 1)
    for _ in range(800):
        publisher.publish("orders", bytes(65_536))
    print("800 large messages wait for a client that doesn't read")

    listener = broker.client()
    listener.subscribe("news")
    slow.send("Ping", value=1)
    time.sleep(0.3)  # the Ping's answer waits, too
    slow.send("Publish", topic="news", batch=[(b"", b"I'm still here")])
    print("the same client publishes to another topic")
    try:
        listener.frame(2)
        print("that arrives at once")
    except Silence:
        print("two seconds later, that hasn't arrived")
