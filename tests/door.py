"""A door before a broker that shuts for good after so many bytes: to its readers, a broker that
dies meanwhile.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer


class _Door(ThreadingTCPServer):
    def __init__(self, leads_to: int, most: int) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.leads_to = leads_to
        self._left = most

    def lets_through(self, data: bytes) -> bool:
        self._left -= len(data)
        return self._left >= 0


class _Visit(BaseRequestHandler):
    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.leads_to)) as inside:
            requests = threading.Thread(
                target=_pass_on, args=(self.request, inside, lambda _: True)
            )
            requests.start()
            _pass_on(inside, self.request, self.server.lets_through)
            requests.join()


def _pass_on(source: socket.socket, to: socket.socket, may: Callable[[bytes], bool]) -> None:
    """Until one side has gone, or may no more; then both are gone."""
    with suppress(OSError):
        while (data := source.recv(65536)) and may(data):
            to.sendall(data)
    for side in (source, to):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


@contextmanager
def door(leads_to: int, most: int) -> Iterator[int]:
    """A port that leads to a broker's, until that has sent so many bytes on all connections."""
    with _Door(leads_to, most) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
