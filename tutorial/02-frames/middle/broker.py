"""My broker: what goes over its sockets."""

import os
import secrets
import socket
import struct
from contextlib import suppress

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
READ_SIZE = 4096  # the most bytes that one read may bring

HEADER = struct.Struct("<IBBHI")  # length, type, flags, zero, id
HELLO, PING, REPLY = 0x01, 0x07, 0x80
MAX_FRAME = 1_179_648  # a batch of 1 MiB, and what goes around it
BOOT = secrets.randbits(64) or 1  # each run of the broker has its own


def text(value: str) -> bytes:
    """A string as the protocol has it: how many bytes, and the bytes."""
    return struct.pack("<H", len(value.encode())) + value.encode()


def welcome() -> bytes:
    """The body of a Welcome: version, features, boot, limits, our name."""
    limits = (MAX_FRAME, 8192, 1_048_576, 1_000_000, 0)
    return struct.pack("<HQQ5I", 1, 0, BOOT, *limits) + text("mine")


def answer(frame: bytes) -> bytes:
    """The reply to one request; nothing if it asks for silence."""
    _length, kind, _flags, _zero, frame_id = HEADER.unpack_from(frame)
    if kind == HELLO:
        body = welcome()
    else:
        (value,) = struct.unpack("<Q", frame[HEADER.size :])
        body = struct.pack("<Q", value)
    reply = HEADER.pack(8 + len(body), kind | REPLY, 0, 0, frame_id) + body
    return reply if frame_id else b""


def talk_with(client: socket.socket) -> None:
    """Answer every read, until the client has no more to say."""
    while data := client.recv(READ_SIZE):
        client.sendall(answer(data))


def main() -> None:
    """Serve one client after the other, forever."""
    with socket.create_server((HOST, PORT)) as listener:
        print("listening at", HOST, "port", PORT, flush=True)
        while True:
            client, _ = listener.accept()
            with client, suppress(ConnectionError):  # if it crashes
                talk_with(client)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        main()
