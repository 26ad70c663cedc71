"""`zaichik check`: reads every byte of the durable topics in a folder, and says what is wrong."""

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from anyio import to_thread
from rich.console import Console

from zaichik.console import screen
from zaichik.console.failure import Failure
from zaichik.escapes import shown
from zaichik.log.checking import Checked, check
from zaichik.log.disk import PosixDisk
from zaichik.log.segment import NewerFormat
from zaichik.log.store import TOPICS, CannotOpen, locked

DESCRIPTION = """\
Read every byte of the durable topics in a folder, and compare the checksums. Nothing is changed. No broker may be
using the folder: stop it first. The exit code is 1 if anything is wrong.
"""

EPILOG = """\
examples:
  zaichik check ./topics
  zaichik check ./topics --json              # one JSON object for each topic
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `zaichik check`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder that the broker was given as --data")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each topic")


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Check the folder. Returns 1 if anything is wrong."""
    folder: Path = arguments.folder
    if not (folder / TOPICS).is_dir():
        raise Failure(f"{folder} holds no durable topics: it has no folder {TOPICS}")
    found = await to_thread.run_sync(_checked, folder)
    for topic in found:
        if arguments.json:
            screen.print_json(asdict(topic))
        else:
            _print(console, topic)
    if not found and not arguments.json:
        console.print("there are no durable topics")
    return int(any(topic.problems for topic in found))


def _checked(folder: Path) -> list[Checked]:
    try:
        lock = locked(folder)
    except CannotOpen as error:
        raise Failure(str(error), error.code) from error
    try:
        return list(check(PosixDisk(folder)))
    except NewerFormat as error:
        raise Failure(str(error), os.EX_CONFIG) from error
    finally:
        os.close(lock)


def _print(console: Console, topic: Checked) -> None:
    name = shown(topic.topic) if topic.topic else f"folder {shown(topic.folder)}"
    verdict = "whole" if not topic.problems else "NOT WHOLE"
    rows = [
        ("messages", f"{topic.messages:,}"),
        ("offsets", f"{topic.first} to {topic.end - 1}" if topic.end > topic.first else "none"),
        ("size", screen.setting("bytes", topic.bytes)),
        ("files", str(topic.files)),
        *(("problem", shown(problem)) for problem in topic.problems),
    ]
    screen.print_rows(console, f"{name}: {verdict}", rows)
