"""One send, several reads: a message larger than one read may bring."""

import socket

from zaichik.learn.lab import running

MESSAGE = b"a long story. " * 1000

with running() as broker:
    client = broker.connect()
    client.sendall(MESSAGE)
    client.shutdown(socket.SHUT_WR)
    answers = b""
    while answer := client.recv(4096):
        answers += answer

print("sent in one send:", len(MESSAGE), "bytes")
messages = answers.count(b"one message")
told = "one message" if messages == 1 else "several messages"
print("the server took that for", told)
