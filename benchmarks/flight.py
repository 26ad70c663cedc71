"""What `zaichik serve --record` costs: processor time of a fixed number of publishes, with a
recording and without.

    python benchmarks/flight.py            # a minute or two
    python benchmarks/flight.py --quick    # does it work? The figures of this say nothing

Two brokers run all the time, and take turns: recorded, plain, recorded, plain. What is compared is
the processor time of all threads of each, so the thread that writes the file counts. Each figure is
the median of ten pairs. Compare ratios only.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "chaos")]  # for the processes of those tests

from served import served  # noqa: E402

from benchmarks.access import Broker, Client, ratio, show  # noqa: E402
from zaichik_protocol import Batch, CreateTopic, Publish, Setting, TopicCreated, encode  # noqa: E402

PAIRS, QUICK_PAIRS = 10, 2
# What is published: a name, topic, messages in a batch, bytes of each, publishes in a turn,
# publishes under way.
CASES = [
    ("one at a time, 100 bytes", "orders", 1, 100, 10_000, 1),
    ("100 under way, 100 bytes", "orders", 1, 100, 20_000, 100),
    ("100 under way, 4 KiB", "orders", 1, 4096, 10_000, 100),
    ("batches of 100, 100 bytes each, 10 under way", "orders", 100, 100, 2_000, 10),
    ("to a durable topic, 100 under way, 100 bytes", "durable", 1, 100, 10_000, 100),
]


@contextmanager
def broker(*options: str) -> Iterator[Broker]:
    """Returns a broker that runs as long as the block lasts."""
    with served("--log-level", "warning", "--data", "topics", *options) as process:
        yield Broker(process, "", has_tls=False)


def measure(at: Broker, client: Client, publish: bytes, count: int, under_way: int) -> float:
    """Returns µs of processor time for each publish."""
    before = at.processor_ns
    client.pipeline(publish, count, under_way)
    return (at.processor_ns - before) / count / 1000


def compare(file: Path, pairs: int, part: float, *options: str) -> None:
    """Print a line for each case.

    Args:
        file: the recording.
        pairs: how many.
        part: of the publishes of each case, this many are done.
        options: of the recorded broker, besides.
    """
    with (
        broker("--record", str(file), "--record-limit", "64GiB", *options) as recorded,
        broker() as plain,
        closing(Client(recorded)) as one,
        closing(Client(plain)) as other,
    ):
        for client in one, other:
            client.ask(CreateTopic(1, "durable", ((Setting.DURABLE, 1),)), TopicCreated)
        for name, topic, messages, size, full, under_way in CASES:
            publish = encode(
                Publish(1, topic, Batch.of_columns([b""] * messages, [b"x" * size] * messages))
            )
            count = max(under_way, int(full * part))
            for at, client in ((recorded, one), (plain, other)):
                measure(at, client, publish, count // 4 + 1, under_way)  # not counted
            before = file.stat().st_size
            ours, others, by = ratio(
                pairs,
                lambda: measure(recorded, one, publish, count, under_way),  # noqa: B023 (called at once)
                lambda: measure(plain, other, publish, count, under_way),  # noqa: B023
            )
            written = (file.stat().st_size - before) / (count * pairs) - len(publish)
            show(name, f"{ours:.1f}; {others:.1f}; {by:.3f}; {written:.0f} B")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fraction of everything")
    quick = parser.parse_args().quick
    pairs, part = (QUICK_PAIRS, 0.2) if quick else (PAIRS, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        for title, options in (
            ("recorded", ()),
            ("recorded, payloads masked", ("--record-masked",)),
        ):
            show(f"{title}: a publish, processor time", "recorded µs; plain µs; ratio; file")
            compare(Path(folder, title), pairs, part, *options)


if __name__ == "__main__":
    main()
