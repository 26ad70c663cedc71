"""Peers take turns, A B A B …, so that whatever slows the machine down affects all of them."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count

from benchmarks.measures import Figures, told
from benchmarks.outcomes import Outcome, Table
from benchmarks.peers.peer import Peer
from benchmarks.processes import Failed, Server, paused, resumed, say, server
from benchmarks.scenarios import Cell, Scenario, sized

_numbers = count(1)


@contextmanager
def lasting_servers(peers: dict[str, Peer]) -> Iterator[dict[str, Server]]:
    """Starts the servers that take seconds to start, and pauses them until it is their turn.

    Args:
        peers: those that take part; a peer whose server does not start is removed, and the reason
            is printed.
    """
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        for name in [name for name, peer in peers.items() if peer.lasting]:
            try:
                servers[name] = stack.enter_context(server(peers[name]))
            except Failed as error:
                del peers[name]
                say(f"{name} is skipped: {error}")
            else:
                stack.enter_context(paused(servers[name][1]))
        yield servers


def measure(
    scenario: Scenario, peers: dict[str, Peer], runs: int, lasting: dict[str, Server]
) -> Table:
    """All runs of a scenario; for each cell the peers in turn."""
    begin = time.monotonic()
    runs = min(runs, scenario.most_runs or runs)
    found: list[Outcome] = []
    for cell in scenario.cells:
        outcomes = {
            name: Outcome(
                peer.label, cell.label, sized(cell.job, peer).messages, limit=peer.is_limit
            )
            for name, peer in peers.items()
        }
        found.extend(outcomes.values())
        for name in [name for name, peer in peers.items() if peer.warms_up]:
            with suppress(Failed):  # it will fail again where failures count
                once(cell, name, peers[name], lasting.get(name))
        for number in range(runs):
            for name, outcome in outcomes.items():
                where = f"{scenario.name}, {cell.label}, run {number + 1} of {runs}, {name}"
                note(outcome, where, partial(once, cell, name, peers[name], lasting.get(name)))
    seconds = round(time.monotonic() - begin, 1)
    keeps = {peer.label: peer.keeps for peer in peers.values()}
    return Table(scenario.name, scenario.title, scenario.unit, seconds, found, keeps)


def note(outcome: Outcome, where: str, run: Callable[[], Figures]) -> None:
    """Measures once, and records the figures or the failure."""
    begin = time.monotonic()
    try:
        figures = run()
    except Failed as error:
        outcome.failures.append(str(error))
        say(f"{where}: FAILED: {error}")
        return
    finally:
        outcome.seconds += time.monotonic() - begin
    for figure, value in figures.items():
        outcome.figures.setdefault(figure, []).append(value)
    say(f"{where}: " + ", ".join(f"{key} {value:,.0f}" for key, value in figures.items()))


def once(cell: Cell, name: str, peer: Peer, lasting: Server | None) -> Figures:
    """One run, with servers of its own unless the peer's server lasts."""
    job = replace(sized(cell.job, peer), peer=name, topic=f"benchmark{next(_numbers)}")
    job, measure = (
        (replace(job, role=peer.own_role), told) if peer.own_role else (job, cell.measure)
    )
    with ExitStack() as stack:
        if lasting:
            stack.enter_context(resumed(lasting[1]))
            servers = [lasting]
        else:
            number = cell.servers if peer.has_server else 0
            servers = [stack.enter_context(server(peer)) for _ in range(number)]
        return measure(replace(job, port=servers[0][0] if servers else 0, servers=servers))


def willing(scenario: Scenario, peers: dict[str, Peer]) -> dict[str, Peer]:
    """Those peers that can take part."""
    return {name: peer for name, peer in peers.items() if scenario.name in peer.scenarios}


def present(peers: dict[str, Peer]) -> dict[str, Peer]:
    """Returns the peers that are installed, or could be obtained; for the others, prints the
    reason.
    """
    here = {}
    for name, peer in peers.items():
        if reason := why_absent(peer):
            say(f"{name} is skipped: {reason}")
        else:
            here[name] = peer
    return here


def why_absent(peer: Peer) -> str:
    """Returns the reason why this peer cannot be measured; "" if it can, after fetching what it
    needs.
    """
    missing = peer.missing()
    return f"{missing} is not installed" if missing else peer.obtain()
