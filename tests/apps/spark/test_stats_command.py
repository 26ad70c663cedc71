"""`zaichik stats --master`, in this process, with the session that runs already.

`test_cluster` runs the program.
"""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from door import door
from gated import gated_broker
from small import configure, python

from zaichik.apps.recording.recording import Recording
from zaichik.cli import stats_spark
from zaichik.cli.commands import stats
from zaichik.cli.logins import keep
from zaichik.cli.main import INTERRUPTED, main
from zaichik.client.endpoint import endpoint
from zaichik_protocol import Batch, Messages

GUARD = 300  # seconds after which what hangs has failed
MASTER = ["--master", "local[2]"]


def both(words, capsys):
    """What is printed without Spark, and with it; the exit codes, too."""
    found = []
    for more in ([], MASTER):
        code = main(["stats", *words, *more, "--json"])
        out, err = capsys.readouterr()
        assert err == ""
        found.append((code, out))
    return found


@pytest.mark.usefixtures("spark")
def test_spark_says_the_same(broker, tmp_path, capsys):
    """Of recordings with gaps, two epochs and hostile names, and of topics with and without a
    window and a journal.
    """
    settings = {"compaction_window_ms": 0}
    for name in ("bücher/neu", "д" * 100, "__HIVE_DEFAULT_PARTITION__", "2013"):
        with Recording.open(tmp_path, name, settings) as one:
            for epoch, first in ((1, 0), (2, 4)):
                payloads = [(b"k%d" % (n % 3), b"%d" % (n % 2)) for n in range(20)]
                frames = [
                    Messages(1, first + n * 2, n * 10**7, Batch.of([item]))
                    for n, item in enumerate(payloads)
                ]
                one.add(epoch, frames)
    broker.create("plain", capacity=30)
    broker.create("hidden", compaction_window=60)
    broker.create("told", compaction_window=60, journal=2**20)
    for number in range(50):
        broker.clock.advance(10)
        for topic in ("plain", "hidden", "told"):
            broker.publish(topic, [(f"k{number % 7}", b"%d" % (number % 3)), (None, b"x")])
    words = [
        str(tmp_path),
        "plain",
        "hidden",
        "told",
        "--connect",
        broker.address,
        "--windows",
        "1s,15s,2m,forever",
    ]
    alone, by_spark = both(words, capsys)
    assert alone[0] == stats.MISSING
    assert by_spark == alone


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["a[1]", "a{b,c}", "a{b", "a\\b", "a*?", "a:b", "a b%20#x=1"])
def test_a_recording_may_be_in_a_folder_of_any_name(name, tmp_path, capsys):
    """Spark takes some letters of a path for a pattern."""
    folder = tmp_path / name / "recording"
    folder.parent.mkdir()
    with Recording.open(folder, "t", {"compaction_window_ms": 0}) as one:
        one.add(1, [Messages(1, n, n * 10**6, Batch.of([(b"k", b"same")])) for n in range(9)])
    alone, by_spark = both([str(folder), "--windows", "1s,1h"], capsys)
    assert alone[0] == 0
    assert by_spark == alone


def check_explained(words, sentence, capsys):
    assert main(["stats", *words, *MASTER]) == 1
    out, err = capsys.readouterr()
    assert (out, sentence in err, err.count("\n")) == ("", True, 1)


def test_a_name_that_spark_cannot_be_told_is_refused_before_it_starts(broker, monkeypatch, capsys):
    monkeypatch.setattr(stats_spark, "_session", None)
    broker.create("a,b")
    check_explained(["a,b", "--connect", broker.address], "has a comma", capsys)


@pytest.mark.usefixtures("spark")
def test_what_cannot_be_counted_is_one_sentence(broker, tmp_path, capsys):
    broker.create("quiet")
    check_explained(
        ["quiet", "--connect", broker.address], "there are no messages in quiet", capsys
    )
    with Recording.open(tmp_path, "half") as one:
        one.add(1, [Messages(1, n, n, Batch.of([(b"k", b"same")])) for n in range(9)])
    (file,) = tmp_path.glob("*/*/*.parquet")
    whole = file.read_bytes()
    # The end, which tells where everything is, is sound.
    file.write_bytes(whole[:4] + bytes(40) + whole[44:])
    check_explained([str(tmp_path)], "1-0-9.parquet is damaged", capsys)


@pytest.mark.usefixtures("spark")
def test_a_broker_that_stops_while_it_is_read_is_one_sentence(broker, monkeypatch, tmp_path, capfd):
    """Out of a worker's traceback inside of a Java exception; and no page is begun."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
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
                    *MASTER,
                ]
            )
            == 1
        )
    (log,) = tmp_path.iterdir()
    out, err = capfd.readouterr()
    # Of two tasks that read at the same time, one may find the door shut when it comes, and says so
    # around the same.
    lost = f"the connection to 127.0.0.1:{port} was lost: the broker closed it"
    assert re.fullmatch(rf"zaichik: .*{lost}.* \(Spark's log: {log}\)\n", err)
    assert out == ""


def test_ctrl_c_while_spark_starts_waits_until_it_has_started(broker, monkeypatch):
    """Else its Java would be left running. When Python ends after that, Java does."""
    started = []

    def session(*_, **__):
        signal.raise_signal(signal.SIGINT)
        started.append(True)

    monkeypatch.setattr(stats_spark, "session", session)
    broker.create("t")
    assert main(["stats", "t", "--connect", broker.address, *MASTER]) == INTERRUPTED
    assert started


@pytest.mark.cluster
@pytest.mark.parametrize("place", ["environment", "login"])
def test_workers_log_in_as_the_command_does(place, tmp_path):
    """A program of its own: its workers inherit its environment, and not that of the tests."""
    with gated_broker(tmp_path) as gated:
        configure(tmp_path)
        environment = os.environ | {
            "XDG_CONFIG_HOME": str(tmp_path),
            "ZAICHIK_TOKEN": "zk_" + "b" * 43,
            "SPARK_CONF_DIR": str(tmp_path),
            "PYSPARK_PYTHON": python(tmp_path),
        }
        if place == "login":
            keep(endpoint(gated.line()), environment)
        else:
            environment["ZAICHIK_CONNECT"] = gated.line()
        gated.fill(
            "t",
            *(b"%d" % (number // 2) for number in range(10)),
            compaction_window=60,
            journal=2**20,
        )
        done = subprocess.run(
            [sys.executable, "-m", "zaichik", "stats", "t", *MASTER, "--json"],
            env=environment, capture_output=True, text=True, timeout=GUARD,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads(done.stdout)
    assert found["account"]["published"] == 10
    assert gated.token not in done.stdout
