"""All pages that the documents' own indexes name can be reached from every page."""

import pytest

from docs.site.pages import ROOT, navigation, pages

pytestmark = pytest.mark.unmeasured


def named(entries):
    for entry in entries:
        for page in entry.values():
            yield from [page] if isinstance(page, str) else named(page)


def test_every_document_and_every_chapter_has_an_entry():
    entries = set(named(navigation(has_stage=False)))
    must_have = {page for page in pages() if page.startswith(("docs/", "tutorial/"))}
    translated = {page for page in must_have if page.endswith(".ru.md")}
    assert must_have - translated - entries == set()


def test_every_entry_is_a_page():
    entries = list(named(navigation(has_stage=False)))
    assert set(entries) <= set(pages())
    assert len(entries) == len(set(entries))
    assert all((ROOT / entry).is_file() for entry in entries)


def test_the_stage_has_an_entry_where_it_is_built():
    assert {"Stage": "stage/index.html"} in navigation(has_stage=True)
    assert "stage/index.html" not in named(navigation(has_stage=False))
