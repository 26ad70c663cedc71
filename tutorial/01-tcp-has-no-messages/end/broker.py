"""My broker: what goes over its sockets."""

import os
import socket
from contextlib import suppress

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
READ_SIZE = 4096  # the most bytes that one read may bring


def talk_with(client: socket.socket) -> None:
    """Answer every read, until the client has no more to say."""
    while data := client.recv(READ_SIZE):
        answer = f"one message, {len(data)} bytes: {data[:20]!r}\n"
        client.sendall(answer.encode())


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
