"""The cost of single parts, without a network: the figures behind a few decisions.

    python benchmarks/core.py

Each figure is the median of seven rounds; compare only figures of one run. `python -m benchmarks`
measures a whole broker, and compares it with others.
"""

import json
import statistics
import timeit
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from zaichik.core.compaction import CompactionWindow
from zaichik.core.ring import BroadcastRing
from zaichik_protocol import EVENTS, REPLIES, REQUESTS, Batch, FrameDecoder, declaration, encode

ROUNDS = 7
MILLION = 1_000_000
# Every frame, with each of its flags.
GOLDEN = Path(__file__).parents[1] / "protocol" / "vectors" / "frames.json"


def microseconds(function: Callable[[], object], calls: int = 500) -> float:
    """Returns the median time of one call."""
    return statistics.median(timeit.repeat(function, number=calls, repeat=ROUNDS)) / calls * 1e6


def show(title: str, *figures: tuple[str, float]) -> None:
    """Print a line: what was measured, and the figures side by side."""
    print(f"{title:44}", "   ".join(f"{name} {value:9.2f} µs" for name, value in figures))


def codec() -> None:
    """Measure every frame: how it is written and read, beside the declaration in construct."""
    accepts = REQUESTS + REPLIES + EVENTS
    decoder = FrameDecoder(accepts, max_frame=2**20)
    for golden in json.loads(GOLDEN.read_text(encoding="utf-8")):
        data = bytes.fromhex(golden["hex"])
        frame = declaration.decode(accepts, data)
        show(
            f"encode {golden['name']}",
            ("derived", microseconds(partial(encode, frame))),
            ("construct", microseconds(partial(declaration.encode, frame))),
        )
        show(
            f"decode {golden['name']}",
            ("derived", microseconds(partial(decode, decoder, data))),
            ("construct", microseconds(partial(declaration.decode, accepts, data))),
        )


def decode(decoder: FrameDecoder, data: bytes) -> None:
    """Decode a frame as a connection does."""
    decoder.receive_data(data)
    decoder.next_frame()


def ring() -> None:
    """Measure finding the middle of a million entries, and appending while many readers do not
    wait.
    """
    one = Batch.of_columns([b""], [b""])
    large = BroadcastRing(MILLION, 2**40)
    for _ in range(MILLION):
        large.append(one, 0)
    row = deque(range(MILLION))
    middle = MILLION // 2
    show(
        "middle of a million",
        ("ring", microseconds(lambda: large.entry(middle))),
        ("deque", microseconds(lambda: row[middle])),
    )
    small = BroadcastRing(10, 2**40)

    def append_to_waiting(readers: int) -> None:
        for reader in range(readers):
            small.wait(reader, lambda: None)
        small.append(one, 0)

    none = microseconds(lambda: append_to_waiting(0))
    show(
        "append",
        ("none waits", none),
        ("10,000 wait", microseconds(lambda: append_to_waiting(10_000), 10)),
    )


def batch() -> None:
    """A small piece of a large batch."""
    large = Batch.of_columns([b"key"] * 8192, [b"x" * 100] * 8192)
    show("cut one message out of", ("8,192", microseconds(lambda: large.cut(5000, 5001))))
    show("check a batch of", ("8,192", microseconds(lambda: Batch.parse(large.data), 20)))


def compaction() -> None:
    """Judging a key, with few and with very many windows that have closed before."""
    for windows in (100, MILLION):
        window = CompactionWindow(10, MILLION)
        window.admit([b"%d" % number for number in range(windows)], 0)
        window.close(20)
        cost = microseconds(partial(window.admit, [b"k"], 30))
        show("judge one key after windows closed", (f"{windows:9,}", cost))


if __name__ == "__main__":
    codec()
    ring()
    batch()
    compaction()
