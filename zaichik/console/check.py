"""`zaichik check`: reads every byte of the durable topics in a folder, says what is wrong, and repairs it if asked.

Read every byte of the durable topics in a folder, and verify the checksums. No broker may be using the folder, so stop
it first. Nothing is changed unless you add --repair: then the messages that are damaged are given up, their offsets
stay empty, readers are told how many messages they have missed, and the topic takes messages again. Every damaged file
is kept as NAME.damaged. Repair as the user that the broker runs as. The exit code is 1 if anything is wrong, or after
a repair, if anything could not be repaired.

Examples:
  zaichik check ./topics
  zaichik check ./topics --json              # one JSON object for each topic
  zaichik check ./topics --repair            # check first, and copy the folder
"""

import fcntl
import os
from pathlib import Path
from typing import Any

from anyio import to_thread
from rich.console import Console

from zaichik.console import screen
from zaichik.console.arguments import Namespace, argument
from zaichik.console.failure import Failure
from zaichik.escapes import shown
from zaichik.log.disk import DiskFull, StorageFailed
from zaichik.log.segment import NewerFormat
from zaichik.log.store import TOPICS, CannotOpen, locked
from zaichik.repair.checking import Checked, check
from zaichik.repair.repairing import repair
from zaichik.repair.salvage import PatientDisk

ARGUMENTS = (
    argument("DIR", "the folder that the broker was given as --data", Path, dest="folder"),
    argument("--json", "print one JSON object for each topic"),
    argument("--repair", "give up what is damaged, so that the rest can be used"),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Check the folder, and repair it if that is asked for. Returns 1 if anything is wrong then."""
    folder: Path = arguments.folder
    if not (folder / TOPICS).is_dir():
        raise Failure(f"{folder} has no folder {TOPICS}, so no durable topics; name the broker's --data folder")
    found = await to_thread.run_sync(_checked, folder, arguments.repair)
    for topic in found:
        told = _told(topic, repaired=arguments.repair and not topic.hopeless)
        if arguments.json:
            screen.print_json(told)
        else:
            _print(console, topic, told)
    if not found and not arguments.json:
        console.print("there are no durable topics")
    return int(any(topic.hopeless or (topic.problems and not arguments.repair) for topic in found))


def _checked(folder: Path, is_repair: bool) -> list[Checked]:  # noqa: FBT001
    owner = (folder / TOPICS).stat().st_uid
    if is_repair and owner and not os.geteuid():
        problem = f"{folder} belongs to user {owner}: repair it as that user, or its broker cannot read the new files"
        raise Failure(problem, os.EX_NOPERM)
    try:
        lock = locked(folder) if is_repair else _looked_at(folder)
    except CannotOpen as error:
        raise Failure(str(error), error.code) from error
    try:
        disk = PatientDisk(folder)
        found = list(check(disk))  # before anything is changed, see that this version can
        for topic in found if is_repair else ():
            repair(disk, topic)
    except NewerFormat as error:
        raise Failure(str(error), os.EX_CONFIG) from error
    except (DiskFull, StorageFailed) as error:
        raise Failure(f"the repair is not complete: {error}; fix that, and run it again", os.EX_IOERR) from error
    else:
        return found
    finally:
        if lock >= 0:
            os.close(lock)


def _looked_at(folder: Path) -> int:
    """Keep brokers out, without writing anything. Returns the lock; -1 if no broker has ever used the folder."""
    try:
        lock = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise CannotOpen(f"a broker uses {folder}; stop it first", os.EX_CANTCREAT) from error
    return lock


def _told(topic: Checked, *, repaired: bool) -> dict[str, Any]:
    segments, lost = [part.segment for part in topic.parts], topic.lost + (topic.damaged if repaired else [])
    return {
        "folder": topic.folder.removeprefix(f"{TOPICS}/"),
        "topic": topic.topic.name if topic.topic else "",
        "messages": topic.messages,
        "lost": sum(to - base for base, to in lost),
        "bytes": sum(segment.size for segment in segments),
        "files": len(segments),
        "first": segments[0].base if segments else 0,
        "end": topic.parts[-1].end if segments else 0,
        "problems": topic.problems,
        "hopeless": topic.hopeless,
        "repaired": bool(repaired and topic.problems),
    }


def _print(console: Console, topic: Checked, told: dict[str, Any]) -> None:
    name = shown(told["topic"]) if told["topic"] else f"folder {shown(told['folder'])}"
    verdict = "repaired" if told["repaired"] else "NOT WHOLE" if topic.problems or topic.hopeless else "whole"
    rows = [
        ("messages", f"{told['messages']:,}"),
        ("offsets", f"{told['first']} to {told['end'] - 1}" if told["end"] > told["first"] else "none"),
        *([("lost", f"{told['lost']:,}")] if told["lost"] else []),
        ("size", screen.setting("bytes", told["bytes"])),
        ("files", str(told["files"])),
        *(("problem", shown(problem)) for problem in topic.problems),
        *(("cannot be repaired", shown(problem)) for problem in topic.hopeless),
    ]
    screen.print_rows(console, f"{name}: {verdict}", rows)
