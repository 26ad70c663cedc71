"""The fenced blocks of a chapter, each claimed by the one who answers for it.

A block is known by what a reader sees: its language and the bold line above it. What is generated
by cog lies between cog's marks and is cog's to check, too. Sybil finds the fences with its raw
lexer: the usual one passes over every fence whose info string has another word, without telling.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sybil import Document, Example, Region
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

INFO = re.compile(r"(?P<language>[^\n]*)\n")
CAPTION = re.compile(r"^\*\*(?P<text>[^\n]+?)[:.]\*\*$", re.MULTILINE)
ORDINAL = r"(?P<terminal>first|second|third)"
INTERRUPTION = re.compile(rf"^\*\*Press Ctrl-C in the {ORDINAL} terminal\.\*\*$", re.MULTILINE)
REMOVAL = re.compile(r"^\*\*In `(?P<file>[^`]+)`, remove (?P<parts>[^\n]+)\.\*\*$", re.MULTILINE)
MOVE = re.compile(
    r"^\*\*Move (?P<part>[^\n]+) from `(?P<file>[^`]+)` to `(?P<to>[^`]+)`, after "
    r"(?P<after>[^\n]+)\.\*\*$",
    re.MULTILINE,
)
GENERATED = re.compile(
    r"^<!-- \[\[\[cog.*?\]\]\] -->\n(?P<text>.*?)^<!-- \[\[\[end\]\]\] -->$",
    re.MULTILINE | re.DOTALL,
)

EDIT = re.compile(
    r"(?P<new>New file) `(?P<new_file>[^`]+)`"
    r"|In `(?P<file>[^`]+)`, "
    r"(?:(?P<verb>replace|change) (?P<part>.+)|after (?P<after>.+), add|(?P<beginning>add to the "
    r"beginning))"
)
EXCERPT = re.compile(r"From `(?P<file>[^`]+)`")
STARTS = re.compile(rf"In the {ORDINAL} terminal, .*leave it running")
SHOWS = re.compile(rf"The {ORDINAL} terminal now shows")


@dataclass(frozen=True)
class Fence:
    """A fenced block.

    Attributes:
        language: the info string, all of it.
        text: what is inside.
        caption: the bold line above it, without its stars and colon; "" if there is none.
        is_generated: whether cog wrote it.
    """

    language: str
    text: str
    caption: str
    is_generated: bool

    @property
    def kind(self) -> str:
        """Who answers for it: edit, excerpt, console, cog; or nobody."""
        if self.language == "console":
            return "console"
        if self.is_generated and EDIT.fullmatch(self.caption):
            return "edit"
        if self.is_generated and EXCERPT.fullmatch(self.caption):
            return "excerpt"
        if self.is_generated and self.language == "text" and not self.caption:
            return "cog"
        return "nobody"


def fences(document: Document) -> Iterable[tuple[Region, Fence]]:
    """Every fence of a text, in order."""
    generated = [match.span("text") for match in GENERATED.finditer(document.text)]
    for region in RawFencedCodeBlockLexer(INFO)(document):
        above = document.text[: region.start].rstrip().rpartition("\n")[2]
        caption = CAPTION.fullmatch(above)
        inside = any(start <= region.start and region.end <= end for start, end in generated)
        block = document.text[
            region.start : region.end
        ]  # the lexer's own text of it has lost its indentation
        source = block.partition("\n")[2].rpartition("```")[0]
        yield (
            region,
            Fence(
                str(region.lexemes["language"]), source, caption["text"] if caption else "", inside
            ),
        )


Evaluator = Callable[[Example], str | None]


class Claim:
    """A sybil parser: takes the fences of one kind, and has them evaluated.

    Args:
        kind: as `Fence.kind` says.
        evaluator: gets each of them; what it returns is why the example failed.
    """

    def __init__(self, kind: str, evaluator: Evaluator) -> None:
        self.kind, self.evaluator = kind, evaluator

    def __call__(self, document: Document) -> Iterable[Region]:
        for region, fence in fences(document):
            if fence.kind == self.kind:
                yield Region(region.start, region.end, fence, self.evaluator)


class Instruction:
    """A sybil parser for a line that tells to do something and needs no fence."""

    def __init__(self, pattern: re.Pattern[str], evaluator: Evaluator) -> None:
        self.pattern, self.evaluator = pattern, evaluator

    def __call__(self, document: Document) -> Iterable[Region]:
        for match in self.pattern.finditer(document.text):
            yield Region(match.start(), match.end(), match, self.evaluator)


def lexed(path: Path) -> list[Fence]:
    """The fences of a file."""
    text = path.read_text(encoding="utf-8")
    return [fence for _, fence in fences(Document(text, str(path)))]


def counted(path: Path) -> int:
    """How many fences the file has, found without sybil: lines that begin with three backticks, by
    two.
    """
    lines = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith("```")
    ]
    assert len(lines) % 2 == 0
    return len(lines) // 2
