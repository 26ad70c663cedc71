"""A client that connects and says nothing. What does the next client see?"""

from zaichik.learn.lab import HELLO, running

with running() as broker:
    silent = broker.connect()
    print("the first client connects, and says nothing")

    eager = broker.connect()
    eager.settimeout(2)
    eager.sendall(HELLO)
    print("the second client says Hello")
    try:
        size = len(eager.recv(4096))
        print("it is answered with", size, "bytes, although the first one")
        print("is still silent")
    except TimeoutError:
        print("it waits for two seconds, in vain")
        silent.close()
        print("the first client leaves")
        size = len(eager.recv(4096))
        print("now the second one is answered with", size, "bytes")
