"""A reader who has nothing but the text: types what it shows, where it says, and compares what
comes.

It begins a chapter with the program the one before ended with, reads from top to bottom, and ends
with a folder that must be the chapter's last step to the letter. A line that the text forgot to
show is missing in that folder.
"""

import re
from pathlib import Path

import hunks
import parts
from chapter import Chapter
from fences import EDIT, EXCERPT, INTERRUPTION, MOVE, REMOVAL, Claim, Fence, Instruction
from sybil import Document, Example
from terminals import Terminals, is_as_shown

from zaichik.learn import catch_up, snapshots
from zaichik.learn.chapters import CHAPTERS

# Whether it commits once more than it has to, which an early broker refuses, is up to milliseconds
# on a busy machine.
TYPED_AGAIN = "examples/echo.py"

# What is not the reader's to write: brought by `goto`, or written by programs.
BROUGHT = ("exercise_", "experiments/")


def read(
    chapter: Chapter, folder: Path, *, stop_at_failures: bool = True, slow: bool = True
) -> "Reading":
    """Work through a chapter in an empty folder; without what is slow, if that is not wanted.

    The program of the chapter before is there, if there is one and it goes on.
    """
    earlier = snapshots.earlier(chapter.known)
    before = earlier[-1] if earlier else CHAPTERS.get(chapter.number - 1)
    if before and not snapshots.is_apart(chapter.known):
        catch_up.go(before, folder, catch_up.END)
    reading = Reading(chapter, folder, slow=slow)
    try:
        for example in reading.document.examples():
            failure = example.region.evaluator(example) if example.region.evaluator else None
            if failure:
                where = f"{reading.document.path}, line {example.line}: {failure}"
                reading.failures.append(where)
                if stop_at_failures:
                    break
    finally:
        reading.terminals.close()
    return reading


class Reading:
    """One pass through a chapter.

    Attributes:
        failures: where the text was not true.
        missed: the steps that the folder has not been equal to yet.
        seen: of each console block, where it stands in the text and what came.
    """

    def __init__(self, chapter: Chapter, folder: Path, *, slow: bool = True) -> None:
        self.chapter, self.folder = chapter, folder
        self.terminals = Terminals(folder, slow=slow)
        self.failures: list[str] = []
        self.seen: list[tuple[int, int, Fence, str]] = []
        self.missed = list(chapter.steps)
        self._left_over = self.written().keys() - (snapshots.before(chapter.known)).keys()
        self.document = Document.parse(
            str(chapter.text),
            Claim("edit", self.edit),
            Claim("excerpt", self.look),
            Claim("console", self.type),
            Claim("cog", lambda _example: None),
            Instruction(INTERRUPTION, self.interrupt),
            Instruction(REMOVAL, self.remove),
            Instruction(MOVE, self.move),
        )

    def edit(self, example: Example) -> str | None:
        """Type code into a file."""
        fence: Fence = example.region.parsed
        told = EDIT.fullmatch(fence.caption)
        assert told
        if told["new"]:
            return self._write({told["new_file"]: fence.text})
        try:
            source = self._source(told["file"])
            if told["beginning"]:
                source = parts.add_to_beginning(source, fence.text)
            elif told["after"]:
                source = parts.insert(source, _name(told["after"]), fence.text)
            elif told["verb"] == "replace":
                source = parts.replace(source, _name(told["part"]), fence.text)
            else:
                source = hunks.applied(source, _name(told["part"]), fence.text)
        except (parts.NoSuchPart, OSError) as error:
            return str(error)
        if source == self._source(told["file"]):
            return f"{fence.caption}: typed for nothing"
        return self._write({told["file"]: source})

    def remove(self, example: Example) -> str | None:
        """Take parts out of a file."""
        told = example.region.parsed
        try:
            source = self._source(told["file"])
            for name in re.split(r", | and ", told["parts"]):
                source = parts.remove(source, _name(name))
        except (parts.NoSuchPart, OSError) as error:
            return str(error)
        return self._write({told["file"]: source})

    def move(self, example: Example) -> str | None:
        """Take a part out of one file and put it into another one."""
        told = example.region.parsed
        try:
            source, target = self._source(told["file"]), self._source(told["to"])
            text = parts.part(source, _name(told["part"]))
            target = parts.insert(target, _name(told["after"]), text)
            source = parts.remove(source, _name(told["part"]))
        except (parts.NoSuchPart, OSError) as error:
            return str(error)
        return self._write({told["file"]: source, told["to"]: target})

    def _source(self, name: str) -> str:
        return (self.terminals.folder / name).read_text(encoding="utf-8")

    def _write(self, texts: dict[str, str]) -> None:
        for name, text in texts.items():
            path = self.terminals.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self._compare()

    def _compare(self) -> None:
        """Look whether a step is reached."""
        if self.missed and self.written(self._left_over) == self.chapter.program(self.missed[0]):
            del self.missed[0]

    def interrupt(self, example: Example) -> None:
        """Press Ctrl-C."""
        self.terminals.interrupt(example.region.parsed["terminal"])

    def look(self, example: Example) -> str | None:
        """Look at a file that is there already: it must hold what is shown."""
        told = EXCERPT.fullmatch(example.region.parsed.caption)
        assert told
        path = self.terminals.folder / told["file"]
        if not path.exists():
            return f"the reader has no {told['file']} here"
        return (
            None
            if example.region.parsed.text in path.read_text(encoding="utf-8")
            else "the file has other lines"
        )

    def type(self, example: Example) -> str | None:
        """Run what a console block shows, and compare."""
        fence: Fence = example.region.parsed
        came = self.terminals.type(fence)
        self._compare()
        if came is None:
            return None
        if TYPED_AGAIN in fence.text:
            for _ in range(4):
                if is_as_shown(fence.text, came):
                    break
                came = self.terminals.type(fence)
        self.seen.append((example.region.start, example.region.end, fence, came))
        return (
            None
            if is_as_shown(fence.text, came)
            else f"it shows\n{fence.text}\nand this came\n{came}"
        )

    def written(self, but: object = ()) -> dict[str, str]:
        """The reader's own files, but for some that they have no need of any more."""
        root = self.terminals.folder
        found = {str(path.relative_to(root)): path for path in sorted(root.rglob("*.py"))}
        return {
            name: path.read_text(encoding="utf-8")
            for name, path in found.items()
            if not name.startswith(BROUGHT) and name not in but  # type: ignore[operator]
        }


def _name(quoted: str) -> str:
    return quoted.replace("`", "")
