"""A client that asks and asks, and never reads an answer."""

import socket
import threading
import time

from zaichik.learn import wire
from zaichik.learn.lab import HELLO, HOST, running

ASK = wire.encode("CreateTopic", frame_id=7, topic="orders")
MARK = wire.encode("Publish", frame_id=0, topic="marks", batch=[(b"", b"")])

with running() as broker:
    watcher = broker.client()
    greedy = socket.socket()
    # Little room for answers, so that it is soon full.
    greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    greedy.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    greedy.connect((HOST, broker.port))

    def ask() -> None:
        """Ask, with a mark after every hundred questions."""
        try:
            greedy.sendall(HELLO)
            while True:
                greedy.sendall(ASK * 100 + MARK)
        except OSError:
            pass  # the broker has ended, or has given up on us

    def marks() -> int:
        """Leave a mark of our own. Returns how many came before it."""
        return watcher.publish("marks", b"")["first_offset"]

    threading.Thread(target=ask, daemon=True).start()
    print("a client asks and asks, and reads no answer")
    before, is_deaf = marks(), False
    give_up = time.monotonic() + 30
    while not is_deaf and time.monotonic() < give_up:
        time.sleep(3)
        now = marks()
        is_deaf = now == before + 1  # our own and no other
        before = now
    if is_deaf:
        print("and the broker has stopped listening to it")
    else:
        print("half a minute later the broker still does what it asks")
