"""Compare zaichik with the other brokers on this machine, and with two limits.

Starts every server itself, on a free loopback port with a private directory, and ends only what it
has started. Peers that are not installed are skipped, with the reason. Kafka's server (43 MB from
Maven Central; it needs Java 17) and the program `nats` (compiled by Go) are fetched once, into
~/.cache/zaichik-bench. zaichik itself is measured in pure Python and compiled; a C compiler is
needed for that, and two minutes.

The peers take turns; the tables show the median of all runs, with the lowest and the highest. Each
message is counted where it arrives: a missing one is an error, and the exit code is 1. Some
scenarios measure zaichik alone: the growing cost of publishing, the longest pauses, memory taken
and given back, and start-up.
"""

import argparse
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from benchmarks import memory, report
from benchmarks.outcomes import Table, took
from benchmarks.peers.peer import Peer
from benchmarks.processes import say
from benchmarks.roles import peer_of
from benchmarks.scenarios import Scenario, scenarios
from benchmarks.tables import text
from benchmarks.turns import lasting_servers, measure, present, willing
from zaichik.base.build import interpreter

ZAICHIK = ["zaichik", "zaichik_bounded", "zaichik_batches", "zaichik_calls"]
COMPILED = ["zaichik_compiled", "zaichik_bounded_compiled", "zaichik_batches_compiled"]
OTHERS = [
    "kafka",
    "kafka_aiokafka",
    "nats",
    "jetstream",
    "redis_pubsub",
    "redis_streams",
    "mosquitto",
    "rabbitmq",
    "rabbitmq_pika",
    "rabbitmq_queue",
]
PEERS = [*ZAICHIK, *COMPILED, *OTHERS, "nats_go", "limit", "codec"]
OF_MEMORY = {"memory", "burst"}
OPEN_FILES = 4096  # more than a broker with a thousand connections needs
SCENARIOS = [scenario.name for scenario in scenarios(quick=True)]
EXAMPLES = """
examples:
  python -m benchmarks                                   # everything; about an hour
  python -m benchmarks --quick                           # everything, small: does it work?
  python -m benchmarks --only throughput fanout --runs 9
  python -m benchmarks --only roundtrip --peers zaichik nats
  python -m benchmarks --out benchmarks/results      # also writes results.json, results.md, plots
  python -m benchmarks --redraw benchmarks/results   # makes results.md and the plots again

scenarios: """ + ", ".join(SCENARIOS)


def parser_of(
    prog: str, description: str | None, examples: str, scenarios: list[str], peers: list[str]
) -> argparse.ArgumentParser:
    """Returns a parser of the options that all comparisons have."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few messages and one run: shows that it works, not how fast",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="SCENARIO", choices=scenarios, default=scenarios
    )
    parser.add_argument(
        "--peers", nargs="+", metavar="PEER", choices=peers, default=peers, help=", ".join(peers)
    )
    parser.add_argument(
        "--runs", type=int, help="runs of each peer in each cell (default 5; with --quick 1)"
    )
    return parser


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the options."""
    parser = parser_of("python -m benchmarks", __doc__, EXAMPLES, SCENARIOS, PEERS)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write results.json, results.md and the plots",
    )
    parser.add_argument(
        "--redraw",
        type=Path,
        metavar="DIR",
        help="measure nothing; make results.md and the plots from results.json",
    )
    options = parser.parse_args(arguments)
    options.runs = options.runs or (1 if options.quick else 5)
    return options


def stop(*_: object) -> NoReturn:
    """Ctrl-C and SIGTERM: what was started is ended on the way out, which a second one does not cut
    short.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def allow_open_files() -> None:
    """Raise the limit on open files, as far as is allowed, for this process and those it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def measure_all(options: argparse.Namespace, tables: list[Table]) -> None:
    """Append a table for each scenario that was asked for, and print it as soon as it is there."""
    asked = asked_for(options)
    named = {name: peer_of(name) for name in options.peers}
    peers = present({name: peer for name, peer in named.items() if takes_part(peer, asked)})
    with lasting_servers(peers) as servers:
        for scenario in asked:
            if taking_part := willing(scenario, peers):
                tables.append(measure(scenario, taking_part, options.runs, servers))
                print(text(tables[-1]), flush=True)
                say(f"{scenario.name} took {tables[-1].seconds:,.0f} s")
    for peer, seconds in took(tables).items():
        say(f"{peer} took {seconds:,.0f} s")


def takes_part(peer: Peer, asked: list[Scenario]) -> bool:
    """Returns whether it is measured in one of the scenarios."""
    return any(scenario.name in peer.scenarios for scenario in asked)


def asked_for(options: argparse.Namespace) -> list[Scenario]:
    """Those that were named and can be measured here."""
    named = [
        scenario for scenario in scenarios(quick=options.quick) if scenario.name in options.only
    ]
    if not memory.readable() and (skipped := OF_MEMORY.intersection(options.only)):
        say(
            f"{' and '.join(sorted(skipped))}: skipped, because only Linux tells in /proc what a "
            "process occupies"
        )
        return [scenario for scenario in named if scenario.name not in skipped]
    return named


def written(options: argparse.Namespace, directory: Path, tables: list[Table]) -> None:
    """Writes the results."""
    peers = [peer_of(name) for name in options.peers]
    report.write(directory, report.gather(tables, options.runs, peers, quick=options.quick))


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; the exit code."""
    options = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    allow_open_files()
    if "no PGO" in interpreter():
        say(
            "this Python was built without PGO, or does not say so: with it, all that is Python "
            "here is faster"
        )
    tables: list[Table] = []
    try:
        if options.redraw:
            report.write(options.redraw, report.load(options.redraw))
            return 0
        measure_all(options, tables)
    except FileNotFoundError as error:
        say(
            f"nothing to draw: there is no {error.filename}; make one with: python -m benchmarks "
            "--out DIR"
        )
        return 1
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
        if options.out and tables:  # complete results that are there already stay as they are
            written(options, options.out / "interrupted", tables)
            say(f"what was measured is in {options.out / 'interrupted'}")
        return 130
    if options.out:
        written(options, options.out, tables)
    return 1 if any(outcome.failures for table in tables for outcome in table.outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
