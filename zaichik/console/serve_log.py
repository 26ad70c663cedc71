"""The log of `zaichik serve`: how much of it there is, and for whom."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from zaichik.console import log, screen


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--log-level` and `--log-format`."""
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        choices=log.LEVELS,
        default="info",
        help=f"{', '.join(log.LEVELS)} (default: info)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="json: one object per line, with stable names for programs (default: text)",
    )


@contextmanager
def written(arguments: argparse.Namespace) -> Iterator[None]:
    """The log is written to standard error as long as the block lasts, and never makes the broker wait."""
    level, as_json = log.LEVELS[arguments.log_level], arguments.log_format == "json"
    target = screen.log_handler(level, log.unbuffered(sys.stderr), as_json=as_json)
    with log.written_beside(target) as handler, screen.logging_to(handler, level):
        yield
