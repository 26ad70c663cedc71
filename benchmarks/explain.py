"""What it costs to remember a little for `zaichik explain`, while nobody asks.

    python benchmarks/explain.py                # about two minutes
    python benchmarks/explain.py --quick        # does it work? The figures of this say nothing
    python benchmarks/explain.py --base COMMIT  # compared with that, not the last one without it

The same publishes are sent over a socket to the broker as it is, and as it was before it remembered
anything. They come as fast as it reads them, many with each read, which is where a publish costs
least. Each figure is the ratio of processor times, the median of pairs that take turns, so that a
machine that is busy with something else slows down both.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIRST = "zaichik/core/decisions.py"  # what was not there before

PAIRS, PUBLISHES = 10, 30_000
SCENARIOS = {
    "stored": "single messages, all stored, and room for them",
    "full": "single messages into a full ring: each evicts one",
    "compacted": "single messages, nine of ten dropped by compaction",
    "batches": "batches of 100, nine of ten messages dropped",
    "numbered": "numbered batches of one, into a full ring, and a reader that gets them",
}


def main() -> None:
    """Run all scenarios and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--base", metavar="COMMIT")
    parser.add_argument("--only", choices=SCENARIOS, help="one scenario")
    parser.add_argument("--worker", nargs=2, metavar=("SCENARIO", "COUNT"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--client", nargs=3, metavar=("PORT", "SCENARIO", "COUNT"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.worker:
        print(worker(arguments.worker[0], int(arguments.worker[1])))
        return
    if arguments.client:
        client(int(arguments.client[0]), arguments.client[1], int(arguments.client[2]))
        return
    pairs, publishes = (2, 500) if arguments.quick else (PAIRS, PUBLISHES)
    base = arguments.base or before()
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "archive", base, "zaichik", "protocol"]
        archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        for name, meaning in SCENARIOS.items():
            if arguments.only not in {None, name}:
                continue
            count = publishes // (20 if name == "batches" else 1)
            ratios = [
                seconds(ROOT, name, count) / seconds(Path(folder), name, count)
                for _ in range(pairs)
            ]
            print(f"{statistics.median(ratios):6.3f}  {name}: {meaning}", flush=True)


def before() -> str:
    """Returns the last commit without a memory of decisions."""
    command = ["git", "log", "--diff-filter=A", "--format=%H^", "--", FIRST]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()[-1]


def seconds(tree: Path, scenario: str, count: int) -> float:
    """Returns the processor time of this many publishes in a process of its own, with the packages
    of that folder.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree), str(tree / "protocol")])}
    command = [sys.executable, __file__, "--worker", scenario, str(count)]
    done = subprocess.run(
        command, cwd=tree, env=environment, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def worker(scenario: str, count: int) -> float:
    """Returns the processor time of a broker for this many publishes of a client in another
    process.
    """
    from zaichik.server.running import running_broker

    async def run() -> float:
        async with running_broker() as server:
            begun = time.process_time()
            command = [sys.executable, __file__, "--client", str(server.port), scenario, str(count)]
            await asyncio.to_thread(subprocess.run, command, check=True)
            return time.process_time() - begun

    return asyncio.run(run())


def client(port: int, scenario: str, count: int) -> None:
    """Publish as fast as the broker reads."""
    setting_up, publishes = frames(scenario, count)
    with socket.create_connection(("127.0.0.1", port)) as peer:
        answers(peer, setting_up)
        answers(peer, publishes)


def answers(peer: socket.socket, requests: bytes) -> None:
    """Send requests and return when the last of them, a Ping, is answered."""
    from zaichik_protocol import FrameDecoder, Ping, Pong, encode
    from zaichik_protocol.codec import NEED_DATA

    sender = threading.Thread(target=peer.sendall, args=(requests + encode(Ping(1, 77)),))
    sender.start()
    decoder, frame = FrameDecoder.for_client(), None
    while not isinstance(frame, Pong):
        decoder.receive_data(peer.recv(1 << 20))
        while (frame := decoder.next_frame()) is not NEED_DATA and not isinstance(frame, Pong):
            pass
    sender.join()


def frames(scenario: str, count: int) -> tuple[bytes, bytes]:
    """Returns the requests that make the topic and its reader, and this many publishes.

    All are answered.
    """
    from zaichik_protocol import FOREVER, Batch, CreateTopic, Hello, Publish, Subscribe, encode

    is_compacted, size = scenario in {"compacted", "batches"}, 100 if scenario == "batches" else 1
    capacity = 1_000 if scenario in {"full", "numbered"} else 10_000_000
    window = FOREVER if is_compacted else 0
    first = [Hello(1), CreateTopic(2, "t", ((1, FOREVER), (2, window), (3, capacity)))]
    if scenario == "numbered":
        first.append(Subscribe(3, "t", credit=1_000_000, credit_bytes=2**32 - 1))
    publishes = []
    for number in range(count):
        keys = [b"key %d" % ((number * size + index) // 10) for index in range(size)]
        batch = Batch.of((key, b"payload of forty bytes, as many have them") for key in keys)
        producer, sequence = (7, number) if scenario == "numbered" else (0, 0)
        publishes.append(encode(Publish(9, "t", batch, producer=producer, sequence=sequence)))
    return b"".join(map(encode, first)), b"".join(publishes)


if __name__ == "__main__":
    main()
