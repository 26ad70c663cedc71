"""A site with a dead link is not finished."""

import pytest

from docs.site.links import faults

PAGE = '<html><body><h1 id="top">A page</h1>{}</body></html>'


@pytest.fixture
def site(tmp_path):
    """A site of two pages, with the text that the first is given."""

    def with_text(text):
        (tmp_path / "chapter").mkdir(exist_ok=True)
        (tmp_path / "index.html").write_text(PAGE.format(text), encoding="utf-8")
        (tmp_path / "chapter" / "index.html").write_text(PAGE.format(""), encoding="utf-8")
        (tmp_path / "ring.svg").write_text("<svg/>", encoding="utf-8")
        return tmp_path

    return with_text


@pytest.mark.parametrize(
    "text",
    [
        '<a href="chapter/index.html#top">07</a>',
        '<a href="chapter/">its folder</a>',
        '<a href="#top">up</a>',
        '<img src="ring.svg" alt="a ring">',
        '<img src="data:image/png;base64,AAAA" alt="">',
        '<a href="https://example.org/">elsewhere, when the reader wants to</a>',
        "<pre><code>&lt;a href=nowhere&gt;</code></pre>",
    ],
)
def test_a_link_that_leads_somewhere_is_right(site, text):
    assert faults(site(text)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="chapter/gone.html">07</a>', "index.html: chapter/gone.html leads nowhere"),
        ('<a href="../outside.html">07</a>', "index.html: ../outside.html leads nowhere"),
        (
            '<a href="chapter/index.html#goal">07</a>',
            "index.html: chapter/index.html#goal: that page has no such place",
        ),
        ('<a href="#goal">down</a>', "index.html: #goal: that page has no such place"),
        ('<img src="row.svg" alt="a row">', "index.html: row.svg leads nowhere"),
        (
            '<button data-stage="stage/index.html#lag">See it move</button>',
            "index.html: stage/index.html#lag leads nowhere",
        ),
        (
            '<a href="/chapter/index.html">07</a>',
            "index.html: /chapter/index.html is right only at the root of a host",
        ),
        (
            '<script src="https://example.org/a.js"></script>',
            "index.html: script loads https://example.org/a.js, which is not a file of the site",
        ),
        (
            '<link rel="stylesheet" href="//example.org/a.css">',
            "index.html: link loads //example.org/a.css, which is not a file of the site",
        ),
    ],
)
def test_a_link_that_does_not_is_a_fault(site, text, fault):
    assert faults(site(text)) == [fault]
