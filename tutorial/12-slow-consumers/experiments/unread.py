"""A client that asks and asks, and never reads an answer."""

import socket
import threading
import time

from zaichik.learn import wire
from zaichik.learn.lab import running

ASK = wire.encode("CreateTopic", frame_id=7, topic="orders")
MARK = wire.encode("Publish", frame_id=0, topic="marks", batch=[(b"", b"")])

with running() as broker:
    greedy, watcher = broker.client(), broker.client()
    greedy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def ask() -> None:
        """Ask, with a mark after every hundred questions."""
        try:
            while True:
                greedy.socket.sendall(ASK * 100 + MARK)
        except OSError:
            pass  # the broker has ended

    threading.Thread(target=ask, daemon=True).start()
    print("a client asks and asks, and reads no answer")
    time.sleep(20)
    carried_out = []
    for _ in range(2):
        reply = watcher.publish("marks", b"")
        carried_out.append(reply["first_offset"])
        time.sleep(3)
    is_deaf = carried_out[1] == carried_out[0] + 1
    print("20 seconds later", "the broker has stopped listening to it"
          if is_deaf else "the broker still does what it asks")  # fmt: skip
