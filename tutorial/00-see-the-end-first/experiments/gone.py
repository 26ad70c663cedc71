"""A reader that leaves: what does it cost the others?"""

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running("apples.py") as broker:
    reader, bob = broker.client(), broker.client()
    reader.subscribe("orders")
    reader.socket.close()
    print("a reader subscribes, and leaves")

    try:
        for number in range(1, 10):
            bob.publish("orders", b"three pears")
            print("Bob's order", number, "is taken")
    except Silence as silence:
        print("Bob's next order:", silence)
