"""Pages in Russian beside the English ones: each paragraph is translated, all else is copied.

    python tutorial/tools/translated.py                          # which paragraphs have to be looked at?
    python tutorial/tools/translated.py --accept README.ru.md:9  # this one says again what the English one says
    python tutorial/tools/translated.py --later README.ru.md:9   # English, until somebody translates it
    python tutorial/tools/translated.py --refresh                # as `make docs` does: copy what is copied

A comment above a translated paragraph, which the page doesn't show, has a hash of the English one:
`<!-- en: 1a2b3c4d -->`. If the English changes, its hash does, and the translation is stale. A list, a table, a
quotation and a picture are each one paragraph. Blocks of code, and whatever `make docs` generates, are copied: only the
words that generated text has around the code are in Russian, as russian.toml has them.
"""

import argparse
import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

from zaichik.learn.chapters import TUTORIAL

COMMAND = "python tutorial/tools/translated.py"
ENGLISH, RUSSIAN = "README.md", "README.ru.md"
PAGES = [TUTORIAL.parent / RUSSIAN, *sorted(TUTORIAL.glob(f"*/{RUSSIAN}"))]
PHRASES = tomllib.loads((Path(__file__).parent / "russian.toml").read_text(encoding="utf-8"))["phrases"]

GENERATED, FENCE, LATER = "<!-- [[[cog", "```", ", not translated yet"
COPIED = (GENERATED, FENCE, "</")  # how a block begins that isn't a paragraph
BLOCK = re.compile(
    rf"^(?:<!-- en: (?P<hash>[0-9a-f]{{8}})(?P<later>{LATER})? -->\n)?"
    rf"(?P<text>{re.escape(GENERATED)}.*?^<!-- \[\[\[end\]\]\] -->|{FENCE}.*?^{FENCE}|[^\n]+(?:\n[^\n]+)*)",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(rf"\[[^]]+\]\((?P<page>[^)]+/){ENGLISH}\)")


@dataclass(frozen=True)
class Block:
    """A paragraph of a page, or something that is copied.

    Attributes:
        line: where it begins, or its mark.
        text: all of it, without a mark above.
        translates: the hash in the mark; "" without a mark.
        later: what else the mark says.
    """

    line: int
    text: str
    translates: str
    later: str

    @property
    def hash(self) -> str:
        """What a translation of it has in its mark. It stays the same if only line breaks change."""
        return hashlib.sha256(" ".join(self.text.split()).encode()).hexdigest()[:8]

    @property
    def is_later(self) -> bool:
        """Whether it stands in the Russian page in English, and nobody has translated it."""
        return self.later == LATER and self.hash == self.translates


# An English paragraph, its translation, and the line in the Russian page where that is or belongs.
Pair = tuple[Block | None, Block | None, int]


def blocks(path: Path) -> list[Block]:
    """A page, taken apart."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, match.start()) + 1, match["text"], match["hash"] or "", match["later"] or "")
        for match in BLOCK.finditer(text)
    ]


def paragraphs(path: Path) -> list[Block]:
    """What is translated of a page."""
    return [block for block in blocks(path) if not block.text.startswith(COPIED)]


def pairs(page: Path) -> Iterator[Pair]:
    """Every English paragraph with its translation, in order. One of the two is None where the other is alone."""
    english, russian = paragraphs(page.with_name(ENGLISH)), paragraphs(page)
    lines = [block.line for block in russian] + [page.read_text(encoding="utf-8").count("\n") + 1]
    hashes = [block.hash for block in english], [block.translates for block in russian]
    for _, first, last, start, stop in SequenceMatcher(None, *hashes, autojunk=False).get_opcodes():
        for source, translation in zip_longest(english[first:last], russian[start:stop]):
            yield source, translation, translation.line if translation else lines[stop]


def refreshed(page: Path, accepted: Collection[int] = (), later: Collection[int] = ()) -> str:
    """The page with copies of what is copied.

    Args:
        page: the Russian page.
        accepted: lines where stale paragraphs begin that are no longer stale.
        later: lines where something is stale or missing that is to be there in English.
    """
    source, done, pieces = blocks(page.with_name(ENGLISH)), 0, []
    for english, russian, line in pairs(page):
        if english:
            here = source.index(english)
            pieces += [_copy(block, page) for block in source[done:here]]
            done = here + 1
        if english and (line in later or (russian and russian.is_later)):
            pieces.append(f"<!-- en: {english.hash}{LATER} -->\n{english.text}")
        elif english and russian and line in accepted:
            pieces.append(f"<!-- en: {english.hash} -->\n{russian.text}")
        elif russian:
            pieces.append(f"<!-- en: {russian.translates} -->\n{russian.text}" if russian.translates else russian.text)
    return "\n\n".join([*pieces, *(_copy(block, page) for block in source[done:])]) + "\n"


def _copy(block: Block, page: Path) -> str:
    text = block.text
    if text.startswith(GENERATED):
        for words, translation in PHRASES.items():
            text = re.sub(words, translation, text, flags=re.MULTILINE)
        text = LINK.sub(lambda link: _link(link, page), text)
    return text


def _link(link: re.Match[str], page: Path) -> str:
    """The link, to the Russian page if there is one."""
    target = page.parent / link["page"] / RUSSIAN
    if not target.exists():
        return link[0]
    return f"[{re.findall('^# (.+)$', target.read_text(encoding='utf-8'), re.MULTILINE)[0]}]({link['page']}{RUSSIAN})"


def open_pairs(page: Path) -> Iterator[Pair]:
    """Those that somebody has to look at: stale, missing in the Russian page, or extra in it."""
    for english, russian, line in pairs(page):
        if not (english and russian and (russian.is_later or english.hash == russian.translates)):
            yield english, russian, line


def problems(page: Path) -> Iterator[str]:
    """What has to be done before the page says again what the English one says."""
    name, source = os.path.relpath(page), os.path.relpath(page.with_name(ENGLISH))
    for english, russian, line in open_pairs(page):
        if not english:
            yield f"{name}:{line}: extra: no paragraph of {source} belongs to it; take it out"
            continue
        what = "stale: its English is now" if russian else "missing: the translation of"
        todo = f"change it, then {COMMAND} --accept {name}:{line}"
        if not russian:
            todo = f"write it before this line, below a line <!-- en: {english.hash} -->"
        todo += f"\n  or leave it in English for now: {COMMAND} --later {name}:{line}"
        quoted = english.text.replace("\n", "\n    | ")
        yield f"{name}:{line}: {what} {source}:{english.line}:\n    | {quoted}\n  {todo}"
    if refreshed(page) != page.read_text(encoding="utf-8"):
        yield f"{name}: outdated: what is copied from {source} is not as it is there; run `make docs`"


def place(text: str) -> tuple[Path, int]:
    """A page and a line, as `--accept` gets them."""
    name, _, line = text.rpartition(":")
    page = Path(name).resolve()
    if page not in PAGES or int(line) not in {line for english, _, line in open_pairs(page) if english}:
        raise argparse.ArgumentTypeError(f"nothing is stale or missing at {text}")
    return page, int(line)


def main(arguments: list[str]) -> int:
    """Do what the command line says, and report what is left to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    places: dict[str, Any] = {"metavar": "FILE:LINE", "nargs": "+", "type": place, "default": []}
    parser.add_argument("--accept", help="these translations are as their English again", **places)
    parser.add_argument("--later", help="show the English there, until somebody translates it", **places)
    parser.add_argument("--refresh", action="store_true", help="copy what is copied; report the rest, but do not fail")
    chosen = parser.parse_args(arguments)
    left = 0
    for page in PAGES:
        if chosen.refresh or chosen.accept or chosen.later:
            accepted, later = ([n for path, n in each if path == page] for each in (chosen.accept, chosen.later))
            page.write_text(refreshed(page, accepted, later), encoding="utf-8")
        for problem in problems(page):
            left += 1
            sys.stdout.write(f"{problem}\n")
        if waiting := sum(block.is_later for block in blocks(page)):
            sys.stdout.write(f"{os.path.relpath(page)}: {waiting} not translated yet\n")
    return int(left > 0 and not chosen.refresh)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
