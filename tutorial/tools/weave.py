"""What the chapters' texts are woven from: code from the steps, bytes from the codec, facts from chapter.toml.

`make docs` runs these functions through cog, which keeps what they write in the text; a test checks that it is
current. A block of code always comes with the line above it that says where it goes; that line is all the reader
robot has, too.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import cog  # type: ignore[import-not-found]  # it is there while cog runs
import hunks
import parts
import shipped
from chapter import Chapter, all_chapters, chapter
from minutes import A_COMMAND_S, TYPED_LINES_A_MINUTE, WORDS_A_MINUTE

import document
from zaichik.apps.web.stage.knobs import link, values
from zaichik.apps.web.stage.scenes import SCENES
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.snapshots import END
from zaichik.learn.stages import STAGES
from zaichik_protocol import encode, frames


def _here() -> Chapter:
    return chapter(Path(cog.inFile).resolve().parent)


def _block(caption: str, text: str, language: str = "python") -> None:
    cog.out(f"**{caption}:**\n\n```{language}\n{text}```\n")


def _quoted(part: str) -> str:
    if part in {parts.BEGINNING, parts.END}:
        return part
    name = part.removeprefix(parts.HEAD)
    return f"`{name}`" if name == part else f"{parts.HEAD}`{name}`"


def new(name: str, *names: str, step: str = END) -> None:
    """A file to type: all of it, or its first parts."""
    source = _here().program(step)[name]
    _block(f"New file `{name}`", parts.together(source, names) if names else source)


def add(name: str, *names: str, step: str = END) -> None:
    """Parts to type after the one that stands before them."""
    source = _here().program(step)[name]
    owner = names[0].removeprefix(parts.HEAD)
    known = list(parts.spans(source))
    after = known[known.index(owner) - 1]  # of a method, what stands before it in its class
    if "." in after and "." not in owner:
        after = after.partition(".")[0]  # after the whole class
    elif after.startswith(parts.HEAD) and "." not in owner:
        after = after.removeprefix(parts.HEAD)
    _block(f"In `{name}`, after {_quoted(after)}, add", parts.together(source, names))


def begin(name: str, step: str = END) -> None:
    """Imports and constants to add to a file's beginning; where that would tell much again, the lines that change."""
    here = _here()
    text = parts.additions(here.before(step)[name], here.program(step)[name])
    if "(\n" in text and "= Struct(" not in text:  # an import in several lines, to which a name is added
        change(name, parts.BEGINNING, step)
    else:
        _block(f"In `{name}`, add to the beginning", text)


def replace(name: str, part: str, step: str = END) -> None:
    """A part to type instead of the one of that name."""
    _block(f"In `{name}`, replace {_quoted(part)}", parts.part(_here().program(step)[name], part))


def change(name: str, part: str, step: str = END) -> None:
    """Lines to take out of a part and to put into it, with those around them."""
    here = _here()
    old, new = (parts.part(program[name], part) for program in (here.before(step), here.program(step)))
    _block(f"In `{name}`, change {_quoted(part)}", hunks.shown(old, new), "diff")


def remove(name: str, *names: str) -> None:
    """Parts to take out."""
    listed = " and ".join(
        [", ".join(map(_quoted, names[:-1])), _quoted(names[-1])] if names[1:] else map(_quoted, names)
    )
    cog.outl(f"**In `{name}`, remove {listed}.**")


def move(part: str, name: str, to: str, after: str) -> None:
    """A part to take out of one file and put into another one."""
    cog.outl(f"**Move {_quoted(part)} from `{name}` to `{to}`, after {_quoted(after)}.**")


def excerpt(name: str, part: str = "", first: str = "", last: str = "") -> None:
    """Code to look at that is in a file already: of an experiment, or of the program as it is at the chapter's end.

    Of a part, the lines from one with `first` in it to one with `last` in it.
    """
    here = _here()
    path = here.folder / name
    source = path.read_text(encoding="utf-8") if path.exists() else here.program()[name]
    _block(f"From `{name}`", shipped.between(parts.part(source, part) if part else source, first, last))


def real(name: str, part: str, first: str = "", last: str = "") -> None:
    """Lines of the shipped broker to look at, in the reader's copy of it."""
    _block(f"From `{shipped.FOLDER}/{name}`", shipped.between(shipped.function(name, part), first, last))


def plant(name: str, part: str, right: str, wrong: str) -> None:
    """A mistake to type into the reader's copy of the shipped broker."""
    caption = f"In `{shipped.FOLDER}/{name}`, change {_quoted(part)}"
    _block(caption, shipped.planted(name, part, right, wrong), "diff")


def facts() -> None:
    """Minutes, files, chapters needed, and how to catch up: what the reader of any page wants to know first."""
    here = _here()
    start, end = here.before(here.steps[0]) if here.steps else {}, here.program() if here.steps else {}
    touched = [name for name, text in end.items() if start.get(name) != text]
    stages = here.stages.get(END)
    passed = "none: there is nothing to judge yet"
    if isinstance(stages, dict):
        more = Counter(check.partition(".")[0] for check in stages["passes"])
        told = ", ".join(f"{count} checks of {name}" for name, count in more.items())
        passed = f"S0 to S{stages['upto']}, and {told}"
    elif stages is not None:
        passed = f"S0 to S{stages}" if stages else "S0"
    if here.shipped is not None:
        passed = f"S0 to S{here.shipped}, by the shipped broker"
    before = f"chapter {here.number - 1:02}" if here.number else "Python 3.11 or newer, and a clone of this project"
    rows = [
        ("minutes", str(here.minutes)),
        ("files you write", ", ".join(f"`{name}`" for name in touched) or "none"),
        ("needs", here.needs or before),
        ("catch up", f"`zaichik learn goto {here.number:02} --start`"),
        ("stages passed at the end", passed),
    ]
    cog.outl("| | |\n| --- | --- |")
    for left, right in rows:
        cog.outl(f"| {left} | {right} |")


def links() -> None:
    """The way to the neighbours."""
    here = _here()
    written = all_chapters()
    place = [each.number for each in written].index(here.number)
    told = [f"[{each.number:02} {each.title}](../{each.folder.name}/README.md)"
            for each in (*written[max(place - 1, 0):place], *written[place + 1:place + 2])]  # fmt: skip
    cog.outl(" · ".join(["[All chapters](../README.md)", *told]))


def scenes(**chosen: dict[str, int]) -> None:
    """The scenes of the stage that belong here, with the knobs chosen for them."""
    mine = [scene for scene in SCENES.values() if scene.words["chapter"] == _here().folder.name]
    if not mine or chosen.keys() - {scene.slug for scene in mine}:
        raise ValueError("no such scene belongs to this chapter")
    cog.outl("See it move: `zaichik web`, then\n")
    for scene in mine:
        place = link(scene.slug, scene.knobs, values(scene.knobs, chosen.get(scene.slug, {})))
        cog.outl(f"- `http://127.0.0.1:8080/stage#{place}`: *{scene.words['title']}*")


def plan() -> None:
    """The table of all chapters."""
    written = {each.number: each for each in all_chapters()}
    cog.outl("| chapter | minutes | stages |\n| --- | --- | --- |")
    for number, known in CHAPTERS.items():
        here = written.get(number)
        title = f"[{known.title}]({known.folder}/README.md)" if here else known.title
        stages = [each for each in STAGES if each.chapter == number]
        told = ", ".join(f"{each.id} {each.title.lower()}" for each in stages)
        title += ", optional" if here and here.is_optional else ""
        cog.outl(f"| {number:02} {title} | {here.minutes if here else 'not written yet'} | {told} |")


def hours() -> None:
    """How long the written chapters take together."""
    written = all_chapters()
    minutes = sum(each.minutes for each in written if not each.is_optional)
    more = sum(each.minutes for each in written) - minutes
    told = f"That's {minutes // 60} hours and {minutes % 60} minutes in all, exercises not counted"
    cog.outl(f"{told}, and {more} minutes more with what is optional:")
    told = f"{WORDS_A_MINUTE} words or {TYPED_LINES_A_MINUTE} typed lines a minute"
    cog.outl(f"{told}, and {A_COMMAND_S} seconds for a command.")


def frame(name: str, **fields: Any) -> None:
    """A frame of the real codec as a hexdump, made here and now."""
    cog.outl(document.dump(encode(getattr(frames, name)(**fields))))
