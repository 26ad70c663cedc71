"""Sockets of an attacker: dialled from an address of its own, driven by two loops that cost as
little as possible.

`flood` sends the same bytes again and again over all its connections; `converse` answers what
comes. A connection that the broker closes is dialled again. Everything that is sent was encoded
beforehand: an attacker that is busy with its own frames would show how fast the attacker is, not
how well a broker protects its other clients.
"""

import select
import socket
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Never

from zaichik_protocol import Hello, encode

ADDRESS = "127.0.0.2"  # the clients that are measured come from 127.0.0.1
HELLO = encode(Hello(1, client="attacker"))
CHUNK = 64 * 1024  # bytes of one system call
# connections: from this number on, each gets a small buffer, because others need the kernel's
# memory, too
MANY = 100
SMALL_BUFFER = 64 * 1024
PATIENCE_SECONDS = 2.0  # for a broker that accepts late or greets late
PAUSE_SECONDS = 0.02  # before dialling a broker again that has refused a connection
_BIND_ADDRESS_NO_PORT = (
    24  # of Linux: the port is chosen by `connect`, so that those of closed connections serve again
)

Conversation = Generator[bytes, bytes, None]


def dial(port: int, *, buffer: int | None = None) -> socket.socket:
    """Returns a connection from the attacker's address.

    Args:
        port: of the broker.
        buffer: bytes of the kernel's buffers, each way; None: as many as the kernel likes.

    Raises:
        OSError: nobody accepts it.
    """
    raw = socket.socket()
    try:
        raw.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        raw.bind((ADDRESS, 0))
        raw.settimeout(PATIENCE_SECONDS)
        raw.connect(("127.0.0.1", port))
    except OSError:
        raw.close()
        raise
    return raw


def greeted(port: int, *, buffer: int | None = None) -> socket.socket:
    """Returns a connection that has said Hello, and has read the Welcome and nothing beyond it.

    Raises:
        OSError: the broker does not accept or greet it.
    """
    raw = dial(port, buffer=buffer)
    try:
        raw.sendall(HELLO)
        if not exactly(raw, int.from_bytes(exactly(raw, 4), "little")):
            raise ConnectionError("the broker has closed the connection")
    except OSError:
        raw.close()
        raise
    return raw


def exactly(raw: socket.socket, size: int) -> bytes:
    """Returns this many bytes; fewer if the peer has closed."""
    data = b""
    while len(data) < size and (more := raw.recv(size - len(data))):
        data += more
    return data


class Swarm:
    """As many greeted connections as were asked for, by their descriptors.

    Args:
        port: of the broker.
        number: of connections.
        blocking: whether their calls wait.
    """

    def __init__(self, port: int, number: int, *, blocking: bool) -> None:
        self._port, self._number, self._blocking = port, number, blocking
        self._buffer = SMALL_BUFFER if number >= MANY else None
        self._dial_at = 0.0
        self.sockets: dict[int, socket.socket] = {}

    def dial_missing(self) -> list[int]:
        """Dial those that are missing.

        Returns the descriptors of the new ones; a refusal ends the attempt.
        """
        new: list[int] = []
        while len(self.sockets) < self._number and time.monotonic() >= self._dial_at:
            try:
                raw = greeted(self._port, buffer=self._buffer)
            except OSError:
                self._dial_at = time.monotonic() + PAUSE_SECONDS
                break
            raw.setblocking(self._blocking)
            self.sockets[raw.fileno()] = raw
            new.append(raw.fileno())
        return new

    def drop(self, number: int) -> None:
        """Close one that the broker has given up."""
        self.sockets.pop(number).close()


def flood(
    port: int, number: int, frames: bytes, ready: Callable[[], None], *, reads: bool = True
) -> Never:
    """Send the frames again and again over this many connections, each as fast as the broker takes
    them.
    """
    data = memoryview(frames * max(1, CHUNK // len(frames)))
    swarm, poll, scratch = (
        Swarm(port, number, blocking=False),
        select.epoll(),
        bytearray(1024 * 1024),
    )
    sent: dict[int, int] = {}  # how far each has come in the data, which begins anew after its end
    interest = select.EPOLLOUT | (select.EPOLLIN if reads else 0)
    for _ in range(number):
        for new in swarm.dial_missing():
            poll.register(new, interest)
            sent[new] = 0
    ready()
    while True:
        for new in swarm.dial_missing():
            poll.register(new, interest)
            sent[new] = 0
        for descriptor, events in poll.poll(PAUSE_SECONDS):
            raw = swarm.sockets[descriptor]
            try:
                if events & ~select.EPOLLOUT and not raw.recv_into(scratch):
                    raise ConnectionError("closed by the broker")
                if events & select.EPOLLOUT:
                    sent[descriptor] = (
                        sent[descriptor] + raw.send(data[sent[descriptor] :])
                    ) % len(data)
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(descriptor)
                swarm.drop(descriptor)


def converse(
    port: int, number: int, conversation: Callable[[], Conversation], ready: Callable[[], None]
) -> Never:
    """Hold this many conversations at once: each gets what came, and yields what is to be sent."""
    swarm, poll = Swarm(port, number, blocking=True), select.epoll()
    talks: dict[int, Conversation] = {}

    def begin() -> None:
        for new in swarm.dial_missing():
            poll.register(new, select.EPOLLIN)
            talks[new] = conversation()
            with suppress(OSError):  # its end is read in its turn
                swarm.sockets[new].sendall(next(talks[new]))

    begin()
    ready()
    while True:
        begin()
        for descriptor, _ in poll.poll(PAUSE_SECONDS):
            raw = swarm.sockets[descriptor]
            try:
                if not (data := raw.recv(1024 * 1024)):
                    raise ConnectionError("closed by the broker")
                if answer := talks[descriptor].send(data):
                    raw.sendall(answer)
            except OSError:
                poll.unregister(descriptor)
                swarm.drop(descriptor)
