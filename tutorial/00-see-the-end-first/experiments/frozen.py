"""A reader that doesn't read: what does it cost the publisher?"""

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running("apples.py") as broker:
    reader, publisher = broker.client(), broker.client()
    reader.subscribe("orders")
    print("the reader subscribes, and then reads nothing")

    published = 0
    try:
        while published < 1000:
            publisher.publish("orders", bytes(65_536))
            published += 1
    except Silence:
        print("the publisher was answered", published, "times, and now waits")
