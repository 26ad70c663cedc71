"""Try every short story on the core, beside its model, and tell the shortest that goes wrong.

What goes wrong at all mostly goes wrong in a small story; so all small ones are tried, one step
longer each time, and each state that they lead to once.
"""

import argparse
import sys
import time
from pathlib import Path

INTERRUPTED = 130  # the exit code after Ctrl-C
SHOWN_SECONDS = 0.2, 10.0  # between two lines of progress: on a screen, and in a file
EXAMPLES = """
examples:
  python -m tests.exploring                                # five steps, each kind of topic
  python -m tests.exploring --steps 6 --kind lossless
  python -m tests.exploring --steps 8 --only "publish, a ms passes, subscribes, takes a turn"
  python -m tests.exploring --list                         # what may happen

exit codes: 0 core and model agree, 1 they do not, 2 wrong options, 130 Ctrl-C
"""


def parse(arguments, kinds, verbs):
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.exploring",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--steps", type=int, default=5, metavar="N", help="of the longest stories (default 5)"
    )
    parser.add_argument(
        "--kind", choices=kinds, action="append", help="of the topic (default: each)"
    )
    parser.add_argument(
        "--only", default="", metavar="VERBS", help="what may happen, separated by commas"
    )
    parser.add_argument("--list", action="store_true", help="print what may happen")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"--steps is {options.steps}; it must be at least 1")
    options.only = [name.strip() for name in options.only.split(",") if name.strip()] or verbs
    unknown = [name for name in options.only if name not in verbs]
    if unknown:
        parser.error(f"--only: there is no {unknown[0]!r}; --list prints all there are")
    return options


class Progress:
    """A line now and then that says how much of the next step is done."""

    def __init__(self, kind):
        self._kind = kind
        self._is_screen = sys.stderr.isatty()
        self._next = time.monotonic() + self._pause

    @property
    def _pause(self):
        on_screen, in_file = SHOWN_SECONDS
        return on_screen if self._is_screen else in_file

    def __call__(self, search):
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._pause
        done, most = search.progress
        line = (
            f"{self._kind}, step {search.covered.steps + 1}: from {done:,} of {most:,} states, "
            f"{search.covered.states:,} known"
        )
        print(line, end=self._end, file=sys.stderr, flush=True)

    @property
    def _end(self):
        return "\033[K\r" if self._is_screen else "\n"

    def clear(self):
        """Take the line away."""
        if self._is_screen:
            print("\033[K", end="", file=sys.stderr, flush=True)


def explore(search, kind, steps):
    """Search, and print what was covered; whether something is wrong."""
    from . import report

    progress = Progress(kind)
    begun = time.perf_counter()
    wrong = None
    try:
        while wrong is None and search.covered.steps < steps:
            wrong = search.go_on(lambda: progress(search))
            progress.clear()
            if wrong is None:
                print(report.covered(kind, search.covered, time.perf_counter() - begun), flush=True)
    except KeyboardInterrupt:
        progress.clear()
        print(f"{kind}: stopped in step {search.covered.steps + 1}", file=sys.stderr)
        raise
    finally:
        print(report.verbs(kind, search.covered), flush=True)
    if wrong:
        print(report.wrong(kind, wrong))
    return wrong is not None


def main(arguments=None):
    """The exit code."""
    try:
        # The model is in a folder of its own; and it takes a while to load, when Ctrl-C may come.
        sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
        from .search import Search
        from .world import KINDS, VERBS

        options = parse(arguments, list(KINDS), list(VERBS))
        if options.list:
            print("\n".join(VERBS))
            return 0
        for kind in options.kind or KINDS:
            if explore(Search(kind, options.only), kind, options.steps):
                return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
