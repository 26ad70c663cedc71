"""The tutorial's program, step by step.

A chapter has a folder for each of its steps, with only the files that the step changes. The program
at some point is assembled here: all steps up to that point, laid over each other.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from zaichik.learn.chapters import CHAPTERS, Chapter

END = "end"  # a chapter's last step
FACTS = "chapter.toml"

Program = dict[str, str]  # texts by the names of their files


@cache
def facts(folder: Path) -> dict[str, Any]:
    """What a chapter's folder says about itself; empty if the chapter is not written."""
    path = folder / FACTS
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def steps(folder: Path) -> list[str]:
    """The names of a chapter's steps, in order."""
    return list(facts(folder).get("steps", []))


def overlay(folder: Path, step: str) -> Program:
    """The files that a step changes, without what tools have left behind."""
    root = folder / step
    paths = [path for path in sorted(root.rglob("*.py")) if "__pycache__" not in path.parts]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def is_apart(chapter: Chapter) -> bool:
    """Whether a chapter has a program of its own, which no other chapter continues."""
    return bool(facts(chapter.path).get("apart"))


def is_optional(chapter: Chapter) -> bool:
    """Whether no other chapter needs it."""
    return bool(facts(chapter.path).get("optional"))


def earlier(chapter: Chapter) -> list[Chapter]:
    """The chapters whose program a chapter continues, in order.

    An optional chapter may continue others, and none continues it.
    """
    if is_apart(chapter):
        return []
    return [
        each
        for each in CHAPTERS.values()
        if each.number < chapter.number and not is_apart(each) and not is_optional(each)
    ]


def before(chapter: Chapter) -> Program:
    """The program with which a chapter begins."""
    program: Program = {}
    for each in earlier(chapter):
        program = _laid_over(program, each.path, steps(each.path))
    return program


def program(chapter: Chapter, step: str = END) -> Program:
    """The program after a step of a chapter; a chapter without steps ends as it begins."""
    names = steps(chapter.path)
    return _laid_over(
        before(chapter), chapter.path, names[: names.index(step) + 1] if names else []
    )


def _laid_over(program: Program, folder: Path, names: list[str]) -> Program:
    for name in names:
        program = program | overlay(folder, name)
    return program
