"""A chapter of the tutorial as files: its folder, its facts, its snapshots.

01-tcp-has-no-messages/
    README.md       what is read
    chapter.toml    minutes, lines, and which stages of `zaichik learn` its snapshots pass
    middle/, end/   the learner's folder at a checkpoint half way (not every chapter has one), and at the end
    experiments/    programs that break something, the same way each time
    exercises/      what is left to the reader, and how it is judged
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zaichik.learn.chapters import CHAPTERS, TUTORIAL

END_OF_CHAPTER = "end"
LEFT_BEHIND = re.compile(r"__pycache__|(^|/)\.")


@dataclass(frozen=True)
class Chapter:
    """One chapter.

    Attributes:
        folder: where it lies.
        number, title: as the table of `zaichik learn` has them.
        minutes: how long it takes to read and to type.
        lines: the most lines of code its last snapshot may have.
        stages: the snapshots' names in order, and of each the last stage it passes. A table instead names checks that
            it `passes` and `fails`. Empty without a server.
    """

    folder: Path
    number: int
    title: str
    minutes: int
    lines: int
    stages: dict[str, Any]

    @property
    def text(self) -> Path:
        """The file to read."""
        return self.folder / "README.md"

    @property
    def snapshots(self) -> list[str]:
        """Their names, in order."""
        return list(self.stages) or [END_OF_CHAPTER]

    def snapshot(self, name: str) -> dict[str, str]:
        """The files of one."""
        return files(self.folder / name)

    @property
    def start(self) -> Path | None:
        """The folder the reader begins with; None for an empty one."""
        earlier = [chapter for chapter in all_chapters() if chapter.number < self.number]
        return earlier[-1].folder / END_OF_CHAPTER if earlier else None


def chapter(folder: Path) -> Chapter:
    """The chapter in a folder."""
    facts = tomllib.loads((folder / "chapter.toml").read_text(encoding="utf-8"))
    number = next(number for number, known in CHAPTERS.items() if known.folder == folder.name)
    return Chapter(folder, number, CHAPTERS[number].title, facts["minutes"], facts["lines"], facts.get("stages", {}))


def all_chapters() -> list[Chapter]:
    """Those that are written, in order."""
    return [chapter(path.parent) for path in sorted(TUTORIAL.glob("*/chapter.toml"))]


def files(folder: Path | None) -> dict[str, str]:
    """The files below a folder by their names, with their texts; what tools have left behind is passed over."""
    if folder is None:
        return {}
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path.read_text(encoding="utf-8") for name, path in found.items() if not LEFT_BEHIND.search(name)}
