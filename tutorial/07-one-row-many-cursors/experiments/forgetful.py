"""A row that forgets its oldest messages: does the reader notice?

Run it after "Type: the row".
"""

from types import SimpleNamespace

from layouts import HEADER, MESSAGES
from readers import Reader
from topics import Topic

WANTED = SimpleNamespace(id=1)

topic = Topic()
reader = Reader(topic, WANTED)
topic.publish([(b"", b"message %d" % n) for n in range(3)], now=1)


def show(event: bytes | None) -> None:
    """Print a frame's offset and its message."""
    if event is None:
        print("the reader has read everything, it says")
        return
    fields = MESSAGES.parse(event[HEADER.sizeof() :])
    print("offset", fields.base, "is", fields.batch[-9:].decode())


show(reader.next_event())
print("... and 10,000 more are published")
topic.publish([(b"", b"message %d" % n) for n in range(3, 10_003)], now=2)
show(reader.next_event())
