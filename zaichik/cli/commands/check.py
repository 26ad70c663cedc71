"""`zaichik check`: reads every byte of the durable topics in a folder, and repairs on request.

Read every byte of the durable topics in a folder, and verify the checksums. No broker may be using
the folder, so stop it first. Nothing is changed unless you add --repair: then the messages that are
damaged are given up, their offsets stay empty, readers are told how many messages they have missed,
and the topic takes messages again. Every damaged file is kept as NAME.damaged. Repair as the user
that the broker runs as. The exit code is 1 if anything is wrong, or after a repair, if anything
could not be repaired.

Examples:
  zaichik check ./topics
  zaichik check ./topics --json              # one JSON object for each topic
  zaichik check ./topics --repair            # check first, and copy the folder
"""

import os
from pathlib import Path
from typing import Any

from anyio import to_thread
from rich.console import Console

from zaichik.base.escapes import shown
from zaichik.cli import interrupts, screen
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.failure import Failure
from zaichik.storage.disk import DiskFull, StorageFailed
from zaichik.storage.ownership import foreign_owner
from zaichik.storage.repair.checking import Checked, check
from zaichik.storage.repair.repairing import repair
from zaichik.storage.repair.salvage import PatientDisk
from zaichik.storage.segment import NewerFormat
from zaichik.storage.store import TOPICS, CannotOpen, exclusive_lock, shared_lock

ARGUMENTS = (
    argument("DIR", "the folder that the broker was given as --data", Path, dest="folder"),
    argument("--json", "print one JSON object for each topic"),
    argument("--repair", "give up what is damaged, so that the rest can be used"),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Check the folder, and repair it if that is asked for. Returns 1 if anything is wrong then."""
    folder: Path = arguments.folder
    if not (folder / TOPICS).is_dir():
        raise Failure(
            f"{folder} has no folder {TOPICS}, so no durable topics; name the broker's --data "
            "folder"
        )
    if arguments.repair:
        # What was begun is finished before Ctrl-C ends the command.
        found = await to_thread.run_sync(_checked, folder, True)
    else:
        with interrupts.at_once():
            found = _checked(folder, is_repair=False)
    for topic in found:
        report = _report(topic, repaired=arguments.repair and not topic.hopeless)
        if arguments.json:
            screen.print_json(report)
        else:
            _print(console, topic, report)
    if not found and not arguments.json:
        console.print("there are no durable topics")
    return int(any(topic.hopeless or (topic.problems and not arguments.repair) for topic in found))


def _checked(folder: Path, is_repair: bool) -> list[Checked]:  # noqa: FBT001
    owner = foreign_owner(folder / TOPICS)
    if is_repair and owner:
        problem = (
            f"{folder} belongs to {owner}: repair it as that user, or its broker cannot read the "
            "new files"
        )
        raise Failure(problem, os.EX_NOPERM)
    try:
        lock = exclusive_lock(folder) if is_repair else shared_lock(folder)
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
        raise Failure(
            f"the repair is not complete: {error}; fix that, and run it again", os.EX_IOERR
        ) from error
    else:
        return found
    finally:
        lock.release()


def _report(topic: Checked, *, repaired: bool) -> dict[str, Any]:
    segments = [part.segment for part in topic.parts]
    lost = list(topic.lost)
    if repaired:
        lost += topic.damaged
    messages_lost = sum(to - base for base, to in lost)
    name = ""
    if topic.topic:
        name = topic.topic.name
    first = 0
    end = 0
    if segments:
        first = segments[0].base
        end = topic.parts[-1].end
    return {
        "folder": topic.folder.removeprefix(f"{TOPICS}/"),
        "topic": name,
        "messages": topic.messages,
        "lost": messages_lost,
        "bytes": sum(segment.size for segment in segments),
        "files": len(segments),
        "first": first,
        "end": end,
        "problems": topic.problems,
        "hopeless": topic.hopeless,
        "repaired": bool(repaired and topic.problems),
    }


def _print(console: Console, topic: Checked, report: dict[str, Any]) -> None:
    name = shown(report["topic"]) if report["topic"] else f"folder {shown(report['folder'])}"
    if report["repaired"]:
        verdict = "repaired"
    elif topic.problems or topic.hopeless:
        verdict = "NOT WHOLE"
    else:
        verdict = "whole"
    offsets = "none"
    if report["end"] > report["first"]:
        offsets = f"{report['first']} to {report['end'] - 1}"
    rows = [("messages", f"{report['messages']:,}"), ("offsets", offsets)]
    if report["lost"]:
        rows.append(("lost", f"{report['lost']:,}"))
    rows.append(("size", screen.setting("bytes", report["bytes"])))
    rows.append(("files", str(report["files"])))
    rows += [("problem", shown(problem)) for problem in topic.problems]
    rows += [("cannot be repaired", shown(problem)) for problem in topic.hopeless]
    screen.print_rows(console, f"{name}: {verdict}", rows)
