"""`zaichik stats`, in this process and with the session that runs already; `test_cluster` runs it as a program."""

import re
import shutil
import signal

import pytest
from door import door

import zaichik.spark
from zaichik.console import stats
from zaichik.console.main import INTERRUPTED, main
from zaichik.recording.recording import Recording
from zaichik_protocol import Batch, Messages

MINUTE = 60_000_000


@pytest.fixture
def recorded(tmp_path):
    """Two topics: in one, a key comes every half minute, and three messages are missing; the other has two epochs."""

    def frames(step_us, gap=0):
        offsets = [*range(9), 9 + gap]
        return [Messages(1, offset, n * step_us, Batch.of([(b"k", b"same")])) for n, offset in enumerate(offsets)]

    with Recording.open(tmp_path / "recording", "often") as often:
        often.add(1, frames(MINUTE // 2, gap=3))
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
    assert main(["stats", *sources, "--windows", "1m,forever", *files]) == stats.MISSING
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
    assert [line for line in err.splitlines() if "missing" in line] == [
        "often: 3 messages are missing, so that no number is exact."
    ]
    assert "often: a window that never closes" in (tmp_path / "r.html").read_text()


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
    half = shutil.copytree(recorded, tmp_path / "half") / "topic=often" / "day=1970-01-01" / "1-0-9.parquet"
    whole = half.read_bytes()
    half.write_bytes(whole[:4] + bytes(40) + whole[44:])  # the end, which tells where everything is, is sound
    folders = {name: tmp_path / name for name in ("empty", "broken", "half", "recording")}
    return folders | {"broker": broker.address}


def check_explained(words, sentence, capsys):
    assert main(["stats", *words]) == 1
    out, err = capsys.readouterr()
    assert (out, sentence in err, err.count("\n")) == ("", True, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{empty}"], "is no recording"),
        (["nowhere", "--connect", "{broker}"], "there is no topic nowhere"),
        (["t", "--connect", "127.0.0.1:1"], "no broker answers at 127.0.0.1:1"),
        (["{broken}"], "1-0-5.parquet is damaged"),
        (["a,b", "--connect", "{broker}"], "has a comma"),
        (["quiet", "quiet", "--connect", "{broker}"], "quiet is at {broker}, and named twice"),
        (["j", "$journal/j", "--connect", "{broker}"], "j is at {broker}, and named twice"),
        (["{recording}", "{half}"], "2013 is in {recording} and in {half}"),
    ],
)
def test_what_cannot_be_counted_is_told_before_spark_starts(named, monkeypatch, capsys, words, sentence):
    monkeypatch.setattr(stats, "_session", None)
    check_explained([word.format(**named) for word in words], sentence.format(**named), capsys)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["quiet", "--connect", "{broker}"], "there are no messages in quiet, so there is nothing to count"),
        (["{half}"], "1-0-9.parquet is damaged"),
    ],
)
def test_what_cannot_be_counted_is_one_sentence(named, capsys, words, sentence):
    check_explained([word.format(**named) for word in words], sentence, capsys)


@pytest.mark.usefixtures("spark")
def test_a_topic_whose_name_is_no_folder_name_is_counted(tmp_path, capsys):
    """Spark reads the folder topic=b%C3%BCcher%2Fneu in its own way; the other folder has a part of the name."""
    names = ["bücher/neu", "д" * 100]
    for name in names:
        with Recording.open(tmp_path, name) as one:
            one.add(1, [Messages(1, 0, 0, Batch.of([(b"k", b"x")]))])
    assert main(["stats", str(tmp_path), "--windows", "1m"]) == 0
    out = capsys.readouterr().out
    assert [f"topic {name}: the policy that ran" in out for name in names] == [True, True]


@pytest.mark.usefixtures("spark")
def test_a_broker_that_stops_while_it_is_read_is_one_sentence(broker, monkeypatch, tmp_path, capfd):
    """Out of a worker's traceback inside of a Java exception; and no page is begun."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker.create("t")
    broker.publish("t", *[[(None, bytes(10_000))] * 100] * 2)
    with door(broker.port, most=500_000) as port:
        assert main(["stats", "t", "--connect", f"127.0.0.1:{port}", "--html", str(tmp_path / "report.html")]) == 1
    (log,) = tmp_path.iterdir()
    out, err = capfd.readouterr()
    # Of two tasks that read at the same time, one may find the door shut when it comes, and says so around the same.
    lost = f"the connection to 127.0.0.1:{port} was lost: the broker closed it"
    assert re.fullmatch(rf"zaichik: .*{lost}.* \(Spark's log: {log}\)\n", err)
    assert out == ""


def test_ctrl_c_while_spark_starts_waits_until_it_has_started(recorded, monkeypatch):
    """Else its Java would be left running. When Python ends after that, Java does."""
    started = []

    def session(*_, **__):
        signal.raise_signal(signal.SIGINT)
        started.append(True)

    monkeypatch.setattr(zaichik.spark, "session", session)
    assert main(["stats", str(recorded)]) == INTERRUPTED
    assert started


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--windows", "0"], "0 is not a window"),
        (["--windows", "often"], "is not a duration"),
        (["--most-lost", "many"], "is not a percentage"),
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
