"""A broker in fifty lines. The rest of the book is what is wrong with it."""

import os
import socketserver
import struct
from contextlib import suppress

HEADER = struct.Struct("<IBBHI")  # length, type, flags, zero, id


def frame(kind, number, body):
    return HEADER.pack(8 + len(body), kind, 0, 0, number) + body


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
        return {6: body[4:], 7: body}.get(kind, b"")  # Commit, Ping, others


if __name__ == "__main__":
    address = ("127.0.0.1", int(os.environ["PORT"]))
    socketserver.TCPServer.allow_reuse_address = True  # also at once
    server = socketserver.ThreadingTCPServer(address, Client)
    server.daemon_threads = True  # don't wait for them at the end
    with server, suppress(KeyboardInterrupt):
        print("listening at", *address, flush=True)
        server.serve_forever()
