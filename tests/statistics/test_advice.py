"""The advice, the page and the pictures, from numbers made up here."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from made_up import MINUTE, row, statistics

from zaichik.console.stats import _print_json
from zaichik.spark import report
from zaichik.spark.advice import caveat, percent, recommended, sentence, show_length, show_time
from zaichik.spark.windows import FOREVER_US


def test_the_window_that_saves_most_of_those_that_lose_little_is_advised():
    one = statistics(row(MINUTE, 800), row(15 * MINUTE, 410, 7, 4), row(60 * MINUTE, 300, 50, 40))
    assert recommended(one)["window_us"] == 15 * MINUTE
    assert sentence(one) == (
        "t: a window of 15m would keep 41.0% of the messages (41.0% of the bytes); 0.4% of the updates would be seen "
        "late, by 2m on average and 9m at most; 0.3% never."
    )
    assert recommended(one, most_lost=0.1)["window_us"] == 60 * MINUTE


def test_of_windows_that_save_as_much_the_shortest_is_advised():
    assert recommended(statistics(row(MINUTE, 800), row(2 * MINUTE, 800)))["window_us"] == MINUTE


def test_a_window_that_loses_nothing():
    assert sentence(statistics(row(MINUTE, 800))).endswith("(80.0% of the bytes), and lose no update.")


@pytest.mark.parametrize(
    ("what_if", "words"),
    [
        ([row(MINUTE, 1000)], "no key comes twice"),
        ([row(MINUTE, 900, 50, 0)], "every window loses more than 1.0% of the updates. The mildest: a window of 1m"),
        ([row(MINUTE, 995, 5, 5)], "no window is worth while that loses at most 1.0%"),
    ],
)
def test_when_there_is_nothing_to_advise_it_says_why(what_if, words):
    assert words in sentence(statistics(*what_if))


def test_missing_messages_are_a_caveat():
    one = replace(statistics(row(MINUTE, 800)), missing=1234)
    assert caveat(one) == "t: 1,234 messages are missing, so that no number is exact."
    assert caveat(one) in report.page([one])
    assert caveat(replace(one, missing=0)) == ""


def test_only_nothing_is_0_percent_and_only_all_100():
    assert [percent(n, 10_000) for n in (0, 1, 5000, 9999, 10_000)] == ["0.0%", "<0.1%", "50.0%", ">99.9%", "100.0%"]
    assert percent(0, 0) == "-"


def test_times_and_lengths_as_people_write_them():
    lengths = [show_length(us) for us in (1, 5000, 90 * MINUTE, 1440 * MINUTE, FOREVER_US)]
    assert lengths == ["1µs", "5ms", "90m", "1d", "forever"]
    times = [show_time(us) for us in (1500, 61_000_000, 90_061_000_000, 1440 * MINUTE)]
    assert times == ["1.5ms", "1m 1s", "1d 1h", "1d"]


class Page(HTMLParser):
    """Tags that are open, everything that is shown, and whatever would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.fetched = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self.open.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href") and not value.startswith("#")]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    several = [statistics(row(MINUTE, 800), row(FOREVER_US, 700, 3, 1), topic=topic) for topic in ("<one>", "two")]
    report.write_page(tmp_path / "report.html", several)
    page = Page((tmp_path / "report.html").read_text())
    assert (page.open, page.fetched) == ([], [])
    for words in ("<one>", "two", "<b>&\\xff", "a window that never closes", "forever", "70.0%", "Hot keys"):
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


def test_as_json_everything_is_there(capsys):
    _print_json([statistics(row(MINUTE, 800))], 0.01)
    (one,) = json.loads(capsys.readouterr().out)
    assert one["advice"].startswith("t: a window of 1m")
    assert one["what_if"] == [row(MINUTE, 800)]
    assert one["hot_keys"][0]["key"] == {"base64": "PGI+Jv8="}
