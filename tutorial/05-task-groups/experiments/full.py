"""More clients than the operating system lets the broker have: what does that do to those it has?"""

from contextlib import suppress

from zaichik.learn.lab import HELLO, running

with running(limits=["-n", "16"]) as broker:  # files and sockets it may have open, all in all
    first = broker.connect()
    first.sendall(HELLO)
    print("the first client says Hello and is answered with", len(first.recv(4096)), "bytes")

    with suppress(ConnectionError):  # it may be gone before the last of them has come
        for _ in range(16):
            broker.connect()
    print("more clients connect than it can have")
    print("the broker has ended, exit code", broker.wait_for_its_end())
    print("it said:", next(line.strip(" |") for line in broker.output() if "Error:" in line))
    print("the first client reads", first.recv(4096), "- it has been thrown out, too")
