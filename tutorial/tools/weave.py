"""What the chapters' texts are woven from: code from the snapshots, bytes from the codec, facts from chapter.toml.

`make docs` runs these functions through cog, which keeps what they write in the text; a test checks that it is
current. A block of code always comes with the line above it that says where it goes; that line is all the reader
robot has, too.
"""

from pathlib import Path
from typing import Any

import cog  # type: ignore[import-not-found]  # it is there while cog runs
import parts
from chapter import END_OF_CHAPTER, all_chapters, chapter, files

import document
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.stages import STAGES
from zaichik_protocol import encode, frames

# Chapters after the last one that builds something.
LATER = {15: "Compaction statistics with Spark", 16: "Reading the real broker"}


def _folder() -> Path:
    return Path(cog.inFile).resolve().parent


def _source(name: str, step: str) -> str:
    return (_folder() / step / name).read_text(encoding="utf-8")


def _block(caption: str, text: str) -> None:
    cog.out(f"**{caption}:**\n\n```python\n{text}```\n")


def new(name: str, *names: str, step: str = END_OF_CHAPTER) -> None:
    """A file to type: all of it, or its first parts."""
    source = _source(name, step)
    _block(f"New file `{name}`", "\n\n".join(parts.part(source, part) for part in names) or source)


def replace(name: str, part: str, step: str = END_OF_CHAPTER) -> None:
    """A part to type instead of the one of that name."""
    _block(f"In `{name}`, replace {_quoted(part)}", parts.part(_source(name, step), part))


def add(name: str, *names: str, after: str, step: str = END_OF_CHAPTER) -> None:
    """Parts to type behind another one."""
    source = _source(name, step)
    gap = "\n" if "." in names[0] else "\n\n"
    text = gap.join(parts.part(source, part) for part in names)
    _block(f"In `{name}`, after {_quoted(after)}, add", text)


def excerpt(name: str, part: str = "") -> None:
    """Code to look at that is in a file already, such as an experiment's."""
    source = (_folder() / name).read_text(encoding="utf-8")
    _block(f"From `{name}`", parts.part(source, part) if part else source)


def _quoted(part: str) -> str:
    return part if part in {parts.BEGINNING, parts.END} else f"`{part}`"


def facts() -> None:
    """Minutes, files, chapters needed, and how to catch up: what the reader of any page wants to know first."""
    here = chapter(_folder())
    touched = [
        name for name, text in files(here.folder / END_OF_CHAPTER).items() if files(here.start).get(name) != text
    ]
    stages = here.stages.get(END_OF_CHAPTER)
    passed = "none: you write no server yet" if stages is None else ("S0" if not stages else f"S0 to S{stages}")
    rows = [
        ("minutes", str(here.minutes)),
        ("files you write", ", ".join(f"`{name}`" for name in touched) or "none"),
        (
            "needs",
            f"chapter {here.number - 1:02}" if here.number else "Python 3.11 or newer, and a clone of this project",
        ),
        ("catch up", f"`zaichik learn goto {here.number:02} --start`"),
        ("stages passed at the end", passed),
    ]
    cog.outl("| | |\n| --- | --- |")
    for left, right in rows:
        cog.outl(f"| {left} | {right} |")


def links() -> None:
    """The way to the neighbours."""
    here = chapter(_folder())
    near = {each.number: each for each in all_chapters()}
    told = [f"[{number:02} {near[number].title}](../{near[number].folder.name}/README.md)"
            for number in (here.number - 1, here.number + 1) if number in near]  # fmt: skip
    cog.outl(" · ".join(["[All chapters](../README.md)", *told]))


def plan() -> None:
    """The table of all chapters."""
    written = {each.number: each for each in all_chapters()}
    cog.outl("| chapter | minutes | stages |\n| --- | --- | --- |")
    for number, known in CHAPTERS.items():
        here = written.get(number)
        title = f"[{known.title}]({known.folder}/README.md)" if here else known.title
        stages = [each for each in STAGES if each.chapter == number]
        told = ", ".join(f"{each.id} {each.title.lower()}" for each in stages)
        cog.outl(f"| {number:02} {title} | {here.minutes if here else 'not written yet'} | {told} |")
    for number, title in LATER.items():
        cog.outl(f"| {number:02} {title} | not written yet | |")


def hours() -> None:
    """How long the written chapters take together."""
    minutes = sum(each.minutes for each in all_chapters())
    cog.outl(
        f"The chapters written so far take {minutes // 60} hours and {minutes % 60} minutes, exercises not counted."
    )


def frame(name: str, **fields: Any) -> None:
    """A frame of the real codec as a hexdump, made here and now."""
    cog.outl(document.dump(encode(getattr(frames, name)(**fields))))
