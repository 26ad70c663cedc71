"""A client that crashes in the middle of a frame: the broker's last words."""

import re
import socket
import struct

from zaichik.learn.lab import HELLO, running

RESET = struct.pack("ii", 1, 0)  # closing tears the connection down
OTHERS = re.compile(r'File ".*/(?:site-packages|python3[^/]*)/(.*)", line \d+')
OURS = re.compile(r'File ".*/(.*)"')

with running() as broker:
    client = broker.connect()
    client.sendall(HELLO)
    client.recv(4096)
    client.sendall(b"half")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()
    print("a client crashes in the middle of a frame")
    broker.wait_for_its_end()
    for line in broker.output()[1:]:
        if line.strip(" |+-^~"):  # not what only underlines
            print(OURS.sub(r"File \1", OTHERS.sub(r"File \1", line)))
