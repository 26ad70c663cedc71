"""My broker: what goes over its sockets."""

import os
import secrets
import socket
import struct
from contextlib import suppress

from frames import BadLength, FrameBuffer

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
READ_SIZE = 4096  # the most bytes that one read may bring
REST_S = 2.0  # how long the rest of a frame may let us wait

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
    """Answer every frame, until the client has no more to say."""
    frames = FrameBuffer(MAX_FRAME)
    while data := client.recv(READ_SIZE):
        frames.feed(data)
        while frame := frames.next_frame():
            client.sendall(answer(frame))
        # Fails at: the next client is served
        client.settimeout(REST_S if frames.has_begun else None)


def main() -> None:
    """Serve one client after the other, forever."""
    with socket.create_server((HOST, PORT)) as listener:
        print("listening at", HOST, "port", PORT, flush=True)
        while True:
            client, _ = listener.accept()
            with client, suppress(ConnectionError, BadLength):
                talk_with(client)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        main()
