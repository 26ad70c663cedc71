"""Say Hello to a broker, and show its answer as bytes."""

import os
import socket

HELLO = bytes.fromhex(
    "21 00 00 00 01 00 00 00 01 00 00 00"  # 33 more bytes; Hello; number 1
    "5a 41 49 4b 01 00 01 00"  # the letters ZAIK; I speak version 1 to 1
    "00 00 00 00 00 00 00 00"  # nothing special
    "02 00 6d 65 00 00 00 00 00"  # my name is 2 bytes long: me; no password
)
ADDRESS = ("127.0.0.1", int(os.environ["PORT"]))

with socket.create_connection(ADDRESS) as broker:
    broker.sendall(HELLO)
    print(broker.recv(4096).hex(" "))
