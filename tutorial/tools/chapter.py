"""A chapter of the tutorial as files: its folder, its facts, its steps.

06-somebody-elses-news/
    README.md       what is read
    chapter.toml    the names of the steps, and which stages of `zaichik learn` they pass
    naive/, end/    of each step, the files that it changes; `zaichik learn` and this module lay them over each other
    experiments/    programs that break something, the same way each time
    exercises/      what is left to the reader, and how it is judged
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minutes import amounts

from zaichik.learn import chapters, snapshots
from zaichik.learn.chapters import CHAPTERS, TUTORIAL
from zaichik.learn.snapshots import END, Program


@dataclass(frozen=True)
class Chapter:
    """One chapter.

    Attributes:
        known: its number, title and folder.
        steps: their names, in order.
        needs: what a reader must have done before, if that is not the chapter before it.
        is_optional: whether nothing in the other chapters needs it.
        stages: of each step that is judged, the last stage it passes; a table instead names checks that it `passes`
            and `fails`, and may name the last stage of those that it passes as a whole, `upto`. Empty without a server.
        shipped: the last stage that the shipped broker passes, if the chapter is about that one and not the reader's.
    """

    known: chapters.Chapter
    steps: list[str]
    stages: dict[str, Any]
    needs: str = ""
    is_optional: bool = False
    shipped: int | None = None

    @property
    def number(self) -> int:
        """Its number."""
        return self.known.number

    @property
    def title(self) -> str:
        """Its title."""
        return self.known.title

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.known.path

    @property
    def text(self) -> Path:
        """The file to read."""
        return self.known.text

    @property
    def minutes(self) -> int:
        """How long it takes to read and to type."""
        return amounts(self.text.read_text(encoding="utf-8")).minutes

    def program(self, step: str = END) -> Program:
        """The reader's program after a step."""
        return snapshots.program(self.known, step)

    def before(self, step: str) -> Program:
        """The reader's program before it."""
        place = self.steps.index(step)
        return self.program(self.steps[place - 1]) if place else snapshots.before(self.known)


def chapter(folder: Path) -> Chapter:
    """The chapter in a folder."""
    facts = snapshots.facts(folder)
    known = next(known for known in CHAPTERS.values() if known.folder == folder.name)
    return Chapter(
        known,
        snapshots.steps(folder),
        facts.get("stages", {}),
        facts.get("needs", ""),
        facts.get("optional", False),
        facts.get("shipped"),
    )


def all_chapters() -> list[Chapter]:
    """Those that are written, in order."""
    return [chapter(path.parent) for path in sorted(TUTORIAL.glob(f"*/{snapshots.FACTS}"))]
