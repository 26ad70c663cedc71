"""The usual first answer: recv(size) is taken for "these bytes", and it means "these bytes at most".

Fails at: bytes that come one by one
"""

import socket


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """What one read brings."""
    return connection.recv(size)
