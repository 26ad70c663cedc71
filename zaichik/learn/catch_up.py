"""Going to a chapter of the tutorial: its experiments and exercises, and on request the program it begins or ends with.

Nothing of the learner's is lost: a file that would be overwritten with something else is kept under another name.
"""

from itertools import count
from pathlib import Path

from zaichik.learn import config, progress, snapshots
from zaichik.learn.chapters import CHAPTERS, TUTORIAL, Chapter
from zaichik.learn.folder import PYTHON_COMMAND, TOML
from zaichik.learn.stages import STAGES

START, END = "start", snapshots.END


class NoSuchChapter(Exception):
    """There is no such chapter, or it is not written, or not here; the text says so."""


def chapter(word: str) -> Chapter:
    """The chapter that a number such as 02 means.

    Raises:
        NoSuchChapter: it means none that can be gone to.
    """
    if not TUTORIAL.is_dir():
        raise NoSuchChapter("the tutorial is in a clone of the project; this is an installed copy")
    written = [each for each in CHAPTERS.values() if each.text.exists()]
    found = next((each for each in written if word.isdecimal() and each.number == int(word)), None)
    if found is None:
        there = ", ".join(f"{each.number:02}" for each in written)
        raise NoSuchChapter(f"there is no chapter {word}; there are {there}")
    return found


def go(where: Chapter, folder: Path, program: str = "") -> list[str]:
    """Bring what a chapter needs into the learner's folder.

    Args:
        where: the chapter.
        folder: the learner's.
        program: START or END for the program as it is there; "" leaves the learner's own as it is.

    Returns:
        what was done, in sentences.

    Raises:
        NoSuchChapter: the programs are not in this copy.
    """
    said = []
    brought = {START: snapshots.before, END: snapshots.program}
    if program:
        texts = brought[program](where)
        begins_empty = program == START and snapshots.is_apart(where)
        if not texts and where.number > 1 and not begins_empty:
            raise NoSuchChapter("this copy of the tutorial comes without its programs: ask whoever gave it to you")
        for name, text in texts.items():
            said += _bring(text.encode(), folder / name)
    earlier = [each for each in CHAPTERS.values() if each.number < where.number and not snapshots.is_apart(each)]
    for each in [where] if snapshots.is_apart(where) else [*earlier, where]:  # some are run again: what has changed?
        for path in _files(each.path / "experiments"):
            said += _bring(path.read_bytes(), folder / "experiments" / path.name)
    for path in _files(where.path / "exercises"):
        if path.name.startswith("exercise_") and not (folder / path.name).exists():
            said += _bring(path.read_bytes(), folder / path.name)
    settings = folder / config.FILE_NAME
    if (folder / "broker.py").exists() and not settings.exists():
        settings.write_text(TOML.format(command=PYTHON_COMMAND), encoding="utf-8")
        said.append(f"written: {settings}")
    if settings.exists():
        _set_stage(where, folder)
    return said


def _files(folder: Path) -> list[Path]:
    # Tools leave folders such as __pycache__ and .mypy_cache behind.
    return sorted(path for path in folder.glob("*") if path.is_file() and not path.name.startswith("."))


def _bring(content: bytes, target: Path) -> list[str]:
    said = []
    if target.exists():
        if target.read_bytes() == content:
            return []
        kept = next(name for name in (target.with_name(f"{target.name}.before-{n}") for n in count(1))
                    if not name.exists())  # fmt: skip
        target.rename(kept)
        said.append(f"kept: your {target.name}, as {kept.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return [*said, f"written: {target}"]


def _set_stage(where: Chapter, folder: Path) -> None:
    """The stage being worked on is the chapter's first, if it has any."""
    stages = [stage.number for stage in STAGES if stage.chapter == where.number]
    if stages:
        known = progress.read(folder)
        known.stage = stages[0]
        progress.write(folder, known)
