"""A worker of a shared name, on a socket: it takes messages, and settles none of them."""

import socket
import struct
from contextlib import contextmanager

from raw_client import MESSAGES

from zaichik_protocol import SHARED, Hello, Subscribe, encode


@contextmanager
def busy_worker(port, topic, name, client):
    """A worker of that client that has a message, as long as the block lasts."""
    request = Subscribe(2, topic, name, credit=1, timeout_ms=60_000, max_deliveries=5, shared=True)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(encode(Hello(1, client=client, features=SHARED)) + encode(request))
        with connection.makefile("rb") as received:
            kind = 0
            while kind != MESSAGES:
                size, kind = struct.unpack("<IB", received.read(5))
                received.read(size - 1)
        yield
