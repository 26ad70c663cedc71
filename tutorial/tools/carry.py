"""Carries what was changed in one step into all later steps that still have the old text.

    python tutorial/tools/carry.py           # what has changed since the last commit
    python tutorial/tools/carry.py REVISION  # since another one

A step stores whole files, so a function that many steps share is there many times. Change it where it is first, run
this, and read what it reports: parts that a later step has in another form are left alone, since only you know.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import parts

from zaichik.learn import snapshots
from zaichik.learn.chapters import CHAPTERS

Step = tuple[str, Path]  # how it is called, and its folder


def all_steps() -> list[Step]:
    """All that build on one another, in order."""
    chapters = [chapter for chapter in CHAPTERS.values() if not snapshots.is_apart(chapter)]
    return [(f"{chapter.folder}/{step}", chapter.path / step)
            for chapter in chapters for step in snapshots.steps(chapter.path)]  # fmt: skip


def carry(before: str, after: str, later: str) -> tuple[str, list[str]]:
    """A later text of a file with the changes made that were made from one text to another.

    Returns:
        the text, and the parts that must be looked at by a person.
    """
    open_parts = []
    for name in sorted(parts.changes(before, after)):
        old, new, there = (_part(source, name) for source in (before, after, later))
        if there == new:
            continue
        if old and new and there == old:
            later = parts.replace(later, name, new)
        else:
            open_parts.append(name)
    return later, open_parts


def _part(source: str, name: str) -> str:
    return parts.part(source, name) if source and name in parts.spans(source) else ""


def carry_all(steps: list[Step], revision: str) -> Iterator[str]:
    """Carry all changes, from the first step to the last. Yields what was done and what is left, in lines."""
    changed = [  # before anything is carried
        (place, path, _committed(path, revision), path.read_text(encoding="utf-8"))
        for place, (_, folder) in enumerate(steps)
        for path in sorted(folder.glob("*.py"))
    ]
    for place, path, before, after in changed:
        if before and before != after:
            name = steps[place][0]
            for later_name, later_folder in _continuing(steps, place):
                target = later_folder / path.name
                if not target.exists():
                    continue
                text = target.read_text(encoding="utf-8")
                carried, left = carry(before, after, text)
                if carried != text:
                    target.write_text(carried, encoding="utf-8")
                    yield f"{path.name}: carried from {name} to {later_name}"
                for part in left:
                    yield f"{path.name}: look at {part} in {later_name}, which has its own"


def _continuing(steps: list[Step], place: int) -> list[Step]:
    """The later steps that build on one: of an optional chapter, only its own."""
    chapter = steps[place][1].parent
    later = steps[place + 1 :]
    if snapshots.facts(chapter).get("optional"):
        later = [(name, folder) for name, folder in later if folder.parent == chapter]
    return later


def _committed(path: Path, revision: str) -> str:
    shown = subprocess.run(  # noqa: S603 (the words are ours, and a revision)
        ["git", "show", f"{revision}:./{path.name}"],  # noqa: S607
        cwd=path.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return shown.stdout


if __name__ == "__main__":
    for line in carry_all(all_steps(), sys.argv[1] if len(sys.argv) > 1 else "HEAD"):
        sys.stdout.write(f"{line}\n")
