"""`zaichik stats` without Spark; `spark/test_stats_command` is the same with it."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from door import door
from embedded import embedded_broker
from made_up import row, statistics

from zaichik.apps.recording.recording import Recording
from zaichik.apps.statistics import counting
from zaichik.cli.commands import stats
from zaichik.cli.main import main
from zaichik_protocol import Batch, Messages

MINUTE = 60_000_000


@pytest.fixture
def recorded(tmp_path):
    """Two topics: in one, a key comes every half minute, and three messages are missing; the other
    has two epochs.
    """

    def frames(step_us, gap=0):
        offsets = [*range(9), 9 + gap]
        return [
            Messages(1, offset, n * step_us, Batch.of([(b"k", b"same")]))
            for n, offset in enumerate(offsets)
        ]

    settings = {"compaction_window_ms": 0}
    with Recording.open(tmp_path / "recording", "often", settings) as often:
        often.add(1, frames(MINUTE // 2, gap=3))
    with Recording.open(tmp_path / "recording", "2013", settings) as twice:
        twice.add(1, frames(MINUTE))
        twice.add(2, frames(MINUTE))
    return tmp_path / "recording"


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker


def test_the_command_counts_recordings_and_topics(recorded, broker, tmp_path, capsys):
    broker.create("t")
    broker.publish("t", [("k", b"1"), ("k", b"1"), (None, b"2")])
    sources = [str(recorded), "t", "--connect", broker.address]
    files = ["--html", str(tmp_path / "r.html"), "--plot", str(tmp_path / "r.svg")]
    assert main(["stats", *sources, "--windows", "1m,forever", *files]) == stats.MISSING
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    tables = [words.split() for words in lines if " first " in words]
    # Of 2013 two epochs with ten messages each, a minute apart; of "often" ten, half a minute
    # apart; of t two and one.
    assert [(window, kept) for window, _, kept, *_ in tables] == [
        ("1m", "20"),
        ("forever", "2"),
        ("1m", "5"),
        ("forever", "1"),
        ("1m", "2"),
        ("forever", "2"),
    ]
    assert "1m first 2 66.7% 66.7% 0.0% 0.0% - - 0.0%" in lines
    assert (
        "t: a window of 1m would keep 66.7% of the messages (66.7% of the bytes), and lose no "
        "update." in lines
    )
    assert "topic 2013: the policy that ran" in lines
    assert err.count("written: ") == 4
    assert [line for line in err.splitlines() if "missing" in line] == [
        "often: 3 messages are missing among those counted here, or after them: no number is exact."
    ]
    assert "A window that never closes would keep" in (tmp_path / "r.html").read_text()


def test_a_window_without_a_journal_is_not_taken_for_the_whole_truth(broker, capsys):
    """The broker says 60 and 55; the messages that are left say 5."""
    broker.create("orders", compaction_window=600)
    for number in range(60):
        broker.publish("orders", [(f"k{number % 5}", b"%d" % number)])
    assert (
        main(["stats", "orders", "--connect", broker.address, "--windows", "1m,1h", "--json"])
        == stats.MISSING
    )
    (one,) = json.loads(capsys.readouterr().out)
    assert [one["account"][name] for name in ("published", "stored", "compacted", "differing")] == [
        60,
        5,
        55,
        None,
    ]
    shorter, longer = (tried for tried in one["what_if"] if tried["winner"] == "first")
    assert (shorter["kept"], longer["kept"], longer["differing"]) == (None, None, None)
    assert (
        main(["stats", "orders", "--connect", broker.address, "--windows", "1m,1h"])
        == stats.MISSING
    )
    out, err = capsys.readouterr()
    assert "1m first ? ? ? ? ? ? ? ?" in [" ".join(line.split()) for line in out.splitlines()]
    assert "no window can be advised" in out
    assert "A journal would tell" in err


def test_what_was_gone_before_is_told(broker, capsys):
    broker.create("t", capacity=5)
    broker.publish("t", *[[("k", b"%d" % n)] for n in range(8)])
    assert main(["stats", "t", "--connect", broker.address, "--json"]) == stats.MISSING
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["before"], one["missing"], one["account"]["published"], one["exact"]) == (
        3,
        0,
        5,
        False,
    )
    assert one["caveats"][0].startswith("t: 3 messages were gone before the first one here")


@pytest.fixture
def named(broker, recorded, tmp_path):
    """Sources of which something is wrong, by name."""
    broker.create("quiet")
    broker.create("a,b")
    broker.create("j", journal=10_000)
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken" / "topic=t" / "day=2013-01-01"
    broken.mkdir(parents=True)
    (broken / "1-0-5.parquet").write_bytes(b"PAR1 half of a file")
    half = (
        shutil.copytree(recorded, tmp_path / "half")
        / "topic=often"
        / "day=1970-01-01"
        / "1-0-9.parquet"
    )
    whole = half.read_bytes()
    # The end, which tells where everything is, is sound.
    half.write_bytes(whole[:4] + bytes(40) + whole[44:])
    folders = {name: tmp_path / name for name in ("empty", "broken", "half", "recording")}
    return folders | {"broker": broker.address}


def check_explained(words, sentence, capsys):
    assert main(["stats", *words]) == 1
    out, err = capsys.readouterr()
    assert (out, sentence in err, err.count("\n")) == ("", True, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{empty}"], "is not a recording"),
        (["nowhere", "--connect", "{broker}"], "there is no topic 'nowhere'"),
        (["t", "--connect", "127.0.0.1:1"], "no broker answers at 127.0.0.1:1"),
        (["{broken}"], "1-0-5.parquet is damaged"),
        (["quiet", "quiet", "--connect", "{broker}"], "quiet is at {broker}, and named twice"),
        (["j", "$journal/j", "--connect", "{broker}"], "j is at {broker}, and named twice"),
        (["{recording}", "{half}"], "2013 is in {recording} and in {half}"),
        (
            ["quiet", "--connect", "{broker}"],
            "there are no messages in quiet, so there is nothing to count",
        ),
        (["a,b", "--connect", "{broker}"], "there are no messages in a,b"),
    ],
)
def test_what_cannot_be_counted_is_one_sentence(named, capsys, words, sentence):
    check_explained([word.format(**named) for word in words], sentence.format(**named), capsys)


def test_an_error_leaves_what_was_counted_before(named, capsys):
    assert main(["stats", str(named["half"]), "--windows", "1m"]) == 1
    out, err = capsys.readouterr()
    assert "topic 2013: the policy that ran" in out
    assert "1-0-9.parquet is damaged" in err


def test_a_topic_of_which_everything_is_gone_is_told(broker, capsys):
    broker.create("gone", retention_ttl=10)
    broker.create("there")
    broker.create("empty")
    for topic in ("gone", "there"):
        broker.publish(topic, [("k", b"1"), ("k", b"2")])
    broker.clock.advance(11)
    words = ["--connect", broker.address, "--windows", "1m"]
    assert main(["stats", "gone", "there", "empty", *words]) == stats.MISSING
    out, err = capsys.readouterr()
    assert "topic there: the policy that ran" in out
    assert "gone: all of its 2 messages are gone, so there is nothing to count" in err
    assert "empty: it has no messages, so there is nothing to count" in err
    assert main(["stats", "gone", *words]) == stats.MISSING


@pytest.mark.parametrize("name", ["bücher/neu", "д" * 100, "__HIVE_DEFAULT_PARTITION__", "2013"])
def test_a_topic_may_have_any_name(tmp_path, capsys, name):
    with Recording.open(tmp_path, name, {"compaction_window_ms": 0}) as one:
        one.add(1, [Messages(1, 0, 0, Batch.of([(b"k", b"x")]))])
    assert main(["stats", str(tmp_path), "--windows", "1m"]) == 0
    assert f"topic {name}: the policy that ran" in capsys.readouterr().out


def test_a_broker_that_stops_while_it_is_read_is_one_sentence(broker, tmp_path, capsys):
    broker.create("t")
    broker.publish("t", *[[(None, bytes(10_000))] * 100] * 2)
    with door(broker.port, most=500_000) as port:
        assert (
            main(
                [
                    "stats",
                    "t",
                    "--connect",
                    f"127.0.0.1:{port}",
                    "--html",
                    str(tmp_path / "report.html"),
                ]
            )
            == 1
        )
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"zaichik: the connection to 127\.0\.0\.1:{port} was lost: .*\n", err)
    assert (out, list(tmp_path.iterdir())) == ("", [])


def test_ctrl_c_tells_what_was_counted_so_far(recorded, monkeypatch, capsys):
    """The first topic is; in the midst of the second one, it is enough."""
    parts, seen = counting.parts, []

    def interrupted(batches, rows, memory):
        seen.append(rows)
        if len(seen) == 2:
            next(iter(batches))
            raise KeyboardInterrupt
        return parts(batches, rows, memory)

    monkeypatch.setattr(counting, "parts", interrupted)
    assert main(["stats", str(recorded), "--windows", "1m"]) == stats.INTERRUPTED
    out, err = capsys.readouterr()
    assert "topic 2013: the policy that ran" in out
    assert "often" not in out
    assert "interrupted: counted 1 of 2 topics" in err


def test_it_needs_no_spark(recorded):
    """Nor a Java: none of it is imported."""
    program = (
        "import sys; from zaichik.cli.main import main; main(sys.argv[1:]); "
        "sys.exit('pyspark' in sys.modules)"
    )
    words = ["stats", str(recorded), "--windows", "1m", "--json"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["topic"] for one in json.loads(done.stdout)] == ["2013", "often"]


@pytest.mark.parametrize(
    ("package", "words"),
    [("pyarrow", []), ("matplotlib", []), ("pyspark", ["--master", "local[2]"])],
)
def test_what_is_not_installed_is_named(monkeypatch, capsys, package, words):
    find_spec = stats.importlib.util.find_spec
    monkeypatch.setattr(
        stats.importlib.util, "find_spec", lambda name: None if name == package else find_spec(name)
    )
    assert main(["stats", "recording", *words]) == 1
    assert (
        f"this needs {package}, which is not installed; get it with `make"
        in capsys.readouterr().err
    )


def test_as_json_everything_is_there(capsys):
    stats._print_json([statistics(row(MINUTE, 800))], 0.01)
    (one,) = json.loads(capsys.readouterr().out)
    assert one["advice"].startswith("t: a window of 1m")
    assert one["what_if"] == [row(MINUTE, 800)]
    assert one["hot_keys"][0]["key"] == {"base64": "PGI+Jv8="}
    assert (one["exact"], one["caveats"]) == (True, [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--windows", "0"], "0 is not a window"),
        (["--windows", "often"], "is not a duration"),
        (["--most-lost", "many"], "is not a percentage"),
        (["--memory", "0"], "'0' is no memory to count with"),
        (["--plot", "plot.gif"], "must end with .png or .svg"),
    ],
)
def test_wrong_usage_is_explained(capsys, words, sentence):
    with pytest.raises(SystemExit) as exit_:
        main(["stats", "recording", *words])
    assert exit_.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_told_before_anything_is_counted(capsys):
    assert main(["stats", "recording", "--html", "/nowhere/report.html"]) == 1
    assert "/nowhere is not a folder" in capsys.readouterr().err


def test_a_page_that_is_a_folder_is_told_before_anything_is_counted(tmp_path, capsys):
    assert main(["stats", "recording", "--html", str(tmp_path)]) == 1
    assert "is a folder, so it cannot be written" in capsys.readouterr().err
