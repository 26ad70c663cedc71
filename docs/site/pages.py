"""Which pages are in the book, and in which order: as the repository's own indexes have them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Folders and files with pages; the pages of a folder's folders are pages, too.
PLACES = (
    "README.md",
    "README.ru.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs",
    "tutorial",
    "protocol",
    "benchmarks/results",
    "tests/learn/brokers/README.md",
)

# A row of the table in docs/README.md: the name of a group, or a page.
GROUP = re.compile(r"\| \*\*(.+)\*\* \| \|$")
PAGE = re.compile(r"\| \[(.+?)\]\((.+?\.md)\) \|")
CHAPTER = re.compile(r"\| (\d+) \[(.+?)\]\((.+?\.md)\)")

Entry = dict[str, "str | list[Entry]"]


def pages() -> list[str]:
    """Returns all pages, as paths in the repository."""
    found: list[Path] = []
    for place in PLACES:
        path = ROOT / place
        if path.is_dir():
            found += sorted(path.rglob("*.md"))
        else:
            found.append(path)
    return [path.relative_to(ROOT).as_posix() for path in found]


def navigation(*, has_stage: bool) -> list[Entry]:
    """Returns the tree of pages beside each page, by their titles."""
    menu: list[Entry] = [{"Start": "README.md"}, {"Tutorial": _chapters()}]
    if has_stage:
        menu.append({"Stage": "stage/index.html"})
    menu += _documentation()
    return menu


def _chapters() -> list[Entry]:
    chapters: list[Entry] = [{"The plan": "tutorial/README.md"}]
    for line in _lines("tutorial/README.md"):
        if row := CHAPTER.match(line):
            number, title, path = row.groups()
            chapters.append({f"{number} {title}": f"tutorial/{path}"})
    return chapters


def _documentation() -> list[Entry]:
    groups: list[Entry] = []
    rows: list[Entry] = []
    for line in _lines("docs/README.md"):
        if group := GROUP.match(line):
            rows = []
            groups.append({group[1]: rows})
        elif row := PAGE.match(line):
            title, path = row.groups()
            rows.append({title.replace("`", ""): _in_root("docs", path)})
    about: list[Entry] = [
        {"All pages": "docs/README.md"},
        {"Changelog": "CHANGELOG.md"},
        {"Contributing": "CONTRIBUTING.md"},
        {"По-русски": "README.ru.md"},
    ]
    return [*groups, {"About": about}]


def _lines(page: str) -> list[str]:
    return (ROOT / page).read_text(encoding="utf-8").splitlines()


def _in_root(folder: str, path: str) -> str:
    return (ROOT / folder / path).resolve().relative_to(ROOT).as_posix()
