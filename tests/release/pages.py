"""What the changelog must say before a version is released."""

import re
from collections.abc import Iterator

HEADING = re.compile(r"^## \[([^]]+)\](?: - (.+))?$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def versions(changelog: str) -> list[tuple[str, str]]:
    """Returns the versions in a changelog with their dates, or what stands there instead; the newest first."""
    return HEADING.findall(changelog)


def changelog_faults(changelog: str, version: str) -> Iterator[str]:
    """Yield why this version can't be released with this changelog."""
    newest, date = next(iter(versions(changelog)), ("nothing", ""))
    if newest != version:
        yield f"the newest version in CHANGELOG.md is {newest}, and pyproject.toml says {version}"
    elif not DATE.fullmatch(date):
        yield f"CHANGELOG.md has no date for {version}, but {date!r}"
