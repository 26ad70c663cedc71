"""Measure zaichik and other brokers side by side on this machine.

Starts every server itself, on a free loopback port with a private directory, and ends only what it has started.
Peers that are not installed are skipped. The peers take turns; shown is the median of all runs, with the lowest and
the highest. Each message is counted where it arrives: one that is missing is an error, and the exit code is 1.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from benchmarks import report
from benchmarks.peers.peer import Peer
from benchmarks.roles import peer_of
from benchmarks.scenarios import scenarios
from benchmarks.turns import measure, present, say, willing

PEERS = ["zaichik", "zaichik_calls", "nats", "redis_pubsub", "redis_streams", "mosquitto", "rabbitmq", "limit"]
SCENARIOS = [scenario.name for scenario in scenarios(quick=True)]
EXAMPLES = """
examples:
  python -m benchmarks                                   # everything; about half an hour
  python -m benchmarks --quick                           # everything, small: does it work?
  python -m benchmarks --only throughput fanout --runs 9
  python -m benchmarks --only roundtrip --peers zaichik nats
  python -m benchmarks --out benchmarks/results          # also writes results.json, results.md and plots

scenarios: """ + ", ".join(SCENARIOS)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="few messages and one run: shows that it works, not how fast"
    )
    parser.add_argument("--only", nargs="+", metavar="SCENARIO", choices=SCENARIOS, default=SCENARIOS)
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=PEERS, default=PEERS, help=", ".join(PEERS))
    parser.add_argument("--runs", type=int, help="runs of each peer in each cell (default 5; with --quick 1)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write results.json, results.md and the plots")
    options = parser.parse_args(arguments)
    options.runs = options.runs or (1 if options.quick else 5)
    return options


def stop(*_: object) -> NoReturn:
    """Ctrl-C and SIGTERM: what was started is ended on the way out, which a second one does not cut short."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; the exit code."""
    options = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    peers: dict[str, Peer] = present(options.peers, {name: peer_of(name) for name in options.peers})
    tables: list[report.Table] = []
    failed = False
    try:
        for scenario in scenarios(quick=options.quick):
            taking_part = willing(scenario, peers) if scenario.name in options.only else {}
            if taking_part:
                outcomes = measure(scenario, taking_part, options.runs)
                failed = failed or any(outcome.failures for outcome in outcomes)
                tables.append(report.Table(scenario.name, scenario.title, scenario.unit, outcomes))
                print(report.text(tables[-1]), flush=True)
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
        return 130
    if options.out:
        report.write(options.out, tables, options.runs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
