"""The scenarios: which cells each has, and what is measured in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.growth import AXES
from benchmarks.measures import (
    RATE,
    Figures,
    acknowledged,
    replay,
    roundtrip,
    stream,
    told,
    worked,
)
from benchmarks.memory import SIZES
from benchmarks.peers.peer import Job, Peer
from benchmarks.script import PROCESSOR
from benchmarks.startup import COMMANDS

MICROSECONDS = "µs"
LONG = 150.0  # seconds that building the largest broker may take on a busy machine


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of a scenario's table.

    Attributes:
        label: its heading.
        measure: how it is measured.
        job: what is measured; peer, servers and topic are filled in for each run.
        servers: how many there are at once.
    """

    label: str
    measure: Callable[[Job], Figures]
    job: Job
    servers: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """A table.

    Attributes:
        name: for `--only`.
        title: what is measured, in words.
        cells: its columns.
        unit: what the figures are.
        most_runs: runs at most, where one is long enough to be many; 0: as many as were asked for.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    unit: str = RATE
    most_runs: int = 0


def sized(job: Job, peer: Peer) -> Job:
    """The job with as many messages as this peer is given; the limits move all of them, whatever
    their keys.
    """
    if job.role not in ("publisher", "replay", "work"):
        return job
    messages = peer.messages(job)
    equal = max(1, messages // max(1, job.publishers)) * max(1, job.publishers)
    return replace(job, messages=equal, keep_first=job.keep_first and not peer.is_limit)


def scenarios(*, quick: bool) -> list[Scenario]:
    """All of them, in full size or so small that they take seconds."""
    million = 10_000 if quick else 1_000_000
    publishing = Job("publisher", "", 0, "", messages=million)
    return [
        *streams(publishing),
        queue(publishing),
        *timed(publishing, 0.2 if quick else 2.0),
        script(publishing, rounds=2 if quick else 15),
        *of_zaichik_alone(quick=quick),
    ]


def streams(publishing: Job) -> list[Scenario]:
    """Those that move many messages as fast as they can be moved."""
    messages = publishing.messages

    def size(number: int, label: str) -> Cell:
        return Cell(label, stream, replace(publishing, size=number))

    def fan(number: int) -> Cell:
        return Cell(
            f"1 → {number}",
            stream,
            replace(publishing, subscribers=number, messages=messages // number),
        )

    with_keys = replace(publishing, keys=max(10, messages // 100))
    return [
        Scenario(
            "throughput",
            "Throughput 1 → 1 by size of payload",
            (size(100, "100 B"), size(1024, "1 KiB"), size(65536, "64 KiB")),
        ),
        Scenario("fanout", "Deliveries to many subscribers, 100 B", (fan(4), fan(64))),
        Scenario(
            "fanin",
            "From 16 publishers (in two processes) to one subscriber, 100 B",
            (Cell("16 → 1", stream, replace(publishing, publishers=16)),),
        ),
        Scenario(
            "keepfirst",
            "A topic that keeps each key's first message, 100 B, zipf-distributed keys",
            (
                Cell("plain", stream, with_keys),
                Cell("keep-first", stream, replace(with_keys, keep_first=True)),
            ),
        ),
        Scenario(
            "replay",
            "A late subscriber to retained messages, 100 B",
            (
                Cell("live", stream, publishing),
                Cell("replay", replay, replace(publishing, role="replay", publishers=0)),
            ),
        ),
    ]


def queue(publishing: Job) -> Scenario:
    """One queue, and all that its workers have to do is to settle what they get."""

    def workers(number: int, prefetch: int) -> Cell:
        # Each has to wait for a round trip between two messages.
        share = 50 if prefetch == 1 else 5
        job = replace(
            publishing,
            role="work",
            subscribers=number,
            prefetch=prefetch,
            messages=publishing.messages // share,
        )
        label = f"{number} worker{'s' if number > 1 else ''}"
        if prefetch == 1:
            label += ", one at a time"
        return Cell(label, worked, job)

    return Scenario(
        "work",
        "Workers of a queue that is full, in two processes if there are many; each message is "
        "settled by a call of its own; prefetch 100, or one at a time; 100 B",
        (workers(1, 100), workers(4, 100), workers(16, 100), workers(1, 1), workers(16, 1)),
    )


def timed(publishing: Job, seconds: float) -> list[Scenario]:
    """Those that last a given time."""

    def tasks(number: int) -> Cell:
        job = replace(publishing, role="acknowledged", tasks=number, seconds=seconds)
        return Cell(f"{number} task{'s' if number > 1 else ''}", acknowledged, job)

    def threads(number: int) -> Cell:
        job = replace(publishing, role="calls", tasks=number, seconds=seconds)
        return Cell(f"{number} thread{'s' if number > 1 else ''}", acknowledged, job)

    def rate(number: int) -> Cell:
        job = replace(
            publishing, role="roundtrip", rate=number, messages=int(number * seconds * 1.5)
        )
        return Cell(f"{number:,}/s", roundtrip, job)

    return [
        Scenario(
            "acknowledged",
            "Single publishes, each awaited until acknowledged, 100 B",
            (tasks(1), tasks(64)),
        ),
        Scenario(
            "calls",
            "The same from a program without an event loop, by the client that is made for it",
            (threads(1), threads(4)),
        ),
        Scenario(
            "roundtrip",
            "Round trip of 100 B at a fixed rate, from the time due",
            (rate(1000), rate(10_000)),
            MICROSECONDS,
        ),
    ]


def script(publishing: Job, rounds: int) -> Scenario:
    """A run is many lives."""
    job = replace(publishing, role="script", rounds=rounds)
    cells = (
        Cell("by the clock", told, job),
        Cell("processor time", told, replace(job, axis=PROCESSOR)),
    )
    title = (
        "The life of a small program: import the client, connect, publish one acknowledged "
        "message, end"
    )
    return Scenario("script", title, cells, "ms")


def of_zaichik_alone(*, quick: bool) -> list[Scenario]:
    """The growing cost of publishing, the longest pauses, memory taken and given back, and
    start-up.
    """
    alone = Job(
        "growth", "", 0, "", messages=20 if quick else 100, rounds=2 if quick else 30, deadline=LONG
    )
    return [
        growth(alone, quick=quick),
        tail(alone, quick=quick),
        *memory(alone, quick=quick),
        startup(alone, quick=quick),
    ]


def growth(alone: Job, *, quick: bool) -> Scenario:
    """A cell for each thing that grows."""

    def axis(name: str, points: tuple[int, ...]) -> Cell:
        few = points[:2] if quick else points
        return Cell(name, told, replace(alone, axis=name, points=few), servers=len(few))

    axes = tuple(axis(name, points) for name, points in AXES.items())
    title = "What a publish of 100 B costs as the broker fills"
    return Scenario("growth", title, axes, MICROSECONDS, most_runs=3)


def tail(alone: Job, *, quick: bool) -> Scenario:
    """A run is long: more than a hundred thousand messages at the higher rate."""
    rings, rounds, seconds = ((100, 10_000), 1, 0.2) if quick else ((1_000, 1_000_000), 4, 4.0)
    job = replace(
        alone, role="tail", points=rings, rounds=rounds, seconds=seconds, deadline=2 * LONG
    )
    cells = (Cell("single messages", told, job, servers=len(rings)),)
    title = (
        "Latency of single messages of 100 B until they are acknowledged, in a full ring of "
        "such messages"
    )
    return Scenario("tail", title, cells, "ms", most_runs=2)


def memory(alone: Job, *, quick: bool) -> list[Scenario]:
    """Memory taken, and memory given back."""
    messages, seconds = (20_000, 2.0) if quick else (500_000, 5.0)

    def kind(name: str, sizes: tuple[int, int]) -> Cell:
        few = tuple(size // 50 for size in sizes) if quick else sizes
        return Cell(name, told, replace(alone, role="memory", axis=name, points=few))

    def burst(name: str, size: int) -> Cell:
        job = replace(
            alone, role="burst", size=size, messages=messages * 100 // size, seconds=seconds
        )
        return Cell(name, told, job)

    kinds = tuple(kind(name, sizes) for name, sizes in SIZES.items())
    bursts = (burst("messages of 100 B", 100), burst("messages of 1 KiB", 1024))
    title = "Resident memory of the broker before, during and after a burst that expires"
    return [
        Scenario("memory", "Memory of the broker for one of each", kinds, "bytes", most_runs=3),
        Scenario("burst", title, bursts[:1] if quick else bursts, "MiB", most_runs=3),
    ]


def startup(alone: Job, *, quick: bool) -> Scenario:
    """A cell for each command; there is no server beside it."""
    job = replace(alone, role="startup", rounds=1 if quick else 3)
    cells = tuple(Cell(name, told, replace(job, axis=name), servers=0) for name in COMMANDS)
    return Scenario("startup", "Start-up time", cells, "ms")
