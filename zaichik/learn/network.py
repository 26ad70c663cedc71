"""A network between a client and a broker on one machine, which loses the replies it is asked to.

    with between(broker.port, lose="the first answer") as port:
        ...  # a client that connects to this port

Real networks lose replies, too: the request arrives and is carried out, but the connection breaks
before the reply is back. The client cannot tell that from a request that never arrived.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zaichik.learn import wire
from zaichik.learn.server import HOST

READ_SIZE = 65_536
POLL_INTERVAL_S = 0.05


@contextmanager
def between(port: int, *, lose: str, times: int = 1) -> Iterator[int]:
    """A port that forwards to another. When a reply of one kind comes back, the connection breaks.

    Args:
        port: the broker's port.
        lose: the name of the replies to lose, such as "Published".
        times: how many of them to lose.
    """
    left = [times]
    stopped = threading.Event()
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(POLL_INTERVAL_S)

        def accept() -> None:
            while not stopped.is_set():
                with suppress(TimeoutError):
                    client, _ = listener.accept()
                    threading.Thread(
                        target=_serve, args=(client, port, lose, left), daemon=True
                    ).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            stopped.set()
            thread.join()


def _serve(client: socket.socket, port: int, lose: str, left: list[int]) -> None:
    with client, socket.create_connection((HOST, port)) as broker, suppress(OSError):
        threading.Thread(target=_pass_on, args=(client, broker), daemon=True).start()
        data = bytearray()
        while came := broker.recv(READ_SIZE):
            data += came
            while (frame := wire.take_frame(data)) is not None:
                if left[0] and wire.parse(frame).name == lose:
                    left[0] -= 1
                    # Close() alone would wait for the other thread's read.
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(frame)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(READ_SIZE):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
