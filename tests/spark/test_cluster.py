"""`zaichik stats` as a program, on a cluster: a master and two workers, each a process of its own.

They come with the PySpark package. This takes a minute, so `make test-cluster` runs it and `make test` does not.
"""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import oracle
import pyspark
import pytest
from door import door
from embedded import START_US
from oracle import FOREVER_US, Event

from zaichik.spark.session import find_java

GUARD = 120  # seconds after which what hangs has failed
SPARK_HOME = Path(pyspark.__file__).parent
MINUTE = 60

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def environment():
    """So that Spark's programs find a Java and each other, whatever this machine calls itself."""
    java = str(find_java().home)
    return {**os.environ, "JAVA_HOME": java, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def daemon(log, environment, name, *arguments):
    """A program of Spark's, as long as the block lasts; what it logs is in the file."""
    command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as file, subprocess.Popen(command, env=environment, stdout=file, stderr=file) as process:
        try:
            yield
        finally:
            process.terminate()


def said(log, pattern):
    """What the log says, as soon as it does."""
    deadline = time.monotonic() + GUARD
    while not (found := re.search(pattern, log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
    return found[1]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Where the workers have their folders."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(work, environment):
    """The address of a master who has two workers."""
    with ExitStack() as stack:
        log = work / "master.log"
        listening = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        stack.enter_context(daemon(log, environment, "master.Master", *listening))
        url = said(log, r"(spark://127\.0\.0\.1:\d+)")
        for name in ("one", "two"):
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(work / name)]
            log = work / f"{name}.log"
            stack.enter_context(daemon(log, environment, "worker.Worker", *listening, *room, url))
            said(log, "(Successfully registered)")
        yield url


@pytest.fixture
def stats(environment, tmp_path):
    """Run `zaichik stats`; exit code, output and complaints."""

    def run(*words):
        command = [sys.executable, "-m", "zaichik", "stats", *words]
        env = environment | {"TMPDIR": str(tmp_path / "temporary")}
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=GUARD)
        return done.returncode, done.stdout, done.stderr

    (tmp_path / "temporary").mkdir()
    return run


def test_two_workers_count_what_the_broker_counted(broker, master, work, stats):
    """Out of the journals of two topics, so that both have something to read."""
    events = [Event(START_US + n * MINUTE * 10**6, b"%d" % (n * n % 7), n % 3, 1) for n in range(200)]
    for topic in ("a", "b"):
        broker.create(topic, compaction_window=5 * MINUTE, journal=2**20)
    for number, event in enumerate(events):
        broker.clock.advance(MINUTE if number else 0)
        for topic in ("a", "b"):
            broker.publish(topic, [(event.key, b"%d" % event.hash)])
    words = ["--connect", broker.address, "--master", master, "--windows", "5m,1h,forever", "--json"]
    code, out, err = stats("a", "b", *words)
    assert (code, err) == (0, "")
    for one in json.loads(out):
        found = {(row["window_us"], row["winner"]): row for row in one["what_if"]}
        for window_us in (5 * MINUTE * 10**6, 60 * MINUTE * 10**6, FOREVER_US):
            for winner in ("first", "last"):
                expected = oracle.what_if(events, window_us, winner)
                assert {name: found[window_us, winner][name] for name in expected} == expected
        account = one["account"]
        assert account["published"] == len(events)
        assert account["stored"] == oracle.what_if(events, 5 * MINUTE * 10**6, "first")["kept"]
    assert [one["topic"] for one in json.loads(out)] == ["a", "b"]
    assert all(list((work / name).glob("app-*/*/stderr")) for name in ("one", "two"))


def test_a_broker_that_stops_while_workers_read_is_one_sentence(broker, master, stats, tmp_path):
    """A worker tries again, and is not let in any more: what it was told last is the reason."""
    broker.create("t")
    broker.publish("t", *[[(None, bytes(10_000))] * 100] * 2)
    with door(broker.port, most=500_000) as port:
        page = tmp_path / "report.html"
        code, out, err = stats("t", "--connect", f"127.0.0.1:{port}", "--master", master, "--html", str(page))
    assert (code, out, page.exists()) == (1, "", False)
    assert re.fullmatch(rf"zaichik: .*127\.0\.0\.1:{port}.* \(Spark's log: .*\)\n", err)


def test_a_master_that_is_none_is_one_sentence(broker, stats):
    broker.create("t")
    broker.publish("t", [(None, b"x")])
    code, out, err = stats("t", "--connect", broker.address, "--master", "nonsense")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"zaichik: .*Could not parse Master URL.* \(Spark's log: .*\)\n", err)
