"""My broker: what goes over its sockets."""

import os
import socket
from contextlib import suppress

from conversation import Conversation

HOST = "127.0.0.1"  # this machine and nobody else
PORT = int(os.environ["PORT"])
READ_SIZE = 4096  # the most bytes that one read may bring
FAREWELL_S = 1.0  # how long we go on reading after our last word


def talk_with(client: socket.socket) -> None:
    """Answer until one side has had enough."""
    conversation = Conversation()
    while not conversation.is_over and (data := client.recv(READ_SIZE)):
        client.sendall(conversation.receive(data))
    client.shutdown(socket.SHUT_WR)
    # A socket that is closed with unread bytes in it is torn down, and
    # our last words with it. So read what still comes, and drop it.
    client.settimeout(FAREWELL_S)
    while client.recv(READ_SIZE):
        pass


def main() -> None:
    """Serve one client after the other, forever."""
    with socket.create_server((HOST, PORT)) as listener:
        print("listening at", HOST, "port", PORT, flush=True)
        while True:
            client, _ = listener.accept()
            with client, suppress(OSError):  # whatever becomes of it
                talk_with(client)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C
        main()
