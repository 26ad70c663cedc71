"""My broker: what goes over its sockets."""

import os
import socket
from contextlib import suppress

from conversation import Conversation
from frames import BadLength

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
READ_SIZE = 4096  # the most bytes that one read may bring


def talk_with(client: socket.socket) -> None:
    """Answer until the client has no more to say."""
    conversation = Conversation()
    while data := client.recv(READ_SIZE):
        client.sendall(conversation.receive(data))


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
