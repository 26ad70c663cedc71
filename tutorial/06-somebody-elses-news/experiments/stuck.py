"""A reader that doesn't read: how far does the publisher get?"""

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running() as broker:
    reader, publisher = broker.client(), broker.client()
    reader.subscribe("orders")
    print("the reader subscribes, and then reads nothing")

    published = 0
    try:
        while published < 800:
            publisher.publish("orders", bytes(65_536))
            published += 1
        print("the publisher has published 800 messages of 64 KiB")
    except Silence:
        print("the publisher was answered", published, "times, and now waits")
