"""What it costs to remember a little for `zaichik explain`, while nobody asks.

    python benchmarks/explain.py                     # about two minutes
    python benchmarks/explain.py --quick             # does it work? The figures of this say nothing
    python benchmarks/explain.py --base COMMIT       # compared with that, instead of the last commit without it

The same publishes are carried out by the broker as it is and as it was before there was anything to remember: frames
are decoded, applied and answered, without sockets. Each figure is the ratio of processor times, the median of pairs
that take turns, so that a machine that is busy with something else slows down both.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIRST = "zaichik/explain/decisions.py"  # what was not there before

PAIRS, PUBLISHES = 10, 30_000
SCENARIOS = {
    "stored": "single messages, all stored, and room for them",
    "full": "single messages into a full ring: each evicts one",
    "compacted": "single messages, nine of ten dropped by compaction",
    "batches": "batches of 100, nine of ten messages dropped",
    "numbered": "numbered batches of one, into a full ring, and a reader that settles them",
}


def main() -> None:
    """Run all scenarios and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--base", metavar="COMMIT")
    parser.add_argument("--worker", nargs=2, metavar=("SCENARIO", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(worker(arguments.worker[0], int(arguments.worker[1])))
        return
    pairs, publishes = (2, 500) if arguments.quick else (PAIRS, PUBLISHES)
    base = arguments.base or before()
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "archive", base, "zaichik", "protocol"]
        archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        for name, meaning in SCENARIOS.items():
            count = publishes // (20 if name == "batches" else 1)
            ratios = [seconds(ROOT, name, count) / seconds(Path(folder), name, count) for _ in range(pairs)]
            print(f"{statistics.median(ratios):6.3f}  {name}: {meaning}", flush=True)


def before() -> str:
    """Returns the last commit without a memory of decisions."""
    command = ["git", "log", "--diff-filter=A", "--format=%H^", "--", FIRST]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()[-1]


def seconds(tree: Path, scenario: str, count: int) -> float:
    """Returns the processor time of so many publishes in a process of its own, with the packages of that folder."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree), str(tree / "protocol")])}
    command = [sys.executable, __file__, "--worker", scenario, str(count)]
    done = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def worker(scenario: str, count: int) -> float:
    """Returns the processor time of so many publishes."""
    from zaichik.broker.broker import Broker
    from zaichik.broker.clock import ManualClock
    from zaichik_protocol import FOREVER, Batch, CreateTopic, FrameDecoder, Hello, Publish, Subscribe, encode
    from zaichik_protocol.codec import NEED_DATA

    broker = Broker(clock=ManualClock(1_000))
    manager = broker.connect(lambda: None)
    decoder = FrameDecoder.for_broker()
    is_compacted, size = scenario in {"compacted", "batches"}, 100 if scenario == "batches" else 1
    capacity = 1_000 if scenario in {"full", "numbered"} else 10_000_000
    window = FOREVER if is_compacted else 0
    manager.apply(Hello(1), 1_000)
    decoder.greeted(broker.settings.max_frame)
    requests = [CreateTopic(2, "t", ((1, FOREVER), (2, window), (3, capacity)))]
    if scenario == "numbered":
        requests.append(Subscribe(3, "t", credit=1_000_000, credit_bytes=2**32 - 1))
    setting_up = b"".join(map(encode, requests))
    frames = []
    for number in range(count):
        keys = [b"key %d" % ((number * size + index) // 10) for index in range(size)]
        batch = Batch.of((key, b"payload of forty bytes, as many have them") for key in keys)
        producer, sequence = (7, number) if scenario == "numbered" else (0, 0)
        frames.append(encode(Publish(9, "t", batch, producer=producer, sequence=sequence)))
    for data in (setting_up, *frames):
        if data is frames[0]:
            begun = time.process_time()
        decoder.receive_data(data)
        while (request := decoder.next_frame()) is not NEED_DATA:
            manager.apply(request, 1_000)
        while manager.next_output(1_000):
            pass
    return time.process_time() - begun


if __name__ == "__main__":
    main()
