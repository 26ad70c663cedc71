"""Say each word in a send of its own, and print the server's answers."""

import os
import socket
import sys

ADDRESS = ("127.0.0.1", int(os.environ["PORT"]))

with socket.create_connection(ADDRESS) as server:
    for word in sys.argv[1:]:
        server.sendall(word.encode())
    server.shutdown(socket.SHUT_WR)  # no more to say
    while answer := server.recv(4096):
        print(answer.decode(), end="")
