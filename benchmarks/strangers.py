"""Strangers who attack a broker with access control; run as a process of its own by
`benchmarks/access.py`.

    python benchmarks/strangers.py PORT wrong
    python benchmarks/strangers.py PORT stalled NUMBER

It prints "begun", and attacks until it is killed.
"""

import select
import socket
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Never

from zaichik_protocol import Hello, encode

ATTACKER = "127.0.0.2"  # who is measured comes from 127.0.0.1
WRONG_A_SECOND = 200
READ, THREADS = 256 * 1024, 20


def context() -> ssl.SSLContext:
    """Returns what a client needs for TLS; it trusts everybody."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname, found.verify_mode = False, ssl.CERT_NONE  # all of it is on this machine
    return found


def wrong_logins(port: int) -> Never:
    """Log in with wrong tokens, at a fixed rate."""
    with ThreadPoolExecutor(THREADS) as threads:  # who is made to wait must not hold up the rest
        print("begun", flush=True)
        began, number = time.perf_counter(), 0
        while True:
            time.sleep(max(0.0, began + number / WRONG_A_SECOND - time.perf_counter()))
            number += 1
            threads.submit(_wrong_login, port)


def _wrong_login(port: int) -> None:
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", port), 0.1, (ATTACKER, 0)) as raw,
        context().wrap_socket(raw) as end,
    ):
        end.sendall(encode(Hello(1, auth=1, secret="zk_" + "A" * 43)))
        end.recv(READ)


def stalled(port: int, number: int) -> Never:
    """Keep this many handshakes that send a byte a second; those that are ended begin again."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context().wrap_bio(incoming, outgoing).do_handshake()
    data = outgoing.read()
    ends: list[tuple[socket.socket, int]] = []
    is_first = True
    while True:
        while len(ends) < number:
            try:
                ends.append(
                    (
                        socket.create_connection(
                            ("127.0.0.1", port), 1, source_address=(ATTACKER, 0)
                        ),
                        0,
                    )
                )
            except OSError:
                break
        if is_first:
            is_first = False
            print("begun", flush=True)
        alive = []
        for end, sent in ends:
            try:
                if select.select([end], [], [], 0)[0]:
                    raise ConnectionError
                end.send(data[sent : sent + 1])
                alive.append((end, sent + 1))
            except (OSError, ValueError):
                end.close()
        ends = alive
        time.sleep(1)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [port, "wrong"]:
            wrong_logins(int(port))
        case [port, "stalled", number]:
            stalled(int(port), int(number))
