"""Commits that settle nothing: what do they buy?"""

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running() as broker:
    reader, publisher = broker.client(), broker.client()
    number = reader.subscribe("orders", credit=1)
    for _ in range(3):
        reader.ask("Commit", subscription=number, next=0)
    print("a reader with credit 1 commits three times, and has read nothing")

    publisher.publish("orders", *[b"apple"] * 5)
    print("five messages are published; it is sent", end=" ")
    count = 0
    try:
        while reader.frame(1):
            count += 1
    except Silence:
        print(count)
