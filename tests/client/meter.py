"""Counts what a client does, over a socket whose broker answers while the client sends."""

import socket
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from struct import unpack_from

import zaichik
import zaichik_protocol
from zaichik_protocol import (
    Close,
    Closed,
    Commit,
    Hello,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Welcome,
    encode,
)
from zaichik_protocol.layout import HEADER_SIZE

PACKAGES = tuple(str(Path(package.__file__).parent) for package in (zaichik, zaichik_protocol))


class Meter:
    """Counts what the client does while it runs.

    Attributes:
        calls: calls of Python functions of the project's, by name. To resume a generator or
            coroutine is one, too.
        sockets: system calls on the socket, by name.
    """

    def __init__(self):
        self.calls = Counter()
        self.sockets = Counter()
        self._is_running = False

    @contextmanager
    def running(self):
        """Count as long as the block lasts."""
        sys.setprofile(self._profile)
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False
            sys.setprofile(None)

    @contextmanager
    def paused(self):
        """Count nothing as long as the block lasts."""
        was_running, self._is_running = self._is_running, False
        try:
            yield
        finally:
            self._is_running = was_running

    def _profile(self, frame, event, _argument):
        if event == "call" and self._is_running and frame.f_code.co_filename.startswith(PACKAGES):
            self.calls[frame.f_code.co_qualname] += 1

    def system_call(self, name):
        if self._is_running:
            self.sockets[name] += 1


class MeteredSocket(socket.socket):
    """A client's end of a connection to a broker that answers while the client sends."""

    def __init__(self, meter):
        client, self._broker = socket.socketpair()
        super().__init__(fileno=client.detach())
        self._broker.setblocking(False)
        self._meter = meter
        self._received = bytearray(
            2**21
        )  # used again for each request, so that no memory is allocated for any
        self._size = 0
        self.requests = Counter()

    def deliver(self, *frames):
        self._broker.sendall(b"".join(map(encode, frames)))

    def close(self):
        self._broker.close()
        super().close()

    def recv(self, *arguments):
        self._meter.system_call("recv")
        return super().recv(*arguments)

    def send(self, *arguments):
        self._meter.system_call("send")
        return self._after(super().send(*arguments))

    def sendmsg(self, *arguments):
        self._meter.system_call("sendmsg")
        return self._after(super().sendmsg(*arguments))

    def _after(self, taken):
        with self._meter.paused():
            self._size += self._broker.recv_into(memoryview(self._received)[self._size :])
            while self._size >= HEADER_SIZE:
                length, code, _, _, number = unpack_from("<IBBHI", self._received)
                end = 4 + length
                if self._size < end:
                    break
                self._answer(code, number, end)
                view = memoryview(self._received)
                view[: self._size - end] = view[end : self._size]
                self._size -= end
        return taken

    def _answer(self, code, number, end):
        self.requests[code] += 1
        match code:
            case Hello.TYPE:
                self.deliver(Welcome(number, 1, 0, 7, 2**21, 8192, 2**20, 10**6, 0, "metered"))
            case Publish.TYPE:
                (topic_size,) = unpack_from("<16xH", self._received, HEADER_SIZE)
                (count,) = unpack_from("<I", self._received, HEADER_SIZE + 18 + topic_size)
                self.deliver(Published(number, 0, count, 0, 0))
            case Subscribe.TYPE:
                self.deliver(Subscribed(number, 1, 0, 0, 0))
            case Close.TYPE:
                self.deliver(Closed(number))
            case _:
                assert code in (Commit.TYPE, Unsubscribe.TYPE)


def assert_at_most(meter, calls, **system_calls):
    """The counts are printed in full, by name: a new name is the layer that was added."""
    assert dict(meter.sockets) == system_calls
    assert meter.calls.total() <= calls, sorted(meter.calls.items(), key=lambda item: -item[1])
