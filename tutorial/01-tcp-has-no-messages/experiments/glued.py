"""Three sends, one read: what a client says while the server is busy."""

from zaichik.learn.lab import running

with running() as broker:
    first = broker.connect()
    first.sendall(b"hello")
    first.recv(4096)  # answered: so the server is talking with this client
    print("the server talks with the first client, and reads from nobody else")

    second = broker.connect()
    for word in (b"one", b"two", b"three"):
        second.sendall(word)
        print("the second client sends", word)
    first.close()
    print("the first client leaves")
    print("the server answers the second:", second.recv(4096).decode(), end="")
