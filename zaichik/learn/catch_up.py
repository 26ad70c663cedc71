"""Goes to a chapter of the tutorial: its experiments and exercises, and its program if asked.

The learner loses nothing: a file that would be overwritten with something else is kept under
another name.
"""

from itertools import count
from pathlib import Path

from zaichik.learn import config, progress, snapshots
from zaichik.learn.chapters import CHAPTERS, TUTORIAL, Chapter
from zaichik.learn.folder import PYTHON_COMMAND, TOML
from zaichik.learn.stages import STAGES

START, END = "start", snapshots.END


class NoSuchChapter(Exception):
    """The chapter doesn't exist, isn't written yet, or isn't in this copy; the text says which."""


def chapter(word: str) -> Chapter:
    """The chapter that a number such as 02 means.

    Raises:
        NoSuchChapter: there is no chapter of this number to go to.
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
        folder: the learner's folder.
        program: START or END for the chapter's program at that point; "" keeps the learner's own.

    Returns:
        what was done, in sentences.

    Raises:
        NoSuchChapter: the programs are not in this copy.
    """
    done = []
    brought = {START: snapshots.before, END: snapshots.program}
    if program:
        texts = brought[program](where)
        begins_empty = program == START and snapshots.is_apart(where)
        if not texts and where.number > 1 and not begins_empty:
            raise NoSuchChapter(
                "this copy of the tutorial has no programs: ask the person who gave it to you"
            )
        for name, text in texts.items():
            done += _bring(text.encode(), folder / name)
    # Some are run again, to see what has changed.
    for each in [*snapshots.earlier(where), where]:
        for path in _files(each.path / "experiments"):
            done += _bring(path.read_bytes(), folder / "experiments" / path.name)
    for path in _files(where.path / "exercises"):
        if path.name.startswith("exercise_") and not (folder / path.name).exists():
            done += _bring(path.read_bytes(), folder / path.name)
    settings = folder / config.FILE_NAME
    if (folder / "broker.py").exists() and not settings.exists():
        settings.write_text(TOML.format(command=PYTHON_COMMAND), encoding="utf-8")
        done.append(f"wrote {settings}")
    if settings.exists():
        _set_stage(where, folder)
    return done


def _files(folder: Path) -> list[Path]:
    # Tools leave folders such as __pycache__ and .mypy_cache behind.
    return sorted(
        path for path in folder.glob("*") if path.is_file() and not path.name.startswith(".")
    )


def _bring(content: bytes, target: Path) -> list[str]:
    done = []
    if target.exists():
        if target.read_bytes() == content:
            return []
        kept = next(
            name
            for name in (target.with_name(f"{target.name}.before-{n}") for n in count(1))
            if not name.exists()
        )
        target.rename(kept)
        done.append(f"kept your {target.name} as {kept.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return [*done, f"wrote {target}"]


def _set_stage(where: Chapter, folder: Path) -> None:
    """The stage being worked on is the chapter's first, if it has any."""
    stages = [stage.number for stage in STAGES if stage.chapter == where.number]
    if stages:
        known = progress.read(folder)
        known.stage = stages[0]
        progress.write(folder, known)
