"""Say each word in a send of its own, and print what the server answers."""

import os
import socket
import sys

with socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))) as server:
    for word in sys.argv[1:]:
        server.sendall(word.encode())
    server.shutdown(socket.SHUT_WR)  # no more to say
    while answer := server.recv(4096):
        print(answer.decode(), end="")
