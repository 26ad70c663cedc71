"""The changelog and docs/understand/releasing.md say what the code says."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from conversation import Conversation, broker_with

from release.pages import DATE, ENTRY, changelog_faults, entry_faults, versions
from zaichik.apps.flight import format as recording
from zaichik.storage.segment import FORMAT
from zaichik_protocol import DURABLE, HEARTBEAT, OWNER, PROTOCOL_VERSION, SHARED, TABLES, Hello

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent.parent
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASING = (ROOT / "docs" / "understand" / "releasing.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FEATURES = {
    "HEARTBEAT": HEARTBEAT,
    "OWNER": OWNER,
    "DURABLE": DURABLE,
    "TABLES": TABLES,
    "SHARED": SHARED,
}


@pytest.mark.parametrize(
    ("changelog", "told"),
    [
        ("# Changelog\n\n## [0.2.0] - 2026-12-24\n\n## [0.1.0] - 2026-11-22\n", []),
        (
            "## [0.2.0] - not released yet\n",
            ["CHANGELOG.md has no date for 0.2.0, but 'not released yet'"],
        ),
        ("## [0.2.0]\n", ["CHANGELOG.md has no date for 0.2.0, but ''"]),
        (
            "## [0.1.0] - 2026-11-22\n",
            ["the newest version in CHANGELOG.md is 0.1.0, and pyproject.toml says 0.2.0"],
        ),
        ("", ["the newest version in CHANGELOG.md is nothing, and pyproject.toml says 0.2.0"]),
    ],
)
def test_a_version_is_released_with_a_dated_section_of_its_own(changelog, told):
    assert list(changelog_faults(changelog, "0.2.0")) == told


def test_the_changelog_begins_with_this_version_and_dates_all_earlier_ones():
    found = versions(CHANGELOG)
    assert found[0][0] == PROJECT["version"]
    assert all(DATE.fullmatch(date) for _, date in found[1:])
    numbers = [[int(part) for part in version.split(".")] for version, _ in found]
    assert all(later > earlier for later, earlier in pairwise(numbers))


@pytest.mark.parametrize(
    ("changelog", "told"),
    [
        ("- **Topics** can be deleted.\n", []),
        ("- **Topics** are\n  told.\n\n  | was | is |\n  | --- | --- |\n" + "  | a |\n" * 40, []),
        ("- **Topics** are:\n" + "  - one of many\n" * 40, []),
        (
            "- **Topics** are told.\n- Topics can be deleted.\n",
            ["an entry doesn't begin with what it is about, in bold: Topics can be deleted."],
        ),
        ("- **Topics** are" + "\n  told" * 38, []),
        (
            "- **Topics** are told.\n\n  | was |\n" + "\n  more" * 38,
            ["an entry has 41 words, more than 40: **Topics** are told. more more more"],
        ),
        (
            "- **Topics** are" + "\n  told" * 39 + "\n- **Readers** are told.\n",
            ["an entry has 41 words, more than 40: **Topics** are told told told told"],
        ),
    ],
)
def test_a_short_entry_that_begins_with_its_subject_has_no_fault(changelog, told):
    assert list(entry_faults(changelog)) == told


def test_every_entry_of_the_changelog_begins_with_its_subject_and_is_short():
    assert len(ENTRY.findall(CHANGELOG)) == CHANGELOG.count("\n- ") > 0
    assert list(entry_faults(CHANGELOG)) == []


def granted():
    """The features that a broker grants a client that asks for all there could be."""
    everything = Hello(1, features=2**64 - 1)
    return Conversation(broker_with(), greeted=False).ask(everything)[0].features


def test_the_table_of_versions_says_what_this_one_speaks():
    rows = re.findall(
        r"^\| (\d[\d.]*) \| (\d+) \| ([A-Z, ]+) \| (\w+) \| ([^|]+) \|$", RELEASING, re.MULTILINE
    )
    assert [row[0] for row in rows] == [version for version, _ in versions(CHANGELOG)]
    _, protocol, features, log_format, recordings = rows[0]
    assert (int(protocol), int(log_format)) == (PROTOCOL_VERSION, FORMAT)
    assert sum(FEATURES[name] for name in features.split(", ")) == granted()
    assert recordings.startswith(f"writes {recording.VERSION}, ")


def test_what_a_broker_prints_when_it_starts_has_this_version_on_every_page():
    """Where such a page is typed is elsewhere, and takes minutes."""
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "tutorial").rglob("*.md")]
    shown = {
        page: set(re.findall(r"zaichik (\S+) serves at", page.read_text(encoding="utf-8")))
        for page in pages
    }
    assert any(shown.values())
    assert {page for page in shown if shown[page] - {PROJECT["version"]}} == set()
