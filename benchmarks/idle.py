"""Idle connections, topics and messages in a broker, created without keeping the measuring process
busy.

An idle client of the library commits ten times a second; a thousand of them would be measured
beside the broker. Here a connection is a blocking socket that has said Hello: from then on it costs
its process a descriptor and nothing else.
"""

import socket
from collections.abc import Iterable, Iterator
from itertools import islice, repeat

from zaichik_protocol import (
    FOREVER,
    NEED_DATA,
    Batch,
    CreateTopic,
    Error,
    Frame,
    FrameDecoder,
    Hello,
    Messages,
    Publish,
    Published,
    Setting,
    Subscribe,
    encode,
)

READ = 256 * 1024
PIPELINE = (
    100  # requests sent before their replies are read: few enough for the buffers of both sides
)
PER_CONNECTION = 1_000  # subscriptions, as many as the broker allows
BATCH = 100  # messages


class IdleConnection:
    """A connection that is used while something is made, and then left alone.

    Args:
        port: of the broker, at 127.0.0.1.
        address: of this side, if it matters.
        tolerant: whether requests may be refused.

    Attributes:
        refused: requests that were.
        received: messages that have come.
        stored: messages that were published and kept.
    """

    def __init__(self, port: int, address: str = "127.0.0.1", *, tolerant: bool = False) -> None:
        self.received = self.stored = self.refused = 0
        self._tolerant = tolerant
        self._replies = 0
        self._decoder = FrameDecoder.for_client()
        self._socket = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
        self.ask([Hello(1, client="idle")])

    def ask(self, requests: Iterable[Frame]) -> None:
        """Send these, and read the reply to each.

        Raises:
            RuntimeError: the broker has refused one, or closed the connection.
        """
        left = iter(requests)
        while some := list(islice(left, PIPELINE)):
            expected = self._replies + len(some)
            self._socket.sendall(b"".join(map(encode, some)))
            while self._replies < expected:
                self._read()

    def receive(self, messages: int) -> None:
        """Returns when this many messages have come in all."""
        while self.received < messages:
            self._read()

    def _read(self) -> None:
        data = self._socket.recv(READ)
        if not data:
            raise RuntimeError("the broker has closed a connection")
        self._decoder.receive_data(data)
        while (frame := self._decoder.next_frame()) is not NEED_DATA:
            match frame:
                case Messages():
                    self.received += frame.batch.count
                    continue
                case Error() if self._tolerant:
                    self.refused += 1
                case Error():
                    raise RuntimeError(f"the broker has refused: {frame.message}")
                case Published():
                    self.stored += frame.stored
            self._replies += 1

    def send(self, data: bytes) -> None:
        """Send these bytes, whatever they are, and read nothing."""
        self._socket.sendall(data)

    def close(self) -> None:
        """End it."""
        self._socket.close()


def create(topic: str, capacity: int) -> CreateTopic:
    """The request for a topic that keeps as many messages as this, for ever."""
    settings = {
        Setting.RETENTION_TTL_MS: FOREVER,
        Setting.CAPACITY: capacity,
        Setting.MAX_BYTES: 2**40,
    }
    return CreateTopic(1, topic, tuple((int(number), value) for number, value in settings.items()))


def topics(number: int) -> Iterator[Frame]:
    """Requests for this many topics, with default settings."""
    return (CreateTopic(1, f"topic-{index}") for index in range(number))


def messages(topic: str, number: int, size: int) -> Iterator[Frame]:
    """Requests that publish as many messages, in batches of a hundred."""
    return repeat(
        Publish(1, topic, Batch.of_columns([b""] * BATCH, [b"x" * size] * BATCH)), number // BATCH
    )


def connections(port: int, number: int) -> list[IdleConnection]:
    """As many that have said Hello."""
    return [IdleConnection(port) for _ in range(number)]


def subscriptions(port: int, topic: str, number: int, *, credit: int) -> list[IdleConnection]:
    """As many subscriptions to a topic, over as few connections as the broker allows."""
    held = connections(port, -(-number // PER_CONNECTION))
    for index, connection in enumerate(held):
        some = min(PER_CONNECTION, number - index * PER_CONNECTION)
        connection.ask(Subscribe(1 + count, topic, credit=credit) for count in range(some))
    return held
