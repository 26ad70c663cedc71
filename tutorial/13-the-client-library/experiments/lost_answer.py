"""The answer to a publish is lost on the way, and it's tried again.

Run it after "Type: try again".
"""

import anyio
from publisher import Publisher

from zaichik.learn.lab import running
from zaichik.learn.network import between

with running() as broker:
    reader = broker.client()
    reader.subscribe("orders")
    with between(broker.port, lose="Published") as port:
        order = [(b"alice", b"two apples")]
        answer = anyio.run(Publisher(port).publish, "orders", order)
        print("Alice orders once; her order has the offset",
              answer.first_offset)  # fmt: skip
    reader.ask("Ping", value=1)
    count = reader.ask("Publish", topic="orders", batch=[(b"", b"x")])
    print("the shop has", count["first_offset"], "order(s) from her")
