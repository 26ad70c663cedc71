"""What the changelog must say before a version is released."""

import re
from collections.abc import Iterator

HEADING = re.compile(r"^## \[([^]]+)\](?: - (.+))?$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
ENTRY = re.compile(r"^- .+(?:\n+  .+)*", re.MULTILINE)
BELOW = re.compile(r"  [-| ]")  # how the lines of a table, or of a list, below an entry begin
MOST_WORDS = 40


def versions(changelog: str) -> list[tuple[str, str]]:
    """Returns the versions in a changelog with their dates, or what stands there instead; the
    newest first.
    """
    return HEADING.findall(changelog)


def changelog_faults(changelog: str, version: str) -> Iterator[str]:
    """Yield why this version can't be released with this changelog."""
    newest, date = next(iter(versions(changelog)), ("nothing", ""))
    if newest != version:
        yield f"the newest version in CHANGELOG.md is {newest}, and pyproject.toml says {version}"
    elif not DATE.fullmatch(date):
        yield f"CHANGELOG.md has no date for {version}, but {date!r}"


def entry_faults(changelog: str) -> Iterator[str]:
    """Yield why a reader can't find what an entry is about, or must read too long."""
    for entry in ENTRY.findall(changelog):
        lines = [line for line in entry.splitlines() if not BELOW.match(line)]
        words = " ".join(lines).removeprefix("- ").split()
        beginning = " ".join(words[:6])
        if not beginning.startswith("**"):
            yield f"an entry doesn't begin with what it is about, in bold: {beginning}"
        if len(words) > MOST_WORDS:
            yield f"an entry has {len(words)} words, more than {MOST_WORDS}: {beginning}"
