"""An experiment on the reader's own modules says which section of its chapter it needs."""

import ast
import re

from chapter import all_chapters
from offenders import each

EXPERIMENTS = {
    f"{chapter.number:02} {path.name}": (chapter, path)
    for chapter in all_chapters()
    for path in sorted((chapter.folder / "experiments").glob("*.py"))
}


def imports(source: str) -> set[str]:
    """The modules that a program takes names from."""
    nodes = ast.walk(ast.parse(source))
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def section_before_its_first_run(text: str, experiment: str) -> str:
    """The last section before it in which something is typed; "" if there is none."""
    before, run, _ = text.partition(f"python3 -m experiments.{experiment}\n")
    if not run:  # with arguments
        before, run, _ = text.partition(f"python3 -m experiments.{experiment} ")
    typed = re.findall(r"^## (Type\b.*)$", before, re.MULTILINE)
    return typed[-1] if run and typed else ""


@each("name", EXPERIMENTS)
def test_an_experiment_on_the_readers_modules_says_after_which_section_it_runs(name):
    """What needs only a server that listens asks no more of the program than that it starts."""
    chapter, path = EXPERIMENTS[name]
    source = path.read_text(encoding="utf-8")
    modules = {file.removesuffix(".py") for file in chapter.program()}
    section = ""
    if modules & imports(source):
        section = section_before_its_first_run(chapter.text.read_text(encoding="utf-8"), path.stem)
    told = " ".join((ast.get_docstring(ast.parse(source)) or "").split())
    assert ("Run it after" in told) == bool(section)
    assert not section or f'Run it after "{section}".' in told
