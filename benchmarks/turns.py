"""Peers take turns, A B A B …, so that whatever slows the machine down affects all of them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count

from benchmarks.measures import Figures, told
from benchmarks.peers.peer import Peer
from benchmarks.processes import Failed, say, server
from benchmarks.scenarios import Cell, Scenario, sized
from benchmarks.tables import Outcome, Table

_numbers = count(1)


@contextmanager
def lasting_servers(peers: dict[str, Peer]) -> Iterator[dict[str, tuple[int, int]]]:
    """Ports and process ids of those servers that serve more than one measurement."""
    with ExitStack() as stack:
        servers: dict[str, tuple[int, int]] = {}
        for name, peer in peers.items():
            if peer.lasting:
                try:
                    servers[name] = stack.enter_context(server(peer))
                except Failed as error:  # tried again, and counted as a failure, in its turn
                    say(f"{name}: {error}")
        yield servers


def measure(scenario: Scenario, peers: dict[str, Peer], runs: int) -> Table:
    """All runs of a scenario; for each cell the peers in turn."""
    begin = time.monotonic()
    found: list[Outcome] = []
    with lasting_servers(peers) as lasting:
        for cell in scenario.cells:
            outcomes = {
                name: Outcome(peer.label, cell.label, sized(cell.job, peer).messages, limit=peer.is_limit)
                for name, peer in peers.items()
            }
            found.extend(outcomes.values())
            for number in range(runs):
                for name, outcome in outcomes.items():
                    where = f"{scenario.name}, {cell.label}, run {number + 1} of {runs}, {name}"
                    try:
                        figures = once(cell, name, peers[name], lasting.get(name))
                    except Failed as error:
                        outcome.failures.append(str(error))
                        say(f"{where}: FAILED: {error}")
                        continue
                    for figure, value in figures.items():
                        outcome.figures.setdefault(figure, []).append(value)
                    say(f"{where}: " + ", ".join(f"{key} {value:,.0f}" for key, value in figures.items()))
    seconds = round(time.monotonic() - begin, 1)
    return Table(scenario.name, scenario.title, scenario.unit, seconds, found)


def once(cell: Cell, name: str, peer: Peer, lasting: tuple[int, int] | None) -> Figures:
    """One run, with servers of its own unless the peer's server lasts."""
    job = replace(sized(cell.job, peer), peer=name, topic=f"benchmark{next(_numbers)}")
    if not peer.has_server:
        return told(replace(job, role=name))
    with ExitStack() as stack:
        servers = [lasting] if lasting else [stack.enter_context(server(peer)) for _ in range(cell.servers)]
        return cell.measure(replace(job, port=servers[0][0], servers=servers))


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
