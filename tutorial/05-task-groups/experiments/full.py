"""More clients than the broker may have sockets: what becomes of it?"""

from contextlib import suppress

from zaichik.learn.lab import HELLO, running

MAY_HAVE = ["-n", "16"]  # open files and sockets, all in all

with running(limits=MAY_HAVE) as broker:
    first = broker.connect()
    first.sendall(HELLO)
    size = len(first.recv(4096))
    print("the first client says Hello, and is answered with", size, "bytes")

    with suppress(ConnectionError):  # it may be gone before the last one
        for _ in range(16):
            broker.connect()
    print("more clients connect than it can have")
    print("the broker has ended, exit code", broker.wait_for_its_end())
    said = [line.strip(" |") for line in broker.output()]
    print("it said:", next(line for line in said if "Error:" in line))
    print("the first client reads", first.recv(4096), "- it's out, too")
