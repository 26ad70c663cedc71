"""Durable topics beside what others do on a disk: rates, and what survives a power cut.

Peers take turns, as in `python -m benchmarks`, and each row says what a power cut leaves of what
was acknowledged. What is not installed and cannot be fetched has a row with the reason. Fetched
once into ~/.cache/zaichik-bench are Kafka's server (43 MB; it needs Java 17) and a NATS server that
can sync each message, compiled by Go, if the installed one is too old.

Of zaichik alone: a late subscriber served from the disk, a memory topic beside a durable one on a
very slow disk, and how long a broker takes to start with a large log.

All servers have folders in one folder on one disk, which is removed at the end.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import durable_table, report
from benchmarks.__main__ import allow_open_files, parser_of, stop, takes_part
from benchmarks.durable_scenarios import scenarios
from benchmarks.obtain import CACHE
from benchmarks.outcomes import Outcome, Table
from benchmarks.peers import zaichik_slow_disk
from benchmarks.peers.peer import Peer
from benchmarks.processes import say
from benchmarks.roles import peer_of
from benchmarks.scenarios import Scenario
from benchmarks.turns import lasting_servers, measure, why_absent, willing

ZAICHIK = ["zaichik_memory", "zaichik_durable", "zaichik_slow_disk"]
OTHERS = [
    "redis_always",
    "redis_everysec",
    "jetstream_always",
    "jetstream_file",
    "kafka_synced",
    "kafka_unsynced",
    "rabbitmq_quorum",
]
PEERS = [*ZAICHIK, *OTHERS]
SCENARIOS = [scenario.name for scenario in scenarios(0, quick=True)]
QUICK_SYNC_SECONDS = 0.05
SYNCS = 50
IN_MEMORY_US = 20  # a sync that takes less has reached no disk
EXAMPLES = """
examples:
  python -m benchmarks.durable                           # everything; a quarter of an hour
  python -m benchmarks.durable --quick                   # everything, small: does it work?
  python -m benchmarks.durable --only publishing --peers zaichik_durable redis_always
  python -m benchmarks.durable --only restart --gigabytes 10
  python -m benchmarks.durable --out benchmarks/results/durable  # also writes results.json and .md

scenarios: """ + ", ".join(SCENARIOS)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the options."""
    parser = parser_of("python -m benchmarks.durable", __doc__, EXAMPLES, SCENARIOS, PEERS)
    parser.add_argument(
        "--gigabytes", type=float, help="the log of `restart` (default 0.5; with --quick 0.01)"
    )
    parser.add_argument(
        "--disk",
        type=Path,
        default=CACHE,
        metavar="DIR",
        help=f"where it writes (default: {CACHE})",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to write results.json and results.md"
    )
    options = parser.parse_args(arguments)
    options.runs = options.runs or (1 if options.quick else 5)
    options.gigabytes = options.gigabytes or (0.01 if options.quick else 0.5)
    return options


def sync_us(folder: Path) -> float:
    """Returns the median time of a write with its sync, in microseconds."""
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(SYNCS):
            begin = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - begin)
    if (median := statistics.median(taken) * 1e6) < IN_MEMORY_US:
        say(
            f"a sync in {folder} takes {median:.0f} µs: that is no disk; name a folder on one with "
            "--disk"
        )
    return median


def measure_all(options: argparse.Namespace, tables: list[Table]) -> None:
    """Append a table for each scenario that was asked for, and print it as soon as it is there."""
    if options.quick:
        zaichik_slow_disk.PEER.seconds = QUICK_SYNC_SECONDS
    asked = [
        it for it in scenarios(options.gigabytes, quick=options.quick) if it.name in options.only
    ]
    if not hasattr(os, "posix_fadvise"):
        asked = [it for it in asked if it.name != "cold"]
        say("cold: skipped, because this system cannot be told to forget what it has read")
    named = {name: peer for name in options.peers if takes_part(peer := peer_of(name), asked)}
    reasons = {name: why_absent(peer) for name, peer in named.items()}
    peers = {name: peer for name, peer in named.items() if not reasons[name]}
    with lasting_servers(peers) as servers:
        for name in named.keys() - peers.keys():
            reasons[name] = reasons[name] or "its server did not start"
            say(f"{name} is missing: {reasons[name]}")
        absent = {named[name]: reason for name, reason in reasons.items() if reason}
        for scenario in asked:
            if taking_part := willing(scenario, peers):
                tables.append(
                    with_absent(
                        measure(scenario, taking_part, options.runs, servers), scenario, absent
                    )
                )
                print(durable_table.printed(tables[-1]), flush=True)


def with_absent(table: Table, scenario: Scenario, absent: dict[Peer, str]) -> Table:
    """Returns the table with a row for each missing peer, whose last column says why."""
    for peer, reason in absent.items():
        if scenario.name in peer.scenarios:
            table.outcomes.append(Outcome(peer.label, scenario.cells[0].label, 0))
            table.keeps[peer.label] = f"{peer.keeps}; not measured, because {reason}"
    return table


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; the exit code."""
    options = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    allow_open_files()
    tables: list[Table] = []
    out, code, sync = options.out, 0, 0.0
    options.disk.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="durable-", dir=options.disk, ignore_cleanup_errors=True
    ) as name:
        tempfile.tempdir = os.environ["TMPDIR"] = name  # of this process, and of those it starts
        try:
            sync = sync_us(Path(name))
            measure_all(options, tables)
        except KeyboardInterrupt:
            say("interrupted; everything that was started has been ended")
            out, code = (
                out / "interrupted" if out and tables else None,
                130,
            )  # complete results stay as they are
    if out:
        measured = {
            outcome.peer for table in tables for outcome in table.outcomes if outcome.figures
        }
        peers = [peer for peer in map(peer_of, options.peers) if peer.label in measured]
        results = report.gather(tables, options.runs, peers, quick=options.quick)
        results.about["sync_us"] = sync
        durable_table.write(out, results)
    return code or int(any(outcome.failures for table in tables for outcome in table.outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
