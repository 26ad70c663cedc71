"""Let the broker live through many simulated worlds, and tell which of them shows a fault.

Everything in a world follows from its seed: the same seed shows the same fault, line by line, as
often as you like.
"""

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

INTERRUPTED = 130  # the exit code after Ctrl-C
SHOWN_SECONDS = 0.2  # between two lines of progress
EXAMPLES = """
examples:
  python -m tests.simulation                          # seeds 0 to 99
  python -m tests.simulation --seeds 5000 --from 1000
  python -m tests.simulation --seed 22                # one of them: a fault, and what came before?
  python -m tests.simulation --seed 22 --trace        # all that happens in it
  python -m tests.simulation --seed 22 --record life  # and then: zaichik replay life --step

exit codes: 0 no fault was found, 1 one was, 2 wrong options, 130 Ctrl-C
"""


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seeds", type=int, default=100, metavar="N", help="how many (default 100)"
    )
    parser.add_argument(
        "--from",
        type=int,
        default=0,
        metavar="N",
        dest="first",
        help="the first of them (default 0)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="only this one")
    parser.add_argument("--trace", action="store_true", help="print all that happens; with --seed")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write what its broker does for `zaichik replay`, a file for each boot; with --seed",
    )
    options = parser.parse_args(arguments)
    if options.trace and options.seed is None:
        parser.error("--trace prints one world: name it with --seed N")
    if options.record and options.seed is None:
        parser.error("--record writes one world: name it with --seed N")
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}; it must be at least 1")
    return options


def _undisturbed(run, seed):
    """Live in one world to its end; a Ctrl-C waits for that, inside it could end anywhere, in the
    scheduler too.
    """
    stops = []

    def stop(*_):
        stops.append(True)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one does not wait

    before = signal.signal(signal.SIGINT, stop)
    try:
        outcome = run(seed)
    finally:
        signal.signal(signal.SIGINT, before)
    if stops:
        raise KeyboardInterrupt
    return outcome


class Recordings:
    """The recordings of one world, a file for each life: `FILE`, `FILE.2`, `FILE.3`.

    Args:
        path: the first one.

    Attributes:
        paths: of those that there are.
    """

    def __init__(self, path):
        self._path = path
        self.paths = []
        self._files = ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._files.close()

    def begin(self, boot):
        """A life begins; returns what takes its recording."""
        self.paths.append(self._path if boot == 1 else Path(f"{self._path}.{boot}"))
        file = self._files.enter_context(self.paths[-1].open("wb"))
        return lambda data: file.write(data) == len(data)


def show(run, seed, *, is_traced=True):
    """Print all that happens in one world, or only how it ends; whether there was a fault."""
    outcome = _undisturbed(run, seed)
    for line in outcome.trace.lines() if is_traced else ():
        print(line)
    print(outcome.summary())
    return outcome.anomaly is not None


def search(run, seeds):
    """Go through them up to the first fault; whether there was one."""
    started, shown, simulated, messages = time.perf_counter(), 0.0, 0.0, 0
    is_terminal = sys.stderr.isatty()
    for count, seed in enumerate(seeds, start=1):
        outcome = _undisturbed(run, seed)
        simulated += outcome.seconds
        messages += outcome.messages
        if outcome.anomaly:
            print("\r\033[K" if is_terminal else "", end="", file=sys.stderr)
            print(outcome.report())
            return True
        passed = time.perf_counter() - started
        if is_terminal and (passed - shown > SHOWN_SECONDS or count == len(seeds)):
            shown = passed
            print(
                f"\r\033[K{count} of {len(seeds)} worlds, no fault",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print("\n" if is_terminal else "", end="", file=sys.stderr)
    print(
        f"seeds {seeds[0]} to {seeds[-1]}: no fault in {len(seeds)} worlds, {simulated:,.0f} "
        "simulated seconds and "
        f"{messages:,} deliveries. It took {passed:.1f} s: {len(seeds) / passed:.1f} worlds and "
        f"{simulated / passed:,.0f} simulated seconds a second."
    )
    return False


def main(arguments=None):
    """The exit code."""
    options = parse(arguments)
    try:
        from .scenario import run  # it takes a while to load, and Ctrl-C may come meanwhile

        if options.record:
            with Recordings(options.record) as recordings:
                is_faulty = show(
                    partial(run, record=recordings.begin), options.seed, is_traced=options.trace
                )
            print(f"recorded: {', '.join(map(str, recordings.paths))}")
            return int(is_faulty)
        if options.trace:
            return int(show(run, options.seed))
        if options.seed is not None:
            return int(search(run, range(options.seed, options.seed + 1)))
        return int(search(run, range(options.first, options.first + options.seeds)))
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the trace has seen enough
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
