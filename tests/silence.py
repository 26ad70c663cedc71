"""Addresses that answer, refuse or say nothing, in the form in which the system reports them."""

import select
import socket
from contextlib import ExitStack, contextmanager


def address(place, family=socket.AF_INET):
    return family, socket.SOCK_STREAM, 0, place


@contextmanager
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield address(server.getsockname())


@contextmanager
def refusing():
    """An address at which nobody listens; nobody else gets its port meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield address(bound.getsockname())


@contextmanager
def silent():
    """An address that answers nothing: a listener whose queue is full drops what else comes."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        place = server.getsockname()
        while True:
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(place)
            if not select.select([], [one], [], 0.1)[1]:
                break
        yield address(place)
