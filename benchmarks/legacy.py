"""An unchanged client of the original: messages a second, with TCP_QUICKACK at the gateway and
without it.

    python benchmarks/legacy.py [--seconds 3] [--runs 3]

The client does what the original's library does: it publishes, reads its message and commits, each
write small and by itself, with Nagle's algorithm on. It then sends the next Publish only after its
Commit was acknowledged. A system that has nothing to send delays that for 40 ms; a gateway that
sets TCP_QUICKACK at every receive makes it acknowledge at once. Client, gateway and broker are
processes of their own, and the two gateways take turns.
"""

import argparse
import multiprocessing
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import anyio

import zaichik
from benchmarks.serving import port_in, serving
from zaichik.apps.legacy.frames import Command, Commit, Publish, Subscribe, encode
from zaichik.apps.legacy.gateway import Gateway

TOPIC = "benchmark"
PAYLOAD = bytes(100)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description="messages a second of an unchanged client of the original"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of each run (default: %(default)g)"
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="of each gateway (default: %(default)s)"
    )
    arguments = parser.parse_args()
    rates: dict[bool, list[float]] = {False: [], True: []}
    with broker() as address:
        for _ in range(arguments.runs):
            for quick_ack, found in rates.items():
                with gateway(address, quick_ack=quick_ack) as port:
                    found.append(rate(port, arguments.seconds))
    print(table(rates))


def table(rates: dict[bool, list[float]]) -> str:
    """Returns the medians, and their ratio."""
    without, with_it = (statistics.median(rates[quick_ack]) for quick_ack in (False, True))
    rows = [("without TCP_QUICKACK", f"{without:,.0f}"), ("with TCP_QUICKACK", f"{with_it:,.0f}")]
    rows.append(("ratio", f"{with_it / without:,.1f}"))
    return "\n".join(f"{name:22} {value:>10}" for name, value in [("gateway", "messages/s"), *rows])


def rate(port: int, seconds: float) -> float:
    """Returns the messages a second of one client: publish, read, commit."""
    with socket.create_connection(("127.0.0.1", port)) as connection:

        def send(command: Command) -> None:
            connection.sendall(encode(command))

        send(Subscribe(TOPIC))
        expected = encode(Publish(TOPIC, "key", PAYLOAD))
        begin, count = time.perf_counter(), 0
        while (took := time.perf_counter() - begin) < seconds:
            connection.sendall(expected)
            if connection.recv(len(expected), socket.MSG_WAITALL) != expected:
                raise RuntimeError("the gateway has delivered something else")
            send(Commit())
            count += 1
    return count / took


@contextmanager
def broker() -> Iterator[str]:
    """Returns the address of a broker that ends with the block."""
    with subprocess.Popen(serving(log_level="error"), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{port_in(process.stdout.readline())}"
        finally:
            process.terminate()


@contextmanager
def gateway(address: str, *, quick_ack: bool) -> Iterator[int]:
    """Returns the port of a gateway, in a process that ends with the block."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(address, quick_ack, there), daemon=True)
    process.start()
    try:
        port: int = here.recv()
        yield port
    finally:
        process.terminate()
        process.join()


def serve(address: str, quick_ack: bool, told: "Connection[int, int]") -> None:  # noqa: FBT001 (multiprocessing)
    """Run a gateway for the broker at that address; tell its port."""

    async def run() -> None:
        async with zaichik.connect(zaichik.endpoint(address), name="benchmark") as client:
            found = await Gateway.listening(client, 0, quick_ack=quick_ack)
            told.send(found.port)
            await found.run()

    anyio.run(run)


if __name__ == "__main__":
    main()
