"""What faults and hostile clients cost, measured with real processes.

    python benchmarks/reliability.py                      # some minutes
    python benchmarks/reliability.py --quick              # small: does it run?
    python benchmarks/reliability.py --only isolation

connections   as many as a broker may have: memory of each, time to connect all, and to reconnect
              all at once
isolation     what clients get beside each attack, as ratios to the same attack on another broker:
              ten minutes; for a table, or only some attacks: python -m benchmarks.isolation --help
descriptors   a broker out of file descriptors: its share of a processor, seconds until it accepts
              again
drain         seconds a broker takes to stop beside stuck peers
cuts          messages sent through a proxy that cuts connections: number of cuts, of lost and of
              duplicate messages

Each figure is the median of the runs, with the lowest and the highest.
Linux only: memory and processor time are read from /proc.
"""

import argparse
import logging
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import anyio

ROOT = Path(__file__).parent.parent
sys.path[:0] = [
    str(ROOT),
    str(ROOT / "tests" / "chaos"),
]  # the processes and the proxy are those of the tests

from crowds import LIMIT, all_come, all_come_back, crowds  # noqa: E402
from resuming import WRITERS, run_through_cuts  # noqa: E402
from rude import greeted, is_served, knock  # noqa: E402
from served import eventually, served  # noqa: E402
from stuck import stuck_peers  # noqa: E402

from benchmarks.isolation import Options, chosen, measure  # noqa: E402
from benchmarks.memory import private_bytes  # noqa: E402
from benchmarks.processes import Failed, say  # noqa: E402
from zaichik.core.settings import connection_sockets  # noqa: E402

Figures = dict[str, list[float]]


def note(figures: Figures, **found: float) -> None:
    """Record the figures of a run, and print them."""
    for name, value in found.items():
        figures.setdefault(name.replace("_", " "), []).append(value)
    say("  " + ", ".join(f"{name.replace('_', ' ')} {value:,.3g}" for name, value in found.items()))


async def connections(figures: Figures, runs: int, *, quick: bool) -> None:
    """As many connections as the broker allows."""
    each = 100 if quick else min(9_800, connection_sockets(LIMIT)) // 3 - 2
    for _ in range(runs):
        with ExitStack() as stack, served("--log-level", "warning", descriptors=LIMIT) as broker:
            before, begin = private_bytes(broker.pid), time.monotonic()
            processes = crowds(stack, broker.port, [each] * 3)
            await all_come(processes)
            came, memory = time.monotonic(), private_bytes(broker.pid) - before
            await all_come_back(processes)
            back = time.monotonic()
            for process in processes:
                process.kill()
        note(figures, connections=3 * each, bytes_each=memory / each / 3)
        note(
            figures,
            seconds_until_all_are_there=came - begin,
            seconds_until_all_are_back=back - came,
        )


async def isolation(figures: Figures, runs: int, *, quick: bool) -> None:
    """Clients beside each attack, and its control."""
    few = Options(chosen(["pings"], [2]), seconds=0.2, rounds=runs)
    for row in measure(few if quick else Options(chosen(), rounds=runs)):
        for figure in ("awaited", "stream"):
            figures[f"{row.attack} x {row.connections}: {figure}, ratio to control"] = row.ratios(
                figure
            )


async def descriptors(figures: Figures, runs: int, *, quick: bool) -> None:
    """Measure a broker without descriptors while fifty clients keep connecting."""
    seconds = 1 if quick else 10
    for _ in range(runs):
        with served() as broker:
            async with AsyncExitStack() as stack, anyio.create_task_group() as strangers:
                for _ in range(20):
                    await stack.enter_async_context(greeted(broker.port))
                broker.limit_descriptors(broker.descriptors)
                for _ in range(50):
                    strangers.start_soon(knock, broker.port)
                await eventually(lambda: "turned away" in broker.log)
                used = broker.processor_seconds
                await anyio.sleep(seconds)
                used = broker.processor_seconds - used
                strangers.cancel_scope.cancel()
            begin = time.monotonic()
            while not await is_served(broker.port):
                pass
            note(
                figures,
                processor_share=used / seconds,
                seconds_until_it_accepts=time.monotonic() - begin,
            )


async def drain(figures: Figures, runs: int, *, quick: bool) -> None:
    """SIGTERM beside peers that neither read nor end their frames."""
    del quick
    for _ in range(runs):
        async with AsyncExitStack() as stack:
            broker = stack.enter_context(served())
            await stuck_peers(broker.port, stack)
            begin = time.monotonic()
            broker.process.terminate()
            code = await broker.ended()
            note(figures, exit_code=code, seconds_until_it_has_ended=time.monotonic() - begin)


async def cuts(figures: Figures, runs: int, *, quick: bool) -> None:
    """Three writers and a reader that reconnect; the ledgers are kept by the clients."""
    messages = 3_000 if quick else 100_000
    for run in range(runs):
        with served("--log-level", "warning") as broker:
            outcome = await run_through_cuts(
                broker.port, messages // WRITERS, lasting=True, seed=run, at_most=100_000
            )
        ledger = outcome.ledger
        note(
            figures,
            messages=ledger.acknowledged,
            cuts=outcome.cuts,
            acknowledged_and_lost=ledger.missing,
        )
        note(figures, stored_twice=outcome.stored - ledger.acknowledged)


PARTS: dict[str, Callable[..., Awaitable[None]]] = {
    part.__name__: part for part in (connections, isolation, descriptors, drain, cuts)
}


def show(name: str, figures: Figures) -> None:
    """A table: medians, and the lowest and highest of the runs."""
    print(f"\n{name}")
    for figure, values in figures.items():
        low, middle, high = (
            number(value) for value in (min(values), statistics.median(values), max(values))
        )
        print(f"  {figure:62} {middle:>10}   ({low} to {high}, {len(values)} runs)")


def number(value: float) -> str:
    """Three digits, or all of a whole number."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def main(words: Iterable[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python benchmarks/reliability.py",
    )
    parser.add_argument(
        "--only",
        choices=PARTS,
        nargs="+",
        default=list(PARTS),
        metavar="NAME",
        help=", ".join(PARTS),
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="runs of each figure (default: %(default)s)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one small run: does it work, not how fast"
    )
    options = parser.parse_args(None if words is None else list(words))
    if not Path("/proc/self/smaps_rollup").exists():
        parser.error(
            "this system has no /proc/PID/smaps_rollup, where memory is read; run it on Linux"
        )
    logging.getLogger("zaichik").setLevel(
        logging.ERROR
    )  # clients whose connection is cut say so each time
    found: dict[str, Figures] = {}
    try:
        for name in options.only:
            say(name)
            figures = found.setdefault(name, {})
            anyio.run(
                partial(
                    PARTS[name], figures, 1 if options.quick else options.runs, quick=options.quick
                )
            )
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except Failed as error:
        say(str(error))
        return 1
    for name, figures in found.items():
        show(name, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
