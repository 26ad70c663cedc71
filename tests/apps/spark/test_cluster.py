"""`zaichik stats` as a program, on a cluster: a master and two workers, each a process of its own.

They come with the PySpark package. Ten Javas are started for it, one after another or at once,
which takes minutes on a small machine: so `make test-cluster` runs it and `make test` does not.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import oracle
import pyspark
import pytest
from door import door
from embedded import START_US
from oracle import FOREVER_US, Event
from small import JAVA, SMALL, configure
from test_recipes import recipe

from zaichik.apps.spark.session import find_java

GUARD = 300  # seconds after which what hangs has failed
SPARK_HOME = Path(pyspark.__file__).parent
MINUTE = 60

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Where the cluster has its folders and its settings."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def environment(work):
    """So that Spark's programs find a Java and each other, whatever this machine calls itself."""
    # As a cluster's users would set them.
    configure(work, SMALL | {"spark.executor.memory": "512m"})
    return os.environ | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_CONF_DIR": str(work),
        "SPARK_LOCAL_DIRS": str(work),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
    }


@contextmanager
def daemon(environment, name, *arguments):
    """A program of Spark's, as long as the block lasts; what it logs, line by line, and None when
    it has ended.
    """
    command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments]
    log = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = SimpleQueue()
        reader = Thread(target=lambda: [lines.put(line) for line in chain(process.stdout, [None])])
        reader.start()
        try:
            yield lines
        finally:
            process.terminate()
            reader.join()


def said(lines, pattern):
    """What a daemon logs, as soon as it does."""
    seen = ""
    for line in iter(partial(lines.get, timeout=GUARD), None):
        seen += line
        if found := re.search(pattern, line):
            return found[1]
    pytest.fail(f"it has ended, and has not said {pattern}: {seen}")


@pytest.fixture(scope="module")
def master(work, environment):
    """The address of a master who has two workers."""
    listening = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:
        log = stack.enter_context(daemon(environment, "master.Master", *listening))
        url = said(log, r"(spark://127\.0\.0\.1:\d+)")
        workers = []
        for name in ("one", "two"):
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(work / name)]
            workers.append(
                stack.enter_context(daemon(environment, "worker.Worker", *listening, *room, url))
            )
        for worker in workers:
            said(worker, "(Successfully registered)")
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
    events = [
        Event(START_US + n * MINUTE * 10**6, b"%d" % (n * n % 7), n % 3, 1) for n in range(200)
    ]
    for topic in ("a", "b"):
        broker.create(topic, compaction_window=5 * MINUTE, journal=2**20)
    for number, event in enumerate(events):
        broker.clock.advance(MINUTE if number else 0)
        for topic in ("a", "b"):
            broker.publish(topic, [(event.key, b"%d" % event.hash)])
    words = ["--connect", broker.address, "--master", master, "--windows", "5m,forever", "--json"]
    code, out, err = stats("a", "b", *words)
    assert (code, err) == (0, "")
    for one in json.loads(out):
        found = {(row["window_us"], row["winner"]): row for row in one["what_if"]}
        for window_us in (5 * MINUTE * 10**6, FOREVER_US):
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
        code, out, err = stats(
            "t", "--connect", f"127.0.0.1:{port}", "--master", master, "--html", str(page)
        )
    assert (code, out, page.exists()) == (1, "", False)
    assert re.fullmatch(rf"zaichik: .*127\.0\.0\.1:{port}.* \(Spark's log: .*\)\n", err)


def test_a_master_that_is_none_is_one_sentence(broker, stats):
    broker.create("t")
    broker.publish("t", [(None, b"x")])
    code, out, err = stats("t", "--connect", broker.address, "--master", "nonsense")
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"zaichik: Master must either be yarn or start with spark, .* \(Spark's log: .*\)\n", err
    )


def test_spark_connect_reads_a_topic(broker, environment):
    """The recipe of docs/use/statistics.md, with a server that PySpark starts by itself."""
    broker.create("orders")
    broker.publish("orders", [("k", b"1"), (None, b"2"), ("k", b"3")])
    names = f"server, broker = 'local[2]', {broker.address!r}\n"
    command = [sys.executable, "-c", names + recipe("Spark Connect")]
    done = subprocess.run(
        command,
        env=environment | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=GUARD,
    )
    assert done.returncode == 0, done.stderr
    assert "Row(key=b'k', count=2)" in done.stdout
    assert "Row(key=None, count=1)" in done.stdout
