"""A reader who has nothing but the text: types what it shows, where it says, and compares what comes.

It begins a chapter with the folder the one before ended with, reads from top to bottom, and ends with a folder that
must be the chapter's last snapshot to the letter. A line that the text forgot to show is missing in that folder.
"""

import textwrap
from pathlib import Path

import parts
from chapter import Chapter, files
from fences import EDIT, EXCERPT, INTERRUPTION, Claim, Fence, Instruction
from sybil import Document, Example
from terminals import Terminals, is_as_shown

from zaichik.learn import catch_up
from zaichik.learn.chapters import CHAPTERS

# What is not the reader's to write: brought by `goto`, or written by programs.
BROUGHT = ("exercise_", "experiments/", "learn.toml", "learn-progress.json")


def read(chapter: Chapter, folder: Path, *, stop_at_failures: bool = True) -> "Reading":
    """Work through a chapter in an empty folder."""
    if before := CHAPTERS.get(chapter.number - 1):
        catch_up.go(before, folder, catch_up.END)
    reading = Reading(chapter, folder)
    try:
        for example in reading.document.examples():
            failure = example.region.evaluator(example) if example.region.evaluator else None
            if failure:
                where = f"{reading.document.path}, line {example.line}: {failure}"
                reading.failures.append(where)
                if stop_at_failures:
                    break
    finally:
        reading.terminals.interrupt()
    return reading


class Reading:
    """One pass through a chapter.

    Attributes:
        failures: where the text was not true.
        typed: of each file, the parts the text told to type.
        missed: the snapshots that the folder has not been equal to yet.
        seen: of each console block, where it stands in the text and what came.
    """

    def __init__(self, chapter: Chapter, folder: Path) -> None:
        self.chapter, self.folder = chapter, folder
        self.terminals = Terminals(folder)
        self.failures: list[str] = []
        self.typed: set[tuple[str, str]] = set()
        self.seen: list[tuple[int, int, Fence, str]] = []
        self.missed = chapter.snapshots
        self.document = Document.parse(
            str(chapter.text),
            Claim("edit", self.edit),
            Claim("excerpt", self.look),
            Claim("console", self.type),
            Claim("cog", lambda _example: None),
            Instruction(INTERRUPTION, self.interrupt),
        )

    def edit(self, example: Example) -> str | None:
        """Type code into a file."""
        fence: Fence = example.region.parsed
        told = EDIT.fullmatch(fence.caption)
        assert told
        if told["new"]:
            self.typed.add((told["new_file"], "everything"))
            return self._write(told["new_file"], fence.text)
        path = self.terminals.folder / told["file"]
        part = told["part"].strip("`")
        try:
            source = path.read_text(encoding="utf-8")
            if told["verb"] == "replace":
                self.typed.add((told["file"], part))
                source = parts.replace(source, part, fence.text)
            else:
                self.typed.update((told["file"], name) for name in _named(fence.text))
                source = parts.insert(source, part, fence.text)
        except (parts.NoSuchPart, OSError) as error:
            return str(error)
        return self._write(told["file"], source)

    def _write(self, name: str, text: str) -> None:
        path = self.terminals.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        # Files of earlier chapters that this one does not need stay where they are.
        if self.missed and self.written() == files(self.chapter.start) | self.chapter.snapshot(self.missed[0]):
            del self.missed[0]

    def interrupt(self, _example: Example) -> None:
        """Press Ctrl-C."""
        self.terminals.interrupt()

    def look(self, example: Example) -> str | None:
        """Look at a file that is there already: it must hold what is shown."""
        told = EXCERPT.fullmatch(example.region.parsed.caption)
        assert told
        path = self.terminals.folder / told["file"]
        if not path.exists():
            return f"the reader has no {told['file']} here"
        return None if example.region.parsed.text in path.read_text(encoding="utf-8") else "the file has other lines"

    def type(self, example: Example) -> str | None:
        """Run what a console block shows, and compare."""
        fence: Fence = example.region.parsed
        came = self.terminals.type(fence)
        self.seen.append((example.region.start, example.region.end, fence, came))
        return None if is_as_shown(fence.text, came) else f"it shows\n{fence.text}\nand this came\n{came}"

    def written(self) -> dict[str, str]:
        """The reader's own files."""
        return {name: text for name, text in files(self.terminals.folder).items() if not name.startswith(BROUGHT)}


def _named(text: str) -> set[str]:
    """The parts in a block; methods stand there as in their class."""
    return set(parts.spans(textwrap.dedent(text)))
