"""The cost of single parts, without a network: the figures behind a few decisions.

    python benchmarks/core.py

Each figure is the median of seven rounds; compare only figures of one run. `python -m benchmarks` measures a whole
broker, and compares it with others.
"""

import statistics
import timeit
from collections import deque
from collections.abc import Callable
from functools import partial

from zaichik.broker.compaction import CompactionWindow
from zaichik.broker.ring import BroadcastRing
from zaichik_protocol import Batch, Commit, Frame, FrameDecoder, Messages, Publish, Published, encode
from zaichik_protocol.codec import encode_by_declaration
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS

ROUNDS = 7
MILLION = 1_000_000


def microseconds(function: Callable[[], object], calls: int = 500) -> float:
    """Returns the median time of one call."""
    return statistics.median(timeit.repeat(function, number=calls, repeat=ROUNDS)) / calls * 1e6


def show(title: str, *figures: tuple[str, float]) -> None:
    """Print a line: what was measured, and the figures side by side."""
    print(f"{title:44}", "   ".join(f"{name} {value:9.2f} µs" for name, value in figures))


def codec() -> None:
    """Measure the declaration against its plain twins."""
    batch = Batch.of_columns([b"key"] * 100, [b"x" * 100] * 100)
    frames: list[Frame] = [Publish(1, "topic", batch), Messages(1, 0, 0, batch)]
    frames += [Published(1, 0, 100, 0, 1), Commit(1, 2, 3)]
    for frame in frames:
        name, data = type(frame).__name__, encode(frame)
        decoder = FrameDecoder(REQUESTS + REPLIES + EVENTS, max_frame=2**20)
        declared, twin = microseconds(partial(encode_by_declaration, frame)), microseconds(partial(encode, frame))
        show(f"encode {name}", ("declaration", declared), ("twin", twin))
        declared = microseconds(partial(decoder.decode_by_declaration, data))
        show(f"decode {name}", ("declaration", declared), ("twin", microseconds(partial(decode, decoder, data))))


def decode(decoder: FrameDecoder, data: bytes) -> None:
    """Decode a frame as a connection does."""
    decoder.receive_data(data)
    decoder.next_frame()


def ring() -> None:
    """Measure finding the middle of a million entries, and appending while many readers do not wait."""
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
    show("append", ("none waits", none), ("10,000 wait", microseconds(lambda: append_to_waiting(10_000), 10)))


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
