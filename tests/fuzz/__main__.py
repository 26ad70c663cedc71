"""The command line of the fuzzing; see the package's text."""

import argparse
import random
import sys
from time import monotonic

from . import campaign, conversation, decoder, mqtt

TARGETS = {"decoder": decoder, "conversation": conversation, "mqtt": mqtt}
EXAMPLES = """
examples:
  python -m tests.fuzz                                 # 100 000 inputs for each, seed by chance
  python -m tests.fuzz --inputs 1000000 --seed 7 decoder
  python -m tests.fuzz mqtt                            # MQTT's decoder only
  python -m tests.fuzz conversation --replay 0:1c000000... +1000 t0   # what a failure has printed
"""


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Send bytes that nobody means to a decoder, or to a broker, and see whether "
        "anything breaks.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", nargs="?", choices=TARGETS, help="default: all, one after the other"
    )
    parser.add_argument(
        "--inputs", type=int, default=100_000, metavar="N", help="of each (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="which inputs; by default others each time"
    )
    parser.add_argument("--replay", nargs="+", metavar="ENTRY", help="try these instead")
    options = parser.parse_args(arguments)
    if options.inputs < 1:
        parser.error(f"--inputs is {options.inputs}; it must be at least 1")
    if options.replay and options.target is None:
        parser.error(f"--replay needs to know for what: {', '.join(TARGETS)}")
    return options


class Progress:
    """A line a second on a screen, one in ten seconds in a file."""

    def __init__(self, name, inputs):
        self._name, self._inputs = name, inputs
        self._is_screen = sys.stderr.isatty()
        self._next = monotonic() + 1

    def __call__(self, done, seconds):
        if monotonic() >= self._next:
            self._next = monotonic() + (1 if self._is_screen else 10)
            line = f"{self._name}: {done:,} of {self._inputs:,} inputs, {done / seconds:,.0f}/s"
            print(line, end="\r" if self._is_screen else "\n", file=sys.stderr, flush=True)


def fuzz(name, inputs, seed):
    """Try so many inputs; the exit code."""
    try:
        done, seconds = campaign.run(TARGETS[name], inputs, seed, Progress(name, inputs))
    except campaign.Failure as failure:
        print(
            f"{name}, seed {seed}: {type(failure.error).__name__}: {failure.error}", file=sys.stderr
        )
        print(f"python -m tests.fuzz {name} --replay {' '.join(failure.log)}")
        return 1
    print(
        f"{name}: {done:,} inputs, seed {seed}, {seconds:.0f} s, {done / seconds:,.0f}/s: nothing "
        "found"
    )
    return 0


def main(arguments=None):
    """The exit code: 0, nothing found; 1, something; 130, stopped with Ctrl-C."""
    options = parse(arguments)
    try:
        if options.replay:
            TARGETS[options.target].replay(options.replay)
            print("nothing found")
            return 0
        seed = random.randrange(2**32) if options.seed is None else options.seed
        return max(
            fuzz(name, options.inputs, seed) for name in TARGETS if options.target in (None, name)
        )
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
