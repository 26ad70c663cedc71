"""Peers take turns, A B A B …, so that a machine that slows down slows down all of them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from benchmarks.peers.peer import Peer
from benchmarks.processes import Failed, server
from benchmarks.scenarios import Cell, Figures, Scenario, sized

_numbers = count(1)


@dataclass(slots=True)
class Outcome:
    """What was found for one peer in one cell.

    Attributes:
        peer: its label.
        cell: the cell's label.
        messages: published in a run; 0 where a run lasts a given time.
        figures: of each run, by name.
        failures: what went wrong, in words.
    """

    peer: str
    cell: str
    messages: int
    figures: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def lasting_servers(peers: dict[str, Peer]) -> Iterator[dict[str, int]]:
    """Ports of those servers that serve more than one measurement."""
    with ExitStack() as stack:
        ports: dict[str, int] = {}
        for name, peer in peers.items():
            if peer.lasting:
                try:
                    ports[name] = stack.enter_context(server(peer))
                except Failed as error:  # tried again, and counted as a failure, in its turn
                    say(f"{name}: {error}")
        yield ports


def measure(scenario: Scenario, peers: dict[str, Peer], runs: int) -> list[Outcome]:
    """All runs of a scenario; for each cell the peers in turn."""
    found: list[Outcome] = []
    with lasting_servers(peers) as ports:
        for cell in scenario.cells:
            outcomes = {
                name: Outcome(peer.label, cell.label, sized(cell.job, peer).messages) for name, peer in peers.items()
            }
            found.extend(outcomes.values())
            for number in range(runs):
                for name, outcome in outcomes.items():
                    where = f"{scenario.name}, {cell.label}, run {number + 1} of {runs}, {name}"
                    try:
                        figures = once(cell, name, peers[name], ports)
                    except Failed as error:
                        outcome.failures.append(str(error))
                        say(f"{where}: FAILED: {error}")
                        continue
                    for figure, value in figures.items():
                        outcome.figures.setdefault(figure, []).append(value)
                    say(f"{where}: " + ", ".join(f"{key} {value:,.0f}" for key, value in figures.items()))
    return found


def once(cell: Cell, name: str, peer: Peer, ports: dict[str, int]) -> Figures:
    """One run, with a server of its own unless the peer's server lasts."""
    with ExitStack() as stack:
        port = ports[name] if name in ports else stack.enter_context(server(peer))
        job = replace(sized(cell.job, peer), peer=name, port=port, topic=f"benchmark{next(_numbers)}")
        return cell.measure(job)


def willing(scenario: Scenario, peers: dict[str, Peer]) -> dict[str, Peer]:
    """Those peers that can take part."""
    return {name: peer for name, peer in peers.items() if scenario.name in peer.scenarios}


def present(peers: Sequence[str], all_peers: dict[str, Peer]) -> dict[str, Peer]:
    """Those of the peers whose programs and packages are installed; the others are named on standard error."""
    here = {}
    for name in peers:
        if missing := all_peers[name].missing():
            say(f"{name} is skipped: {missing} is not installed")
        else:
            here[name] = all_peers[name]
    return here
