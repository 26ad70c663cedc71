"""News that come at the worst moment: while the writer is busy sending."""

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running() as broker:
    reader, publisher = broker.client(), broker.client()
    reader.subscribe("orders")
    for _ in range(100):
        publisher.publish("orders", bytes(65_536))
    print("the writer is busy: the reader doesn't take what it sends")
    publisher.publish("orders", b"the last one")
    print("one more message is published meanwhile")

    def read_on() -> None:
        """Read until the last one has come."""
        while reader.frame(1).messages[0].payload != b"the last one":
            pass

    try:
        read_on()
        print("the reader reads on, and gets them all")
    except Silence:
        print("the reader reads on, and the last one doesn't come")
        publisher.publish("orders", b"anything")
        read_on()
        print("... until somebody publishes anything else")
