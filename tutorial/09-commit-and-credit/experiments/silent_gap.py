"""A reader that falls behind: is it told?"""

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running() as broker:
    reader, publisher = broker.client(), broker.client()
    publisher.ask("CreateTopic", topic="orders", settings={3: 5})
    number = reader.subscribe("orders", credit=1)
    for n in range(13):
        publisher.publish("orders", b"order %d" % n)
    print("a topic keeps 5 messages; 13 are published")

    settled = 0
    try:
        while frame := reader.frame(1):
            if frame.name == "Lagged":
                settled = frame["to_offset"]
                print("Lagged:", frame["from_offset"], "to", settled)
            else:
                settled = frame["base"] + 1
                print("Messages:", frame.messages[0].payload.decode())
                reader.send(
                    "Commit", frame_id=0, subscription=number, next=settled
                )
    except Silence:
        print("and then nothing")
