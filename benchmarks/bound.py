"""Whether the broker's memory stays within what it reports.

    python -m benchmarks.bound                            # all steps, one after the other: a minute
    python -m benchmarks.bound --step keys --step topics  # only these
    python -m benchmarks.bound --python ../other/.venv/bin/python --json

A broker with small limits is filled step by step, by clients from several addresses (127.0.0.2 to
127.0.0.9), and nothing is released before the end. After each step the growth of its resident
memory since its start is compared with what `describe` reports as used: its field `memory`, or
`bytes` in older brokers. The aim: memory grows by at most 1.25 times what is reported. Requests
that the broker refuses are counted, and are not errors. Linux only.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path

import anyio

import zaichik
from benchmarks.idle import IdleConnection
from benchmarks.isolation import PIPES, Spoken, interpreter
from benchmarks.memory import resident_bytes
from benchmarks.processes import Failed, kill, process, say
from benchmarks.serving import port_in, serving
from zaichik_protocol import FOREVER, Batch, CreateTopic, Frame, Publish, Setting, Subscribe, encode

KIB, MIB = 1024, 1024 * 1024
TARGET = 1.25
NOISE_BYTES = 4 * MIB  # that an interpreter takes for itself while it works
LIMITS = {
    "max_bytes": "64MiB",
    "max_connections": "2000",
    "max_topics": "2100",
    "max_producers": "50",
    "max_sessions": "2000",
}
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 10)]
SETTLE_SECONDS = 1.5  # more than the second after which a broker looks after its tables
REMEMBERED = 64  # answers of a producer
LONG = "x" * 190  # of a name, which may have 200 bytes


@dataclass(frozen=True)
class Point:
    """The measurements after a step.

    Attributes:
        grown: bytes of resident memory since the start.
        reported: bytes that `describe` reports.
        refused: requests and connections that the broker refused in this step.
        seconds: the time that filling took.
    """

    step: str
    grown: int
    reported: int
    refused: int
    seconds: float

    @property
    def ratio(self) -> float | None:
        """Memory ÷ what is reported, if that is not 0."""
        return self.grown / self.reported if self.reported else None

    @property
    def is_bounded(self) -> bool:
        """Whether the aim was met."""
        return self.grown <= TARGET * self.reported + NOISE_BYTES


@dataclass
class Fillers:
    """Clients that fill a broker, from one address after the other, and stay.

    Attributes:
        port: of the broker.
        refused: connections that were not accepted, and those that were closed while they filled.
    """

    port: int
    refused: int = 0
    held: list[IdleConnection] = field(default_factory=list)
    addresses: Iterator[str] = field(default_factory=lambda: cycle(ADDRESSES))

    def fill(self, requests: Iterable[Frame] = (), data: bytes = b"", expected: int = 0) -> None:
        """Open one more connection, with these requests, these bytes, and this many messages to
        receive.
        """
        try:
            self.held.append(IdleConnection(self.port, next(self.addresses), tolerant=True))
            self.held[-1].ask(requests)
            if not self.held[-1].refused:
                self.held[-1].receive(expected)
            self.held[-1].send(data)
        except (RuntimeError, OSError):
            self.refused += 1

    def refusals(self) -> int:
        """All of them so far."""
        return self.refused + sum(connection.refused for connection in self.held)


def topic(name: str, **settings: int) -> CreateTopic:
    """The request for a topic with these settings."""
    return CreateTopic(
        1, name, tuple((int(Setting[key.upper()]), value) for key, value in settings.items())
    )


def connections(fillers: Fillers) -> None:
    """500 connections that have said Hello."""
    for _ in range(500):
        fillers.fill()


def topics(fillers: Fillers) -> None:
    """2,000 topics with long names."""
    for first in range(0, 2000, 250):
        fillers.fill(CreateTopic(1, f"{number}{LONG}") for number in range(first, first + 250))


def subscriptions(fillers: Fillers) -> None:
    """20,000 subscriptions over 20 connections."""
    for _ in range(20):
        fillers.fill(Subscribe(1 + number, f"{number}{LONG}") for number in range(1000))


def sessions(fillers: Fillers) -> None:
    """2,000 named subscriptions with long names."""
    for first in range(0, 2000, 250):
        fillers.fill(
            Subscribe(1 + number, f"{number}{LONG}", f"{number}{LONG}")
            for number in range(first, first + 250)
        )


def keys(fillers: Fillers) -> None:
    """Compaction windows of 40,000 keys of 1 KiB, whose messages are gone."""
    fillers.fill([topic("keys", compaction_window_ms=FOREVER, capacity=500)])
    for first in range(0, 40_000, 5000):
        fillers.fill(
            Publish(
                1,
                "keys",
                Batch.of_columns([b"%01024d" % (begin + key) for key in range(500)], [b""] * 500),
            )
            for begin in range(first, first + 5000, 500)
        )


def small_batches(fillers: Fillers) -> None:
    """200,000 batches of one empty message."""
    fillers.fill([topic("small", retention_ttl_ms=FOREVER, capacity=1_000_000)])
    for _ in range(8):
        fillers.fill([Publish(1, "small", Batch.of_columns([b""], [b""]))] * 25_000)


def stuck_readers(fillers: Fillers) -> None:
    """Four readers that are given 50,000 batches of one message, and commit none."""
    fillers.fill([topic("unsettled", retention_ttl_ms=FOREVER, capacity=1_000_000)])
    fillers.fill([Publish(1, "unsettled", Batch.of_columns([b""], [b"m"]))] * 50_000)
    for _ in range(4):
        fillers.fill(
            [Subscribe(1, "unsettled", credit=1_000_000, credit_bytes=2**32 - 1)], expected=50_000
        )


def unread(fillers: Fillers) -> None:
    """40 readers of large messages that read nothing."""
    fillers.fill([topic("unread", retention_ttl_ms=FOREVER)])
    fillers.fill([Publish(1, "unread", Batch.of_columns([b""], [bytes(MIB - KIB)]))] * 16)
    for _ in range(40):
        fillers.fill(data=encode(Subscribe(1, "unread", credit=1_000_000, credit_bytes=2**32 - 1)))


def begun_frames(fillers: Fillers) -> None:
    """50 frames of 1 MiB, of which the last byte is missing."""
    frame = encode(Publish(0, "begun", Batch.of_columns([b""], [bytes(MIB - KIB)])))
    for _ in range(50):
        fillers.fill(data=frame[:-1])


def producers(fillers: Fillers) -> None:
    """50 producers, each with 64 remembered answers of a bit for each of 8,192 messages."""
    batch = Batch.of_columns([b"k"] * 8192, [b""] * 8192)
    fillers.fill([topic("answers", compaction_window_ms=FOREVER)])
    for producer in range(1, 51):
        fillers.fill(
            Publish(1, "answers", batch, producer=producer, sequence=sequence)
            for sequence in range(REMEMBERED)
        )


Step = Callable[[Fillers], None]
STEPS: dict[str, Step] = {
    step.__name__.replace("_", "-"): step
    for step in (
        *(connections, topics, subscriptions, sessions, keys, small_batches),
        *(
            stuck_readers,
            producers,
            unread,
            begun_frames,
        ),  # the last two are cut off after ten seconds
    )
}


async def reported(port: int) -> int:
    """Bytes that the broker says it uses."""
    async with zaichik.connect(port=port, timeout=60) as client:
        state = await client.describe()
    return int(state.get("memory", state["bytes"]))


@contextmanager
def broker(python: str) -> Iterator[tuple[int, int]]:
    """Port and process id of a broker with small limits as long as the block lasts."""
    limits = [word for name, value in LIMITS.items() for word in ("--limit", f"{name}={value}")]
    command = serving(*limits, python=python)
    with tempfile.TemporaryDirectory(prefix="bound-") as name:
        log = Path(name) / "broker.log"
        with process(command, log, {}, **PIPES) as child:
            yield port_in(Spoken(child, log, "the broker").line()), child.pid
            kill(child)  # it would take leave of everybody


def measure(steps: Iterable[str], python: str) -> Iterator[Point]:
    """A point after each step; all that was filled is still there."""
    with broker(python) as (port, pid):
        anyio.run(reported, port)  # what answering takes once belongs to the start
        start, fillers = resident_bytes(pid), Fillers(port)
        for name in steps:
            begin, refused = time.monotonic(), fillers.refusals()
            STEPS[name](fillers)
            seconds = time.monotonic() - begin
            time.sleep(SETTLE_SECONDS)
            grown = resident_bytes(pid) - start
            yield Point(
                name,
                grown,
                anyio.run(reported, port),
                fillers.refusals() - refused,
                round(seconds, 1),
            )


def line(point: Point) -> str:
    """A point as a line of the table."""
    verdict = "" if point.is_bounded else "  MISSED"
    ratio = "-" if point.ratio is None else f"{point.ratio:,.2f}"
    return (
        f"{point.step:16} {point.grown / MIB:12,.1f} {point.reported / MIB:14,.1f} {ratio:>9} "
        f"{point.refused:9,} {point.seconds:9,.1f}{verdict}"
    )


def main(words: Iterable[str] | None = None) -> int:
    """Fill what was asked for; the results so far are shown, also after Ctrl-C."""
    described = "\n".join(f"  {name:16} {step.__doc__}" for name, step in STEPS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bound",
        description=__doc__,
        epilog=f"steps, in their order:\n{described}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--step", action="append", choices=STEPS, metavar="NAME", help="see below; may be repeated"
    )
    parser.add_argument(
        "--python",
        type=interpreter,
        default=sys.executable,
        metavar="PATH",
        help="whose `-m zaichik` is the broker",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(None if words is None else list(words))
    if not Path("/proc/self/statm").exists():
        parser.error("this system has no /proc/PID/statm, where memory is read; run it on Linux")
    points: list[Point] = []
    code = 0
    try:
        for point in measure(options.step or STEPS, options.python):
            points.append(point)
            say(
                f"{point.step}: {point.grown / MIB:,.1f} MiB, {point.reported / MIB:,.1f} MiB "
                "reported"
            )
    except KeyboardInterrupt:
        say("interrupted")
        code = 130
    except Failed as error:
        say(str(error))
        code = 1
    if options.json:
        print(json.dumps([{**asdict(point), "ratio": point.ratio} for point in points], indent=1))
    elif points:
        print(
            f"{'filled':16} {'grown, MiB':>12} {'reported, MiB':>14} {'ratio':>9} {'refused':>9} "
            f"{'seconds':>9}"
        )
        print("\n".join(map(line, points)))
        print(f"\naim: at most {TARGET} times what is reported, and {NOISE_BYTES / MIB:g} MiB")
    return code


if __name__ == "__main__":
    sys.exit(main())
