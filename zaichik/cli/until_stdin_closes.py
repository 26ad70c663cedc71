"""The option of commands that `zaichik serve` starts beside itself, and that end with it."""

import argparse
import os
import sys

import anyio

from zaichik.cli.arguments import argument

OPTION = argument("--until-stdin-closes", argparse.SUPPRESS)


async def stop_when_closed(stop: anyio.Event) -> None:
    """Set the event when standard input ends.

    The pipe closes with its other process, however that ends.
    """
    while True:
        await anyio.wait_readable(sys.stdin)
        if not os.read(sys.stdin.fileno(), 1024):
            stop.set()
            return
