"""A client for experiments: blocking, and one frame at a time.

    reader = broker.client()
    reader.subscribe("orders", credit=1)
    print(reader.frame())

It waits for exactly what it is asked to wait for, so that an experiment reads as a list of what
happens.
"""

import socket
from collections import deque
from itertools import count
from typing import Any

from zaichik.learn import wire
from zaichik.learn.wire import Frame

PATIENCE_S = 5.0
ANSWER_S = 20.0  # a machine that is busy with something else is no broker that is stuck
READ_SIZE = 65_536


class Silence(Exception):
    """Nothing came in time, or the broker closed the connection; the text says which."""


class Caller:
    """One connection that has said Hello.

    Args:
        connection: a socket that is connected to a broker.
        features: bits of what its Hello says that it knows.

    Attributes:
        socket: the same, to send and receive anything but frames.
    """

    def __init__(self, connection: socket.socket, features: int = 0) -> None:
        self.socket = connection
        self._bytes = bytearray()
        self._events: deque[Frame] = deque()
        self._ids = count(1)
        self.ask("Hello", features=features)

    def send(self, name: str, /, *, frame_id: int | None = None, **fields: Any) -> int:
        """Send a request without waiting for its reply. Returns its id."""
        number = next(self._ids) if frame_id is None else frame_id
        self.socket.sendall(wire.encode(name, frame_id=number, **fields))
        return number

    def ask(self, name: str, /, **fields: Any) -> Frame:
        """Send a request and return its reply. Events that come before it are kept for `frame`."""
        number = self.send(name, **fields)
        while (frame := self._read(ANSWER_S)).is_event:
            self._events.append(frame)
        if frame.id != number:
            raise Silence(f"a reply to {frame.id} came where one to {number} was due")
        return frame

    def frame(self, seconds: float = PATIENCE_S) -> Frame:
        """The next frame, event or reply.

        Raises:
            Silence: none comes within this many seconds.
        """
        return self._events.popleft() if self._events else self._read(seconds)

    def publish(self, topic: str, *payloads: bytes, key: bytes = b"") -> Frame:
        """Publish messages with one key as a batch, and return the reply."""
        return self.ask("Publish", topic=topic, batch=[(key, payload) for payload in payloads])

    def subscribe(self, topic: str, **how: Any) -> int:
        """Subscribe with any fields of the request. Returns the subscription's id."""
        return self.ask("Subscribe", topic=topic, **how).id

    def _read(self, seconds: float) -> Frame:
        self.socket.settimeout(seconds)
        while (frame := wire.take_frame(self._bytes)) is None:
            try:
                data = self.socket.recv(READ_SIZE)
            except TimeoutError:
                raise Silence(f"nothing for {seconds:g} s") from None
            except ConnectionError:
                data = b""
            if not data:
                raise Silence("the broker has ended the connection")
            self._bytes += data
        return wire.parse(frame)
