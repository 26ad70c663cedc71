"""The advice, the page and the pictures, from numbers made up here; the command, from a recording."""

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from zaichik.console.main import main
from zaichik.console.stats import _print_json
from zaichik.recording import Recording
from zaichik.spark import report
from zaichik.spark.advice import Statistics, percent, recommended, sentence, show_length, show_time
from zaichik.spark.windows import FOREVER_US
from zaichik_protocol import Batch, Messages

MINUTE = 60_000_000


def row(window_us, kept, differing=0, delayed=0, winner="first"):
    return {
        "topic": "t", "window_us": window_us, "winner": winner, "messages": 1000, "bytes": 2000, "kept": kept,
        "kept_bytes": 2 * kept, "differing": differing, "delayed": delayed, "delay_us": delayed * 2 * MINUTE,
        "unseen": differing - delayed, "max_delay_us": 9 * MINUTE if delayed else 0,
    }  # fmt: skip


def statistics(*what_if, topic="t"):
    account = {"topic": topic, "published": 1000, "stored": 1000, "compacted": 0, "bytes": 2000, "stored_bytes": 2000,
               "windows": 1000, "per_window": 1.0, "differing": 0}  # fmt: skip
    hot = [{"key": b"<b>&\xff", "published": 500, "share": 0.5, "stored": 500, "bytes": 9}]
    return Statistics(topic, account, list(what_if), hot)


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


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path):
    """Two topics: in one, a key comes every half minute with one payload; the other has two epochs."""

    def frames(step_us):
        return [Messages(1, n, n * step_us, Batch.of([(b"k", b"same")])) for n in range(10)]

    with Recording.open(tmp_path / "recording", "often") as often:
        often.add(1, frames(MINUTE // 2))
    with Recording.open(tmp_path / "recording", "2013") as twice:
        twice.add(1, frames(MINUTE))
        twice.add(2, frames(MINUTE))
    return tmp_path / "recording"


@pytest.mark.usefixtures("spark")
def test_the_command_counts_recordings_and_topics(recorded, broker, tmp_path, capsys):
    broker.create("t")
    broker.publish("t", [("k", b"1"), ("k", b"1"), (None, b"2")])
    sources = [str(recorded), "t", "--connect", broker.address]
    files = ["--html", str(tmp_path / "r.html"), "--plot", str(tmp_path / "r.svg")]
    assert main(["stats", *sources, "--windows", "1m,forever", *files]) == 0
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    tables = [words.split() for words in lines if " first " in words]
    # Of 2013 two epochs with ten messages each, a minute apart; of "often" ten, half a minute apart; of t two and one.
    assert [(window, kept) for window, _, kept, *_ in tables] == [
        ("1m", "20"), ("forever", "2"), ("1m", "5"), ("forever", "1"), ("1m", "2"), ("forever", "2"),
    ]  # fmt: skip
    assert "1m first 2 66.7% 66.7% 0.0% 0.0% - - 0.0%" in lines
    assert "t: a window of 1m would keep 66.7% of the messages (66.7% of the bytes), and lose no update." in lines
    assert "topic 2013: the policy that ran" in lines
    assert err.count("written: ") == 4
    assert "often: a window that never closes" in (tmp_path / "r.html").read_text()


def test_as_json_everything_is_there(capsys):
    _print_json([statistics(row(MINUTE, 800))], 0.01)
    (one,) = json.loads(capsys.readouterr().out)
    assert one["advice"].startswith("t: a window of 1m")
    assert one["what_if"] == [row(MINUTE, 800)]
    assert one["hot_keys"][0]["key"] == {"base64": "PGI+Jv8="}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{empty}"], "is no recording"),
        (["nowhere", "--connect", "{broker}"], "there is no topic nowhere"),
        (["t", "--connect", "127.0.0.1:1"], "no broker answers at 127.0.0.1:1"),
        (["{broken}"], "1-0-5.parquet is damaged"),
    ],
)
def test_what_cannot_be_counted_is_one_sentence(broker, tmp_path, capsys, words, sentence):
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken" / "topic=t" / "day=2013-01-01"
    broken.mkdir(parents=True)
    (broken / "1-0-5.parquet").write_bytes(b"PAR1 half of a file")
    names = {"empty": tmp_path / "empty", "broken": tmp_path / "broken", "broker": broker.address}
    assert main(["stats", *(word.format(**names) for word in words)]) == 1
    out, err = capsys.readouterr()
    assert (out, sentence in err, err.count("\n")) == ("", True, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--windows", "0"], "a window of 0 is none"),
        (["--windows", "often"], "no duration"),
        (["--most-lost", "many"], "no percentage"),
        (["--plot", "plot.gif"], "end it with .png or .svg"),
    ],
)
def test_wrong_usage_is_explained(capsys, words, sentence):
    with pytest.raises(SystemExit) as exit_:
        main(["stats", "recording", *words])
    assert exit_.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_told_before_anything_is_counted(capsys):
    assert main(["stats", "recording", "--html", "/nowhere/report.html"]) == 1
    assert "/nowhere is no folder" in capsys.readouterr().err
