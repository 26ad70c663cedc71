"""Exercise 1.1: exactly so many bytes."""

import socket


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """The next `size` bytes of a connection, never more, and fewer only by raising EOFError.

    Raises:
        EOFError: the stream ended before they were all there.
    """
    raise NotImplementedError("this is yours to write")
