"""The log of commands that serve: how much of it there is, and for whom."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from zaichik.cli import log, screen
from zaichik.cli.arguments import Namespace, argument

LEVEL = argument("--log-level LEVEL", ", ".join(log.LEVELS), choices=log.LEVELS, default="info")
FORMAT = argument(
    "--log-format",
    "json: one object per line, with stable names for programs",
    choices=("text", "json"),
    default="text",
)
OPTIONS = LEVEL, FORMAT


@contextmanager
def written(arguments: Namespace) -> Iterator[None]:
    """Writes the log to standard error during the block, and never makes the command wait."""
    level, as_json = (
        log.LEVELS[arguments.log_level],
        getattr(arguments, "log_format", "text") == "json",
    )
    out = log.unbuffered(sys.stderr)
    target = screen.log_handler(level, out, as_json=as_json)
    with log.written_beside(target, out) as handler, screen.logging_to(handler, level):
        yield
