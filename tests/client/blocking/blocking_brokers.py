"""Brokers in another thread that stop and start again, or lose connections, and peers that answer
as told, for tests without an event loop.
"""

import socket
import threading
from contextlib import contextmanager
from functools import partial

from anyio.from_thread import start_blocking_portal
from proxy import cutting_proxy

import zaichik
from zaichik.learn.server import free_port
from zaichik_protocol import NEED_DATA, Close, Closed, FrameDecoder, Hello, Welcome, encode


class Restartable:
    """A broker that can be stopped, and started again on the same port.

    Attributes:
        port: where it is.
    """

    def __init__(self, portal):
        self.port = free_port()
        self._portal = portal
        self._now_us = 0
        self.start()

    def start(self):
        """Start one that knows nothing; its clock is ahead of the last one's, so its epochs are
        others.
        """
        self._now_us += 1_000_000_000
        clock = zaichik.ManualClock(self._now_us)
        self._running = self._portal.wrap_async_context_manager(
            zaichik.running_broker(port=self.port, clock=clock)
        )
        self._running.__enter__()

    def stop(self):
        """Stop it; its clients lose their connections."""
        self._running.__exit__(None, None, None)


@contextmanager
def restartable_broker():
    """One that lives as long as the block."""
    with start_blocking_portal() as portal:
        broker = Restartable(portal)
        try:
            yield broker
        finally:
            broker.stop()


@contextmanager
def cut_broker(cuts):
    """Yields a broker's port, and that of a proxy to it which cuts connections there."""
    clock = zaichik.ManualClock(1_000_000_000)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(zaichik.running_broker(clock=clock)) as broker,
        portal.wrap_async_context_manager(cutting_proxy(broker.port, cuts)) as proxy,
    ):
        proxy.cut = partial(portal.call, proxy.cut)  # where the proxy is
        yield broker.port, proxy


class Peer(threading.Thread):
    """One connection of something that answers each frame as told, then hangs up when told so.

    Attributes:
        port: where it is.
        received: the frames that came.
    """

    def __init__(self, answers):
        super().__init__(daemon=True)
        self.answers = {
            Hello: lambda frame: Welcome(frame.id, 1, 0, 7, 2**21, 8192, 2**20, 10**6, 0, "peer"),
            Close: lambda frame: Closed(frame.id),
            **answers,
        }
        self.received = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        stream, _ = self.listener.accept()
        self._stream = stream
        decoder = FrameDecoder.for_broker()
        with stream:
            while data := stream.recv(65536):
                decoder.receive_data(data)
                while (frame := decoder.next_frame()) is not NEED_DATA:
                    decoder.greeted(2**21)
                    self.received.append(frame)
                    answer = self.answers.get(type(frame), lambda _: b"")(frame)
                    if answer is None:
                        return
                    stream.sendall(answer if isinstance(answer, bytes) else encode(answer))

    def count(self, kind):
        """The number of frames of that type that came."""
        return sum(isinstance(frame, kind) for frame in self.received)

    def send(self, *frames):
        """Send these, from any thread."""
        self._stream.sendall(b"".join(map(encode, frames)))


def silent(_):
    """The answer of a peer that does not answer yet."""
    return b""


@contextmanager
def peer(answers):
    thread = Peer(answers)
    thread.start()
    try:
        yield thread
    finally:
        thread.listener.close()
        thread.join(60)
