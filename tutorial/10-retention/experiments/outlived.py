"""A message with a retention of 300 ms, and a second later a reader."""

import time

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

TTL = 1  # the setting's number

with running() as broker:
    publisher = broker.client()
    publisher.ask("CreateTopic", topic="weather", settings={TTL: 300})
    publisher.publish("weather", b"it rains")
    print("published, to be kept for 300 ms: it rains")
    time.sleep(1)

    reader = broker.client()
    reader.subscribe("weather")
    print("one second later somebody subscribes, and gets", end=" ")
    try:
        print(reader.frame(1).messages[0].payload.decode())
    except Silence:
        print("nothing old")
