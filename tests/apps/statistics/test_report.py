"""The page and the pictures, from numbers made up here."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib as mpl
import pytest
from made_up import MINUTE, row, statistics

from zaichik.apps.statistics import report
from zaichik.apps.statistics.chain import FOREVER_US, NUMBERS


class Page(HTMLParser):
    """Tags that are open, everything that is shown, and whatever would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.fetched = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self.open.append(tag)
        self.fetched += [
            value
            for name, value in attributes
            if name in ("src", "href") and not value.startswith("#")
        ]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    rows = row(MINUTE, 800), row(15 * MINUTE, 750, 2, 2), row(FOREVER_US, 700, 3, 1)
    several = [statistics(*rows, topic=topic) for topic in ("<one>", "two")]
    report.write_page(tmp_path / "report.html", several)
    page = Page((tmp_path / "report.html").read_text())
    assert (page.open, page.fetched) == ([], [])
    for words in (
        "<one>",
        "two",
        "0x3c623e26ff",
        "A window that never closes",
        "forever",
        "70.0%",
        "Hot keys",
    ):
        assert words in page.text
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_pictures_are_the_same_for_the_same_numbers(tmp_path):
    several = [statistics(row(MINUTE, 800), topic=topic) for topic in ("one", "two")]
    files = report.write_plots(tmp_path / "plot.svg", several)
    assert [file.name for file in files] == ["plot.svg", "plot-2.svg"]
    first = files[0].read_bytes()
    assert ET.fromstring(first).tag.endswith("svg")  # noqa: S314 (made a moment ago)
    assert report.write_plots(tmp_path / "plot.svg", several)[0].read_bytes() == first
    (png,) = report.write_plots(tmp_path / "plot.png", several[:1])
    assert png.read_bytes().startswith(b"\x89PNG")


def test_pictures_are_the_same_whatever_settings_and_fonts_a_user_has(tmp_path):
    one = statistics(row(MINUTE, 800))
    hot = [one.hot_keys[0] | {"key": "\U0001f407".encode()}]
    # No font has this key's letter, which is no warning.
    report.write_plots(tmp_path / "plot.png", [replace(one, hot_keys=hot)])
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "figure.dpi": 30}):
        (theirs,) = report.write_plots(tmp_path / "theirs.svg", [one])
    (ours,) = report.write_plots(tmp_path / "ours.svg", [one])
    assert theirs.read_bytes() == ours.read_bytes()


UNKNOWN = row(MINUTE, 800) | dict.fromkeys(NUMBERS)


@pytest.mark.parametrize(
    ("one", "words", "verdict"),
    [
        (statistics(row(MINUTE, 800)), "A window of 1m would keep 80.0%", "save"),
        (statistics(row(MINUTE, 1000)), "No window of these would save anything", "nothing"),
        (statistics(row(MINUTE, 900, 50)), "Every window loses more than 1.0%", "costly"),
        (statistics(UNKNOWN), "No window can be advised", "unknown-verdict"),
    ],
)
def test_the_verdict_comes_first_in_the_colour_of_its_meaning(one, words, verdict):
    (advice,) = [
        line for line in report.page([one]).splitlines() if line.startswith('<p class="advice')
    ]
    assert advice.startswith(f'<p class="advice {verdict}">{words}')


def test_the_page_says_how_to_have_the_window_it_advises():
    one = statistics(row(MINUTE, 800), topic="my orders")
    assert (
        "<code>zaichik create &#x27;my orders&#x27; --compaction-window 1m</code>"
        in report.page([one])
    )
    for has_it in (
        replace(one, own_us=MINUTE),
        statistics(row(MINUTE, 900, 50)),
        statistics(row(MINUTE, 1000)),
    ):
        assert "<code>" not in report.page([has_it])


def test_the_page_says_how_to_have_the_table_it_proposes():
    one = statistics(row(MINUTE, 900, 50), row(FOREVER_US, 30, 780, winner="newest"))
    page = report.page([one])
    assert "<code>zaichik create t --table</code>" in page
    assert '<p class="advice save">' in page
    assert "<td>none</td><td>newest</td><td>30</td><td>3.0%</td>" in page
    page = report.page([replace(one, is_table=True, is_journaled=True)])
    assert "<code>" not in page
    assert '<tr class="own"><td>none</td>' in page


def test_of_a_table_without_a_journal_the_page_says_what_is_unknown():
    unknown = row(FOREVER_US, 30, winner="newest") | dict.fromkeys(NUMBERS)
    one = replace(statistics(UNKNOWN, unknown), is_table=True, hot_keys=[])
    page = report.page([one])
    assert '<p class="advice unknown-verdict">It is a table' in page
    assert "messages superseded was not recorded" in page
    assert "message of each key" in page


def test_topics_of_which_something_is_known_come_first():
    hidden = replace(statistics(UNKNOWN, topic="hidden"), own_us=MINUTE)
    page = report.page([hidden, statistics(row(MINUTE, 800), topic="known")])
    assert page.index("<h2>known</h2>") < page.index("<h2>hidden</h2>")


def test_the_topics_own_window_and_the_advised_one_are_marked():
    one = replace(statistics(row(MINUTE, 800), row(5 * MINUTE, 700)), own_us=MINUTE)
    marks = [
        line.partition("<td>")[::2]
        for line in report.page([one]).splitlines()
        if line.startswith("<tr class=")
    ]
    found = {rest.partition("<")[0]: mark for mark, rest in reversed(marks)}
    assert 'class="own"' in found["1m"]
    assert 'class="advised"' in found["5m"]


def test_what_is_unknown_is_hatched_and_told():
    one = replace(statistics(UNKNOWN), own_us=5 * MINUTE, is_journaled=False)
    page = report.page([one])
    assert '<tr class="unknown"><td>1m</td><td>first</td><td>?</td>' in page
    assert (
        '<p class="caveat">t: it has a window of its own, and what that dropped was not recorded'
        in page
    )


def test_every_word_of_the_tables_is_explained():
    legend = " ".join(report.LEGEND)
    heads = {
        name for columns in (report.WHAT_IF_COLUMNS, report.ACCOUNT_COLUMNS) for name, _ in columns
    }
    assert [word for word in heads - {"part stored", "windows"} if word not in legend] == []


@pytest.mark.parametrize(
    "key", [b"\x1b[2J<svg>", bytes(range(32)), "д".encode() * 200, b"\xff\xfe", None]
)
def test_a_hostile_key_is_harmless_on_the_page_and_in_the_picture(key):
    one = statistics(row(MINUTE, 800))
    hot = [one.hot_keys[0] | {"key": key}]
    page = report.page([replace(one, hot_keys=hot)])
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314 (made a moment ago)
    assert page.isprintable() or set(page) - {"\n"} <= {char for char in page if char.isprintable()}
