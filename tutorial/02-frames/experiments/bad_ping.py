"""A Ping with a byte too few: what one client's mistake does to others."""

import struct

from zaichik.learn.lab import HELLO, running

with running() as broker:
    good = broker.connect()
    good.sendall(HELLO)
    size = len(good.recv(4096))
    print("a good client says Hello and is answered with", size, "bytes")
    good.close()

    bad = broker.connect()
    bad.sendall(HELLO)
    bad.recv(4096)
    bad.sendall(struct.pack("<IBBHI", 15, 7, 0, 0, 2) + bytes(7))
    print("a bad client sends a Ping with 7 bytes instead of 8")

    print("the broker has ended, exit code", broker.wait_for_its_end())
    print("its last line:", broker.output()[-1])
    try:
        broker.connect()
    except ConnectionRefusedError:
        print("the next client finds nobody at home")
