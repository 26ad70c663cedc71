"""A broker in fifty lines. The rest of the book is what is wrong with it."""

import os
import socketserver
import struct
import time
from contextlib import suppress

HEADER = struct.Struct("<IBBHI")  # length, type, flags, zero, id
readers = {}  # of each topic: the clients that read it, and their ids
counts = {}  # of each topic: how many messages it has had


def frame(kind, number, body):
    return HEADER.pack(8 + len(body), kind, 0, 0, number) + body


def text(body, start):
    end = start + 2 + int.from_bytes(body[start : start + 2], "little")
    return body[start + 2 : end], end


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        while header := self.rfile.read(12):
            length, kind, _, _, number = HEADER.unpack(header)
            body = self.rfile.read(length - 8)
            reply = self.answer(kind, number, body)
            if number:
                self.wfile.write(frame(kind + 128, number, reply))

    def answer(self, kind, number, body):
        if kind == 1:  # Hello: who are you, and what may I do?
            limits = (1_179_648, 8192, 1_048_576, 1_000_000, 0)
            return struct.pack("<HQQ5I", 1, 0, 1, *limits) + b"\2\0me"
        if kind == 3:  # Publish
            return self.publish(*text(body, 16), body)
        if kind == 4:  # Subscribe
            topic, _ = text(body, 0)
            readers.setdefault(topic, []).append((self.wfile, number))
            here = counts.get(topic, 0)
            return struct.pack("<4Q", 1, here, here, here)
        return {6: body[4:], 7: body}.get(kind, b"")  # Commit, Ping, others

    def publish(self, topic, end, body):
        batch, first = body[end:], counts.get(topic, 0)
        counts[topic] = first + int.from_bytes(batch[:4], "little")
        event = struct.pack("<Qq", first, time.time_ns() // 1000) + batch
        try:  # Fails at: those who stayed get everything
            for client, number in readers.get(topic, []):
                client.write(frame(64, number, event))
        except OSError:
            pass
        new = counts[topic] - first
        return struct.pack("<Q3I", first, new, 0, len(readers.get(topic, [])))


if __name__ == "__main__":
    address = ("127.0.0.1", int(os.environ["PORT"]))
    socketserver.TCPServer.allow_reuse_address = True  # also at once
    server = socketserver.ThreadingTCPServer(address, Client)
    server.daemon_threads = True  # don't wait for them at the end
    with server, suppress(KeyboardInterrupt):
        print("listening at", *address, flush=True)
        server.serve_forever()
