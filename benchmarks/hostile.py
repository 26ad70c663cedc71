"""Clients nobody wants, beside whom a benchmark measures what the others still get.

Those that are stuck cost their process nothing: a socket with a full buffer in one direction. A flooder must have a
process of its own, which takes a processor from the others on a machine that has few; so there is a control, a process
that floods a broker of its own.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress

from zaichik_protocol import (
    FOREVER,
    Batch,
    Commit,
    CreateTopic,
    Describe,
    Frame,
    Hello,
    Kind,
    Ping,
    Publish,
    Setting,
    Subscribe,
    encode,
)

STUCK = 10  # clients of a kind
MIB = 1024 * 1024
SOCKET_MIB = 32  # more than the buffers of both ends take
_FLOODER = """
import socket, sys, threading
port, data = int(sys.argv[1]), bytes.fromhex(sys.argv[3]) * 1000
broker = socket.create_connection(("127.0.0.1", port))
broker.sendall(bytes.fromhex(sys.argv[2]))
def read():
    while broker.recv(1 << 20):
        pass
threading.Thread(target=read, daemon=True).start()
while True:
    broker.sendall(data)
"""

Beside = Callable[[int, str], AbstractContextManager[None]]


def _greeted(port: int) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(encode(Hello(1, client="hostile")))
    raw.recv(4096)  # its greeting, which is the last that is read
    return raw


@contextmanager
def nobody(port: int, topic: str) -> Iterator[None]:
    """Nothing beside."""
    del port, topic
    yield


@contextmanager
def never_reading(port: int, topic: str) -> Iterator[None]:
    """Subscribers to the topic that is measured, with all the credit there is; they read nothing of it.

    They are stuck before anything is measured: another topic, to which they subscribe first, has filled their sockets.
    """
    with ExitStack() as stack:
        filling = stack.enter_context(closing(_greeted(port)))
        large = Batch.of_columns([b""], [bytes(MIB)])
        filling.sendall(encode(CreateTopic(2, "filling", ((Setting.RETENTION_TTL_MS, FOREVER),))))
        filling.sendall(encode(Publish(0, "filling", large)) * SOCKET_MIB)
        for _ in range(STUCK):
            raw = stack.enter_context(closing(_greeted(port)))
            for number, name in enumerate(("filling", topic), 1):
                raw.sendall(encode(Subscribe(number, name, credit=1_000_000, credit_bytes=2**32 - 1)))
        yield


@contextmanager
def never_committing(port: int, topic: str) -> Iterator[None]:
    """Likewise, with a credit of one message, which is all they ever get."""
    with ExitStack() as stack:
        for _ in range(STUCK):
            raw = stack.enter_context(closing(_greeted(port)))
            raw.sendall(encode(Subscribe(2, topic, credit=1)))
        yield


@contextmanager
def never_reading_replies(port: int, topic: str) -> Iterator[None]:
    """Clients that have asked until nothing more goes into the socket, and still wait."""
    del topic
    with ExitStack() as stack:
        for _ in range(STUCK):
            raw = stack.enter_context(closing(_greeted(port)))
            raw.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    raw.send(encode(Describe(3, Kind.BROKER, "", "", 1)) * 1000)
        yield


def flooding(frame: Frame) -> Beside:
    """A process that sends this frame again and again, and reads what comes back."""

    @contextmanager
    def flood(port: int, topic: str) -> Iterator[None]:
        del topic
        words = [str(port), encode(Hello(1, client="flood")).hex(), encode(frame).hex()]
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", _FLOODER, *words]) as process:
            try:
                yield
            finally:
                process.kill()

    return flood


TINY = Ping(0, 0)  # the smallest there is, without an answer
WRONG, LONG = Commit(3, 77, 1), Describe(3, Kind.BROKER, "", "", 1)
MESSAGE = Publish(0, "other", Batch.of_columns([b""], [b"m"]))  # one a frame: what a client does that has much to say
KINDS: dict[str, Beside] = {
    "nobody": nobody,
    f"{STUCK} readers that never read": never_reading,
    f"{STUCK} readers that never commit": never_committing,
    f"{STUCK} clients that never read replies": never_reading_replies,
    "a flood of tiny frames": flooding(TINY),
    "a flood of requests that are refused": flooding(WRONG),
    "a flood of requests with long answers": flooding(LONG),
    "a flood of messages, each alone": flooding(MESSAGE),
}
FLOODS = [beside for name, beside in KINDS.items() if name.startswith("a flood")]
