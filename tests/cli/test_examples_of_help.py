"""The examples of `--help`, typed in their order, show what their comments say."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from replicating import LOSSLESS

from zaichik.client import blocking
from zaichik.client.replication.watermark import Watermark, topic_of

pytestmark = pytest.mark.unmeasured  # each command has tests of its own

BIN = os.path.dirname(sys.executable)  # noqa: PTH120 (not resolved: `zaichik` is beside the link)


@pytest.fixture
def connect(start):
    """The environment in which commands find a broker as it comes: topics keep nothing unless told
    to.
    """
    process = start("serve", "--port", "0", "--json", "--log-level", "error")
    ready = json.loads(process.stdout.readline())
    address = f"{ready['host']}:{ready['port']}"
    return os.environ | {"ZAICHIK_CONNECT": address, "PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.fixture
def typed(connect, tmp_path):
    """Type a line; what it printed."""

    def run(line):
        pipe = {
            "cwd": tmp_path,
            "env": connect,
            "text": True,
            "capture_output": True,
            "timeout": 60,
        }
        result = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, check=False, **pipe)
        assert (result.returncode, "Traceback" in result.stderr) == (0, False), (
            line,
            result.stderr,
        )
        return result.stdout

    return run


def examples(zaichik, *words):
    """The lines typed, without their comments."""
    text = zaichik(*words, "--help").out.partition("\nexamples:\n")[2].partition("\n\n")[0]
    return [re.sub(r"\s+# .*", "", line).strip() for line in text.splitlines()]


def test_of_the_program(zaichik, start, connect, typed, monkeypatch):
    serve, reader, publish, *rest, last_reader, more = examples(zaichik)
    assert (serve, more) == ("zaichik serve", "zaichik publish --help")
    process = start(*shlex.split(reader)[1:], env=connect)
    monkeypatch.setenv("ZAICHIK_CONNECT", connect["ZAICHIK_CONNECT"])
    while "waiting for" not in zaichik("describe", "greetings").out:
        assert process.poll() is None
    typed(publish)
    assert process.stdout.readline() == "hello\n"
    for line in rest:
        typed(line)
    assert typed(f"{last_reader} --count 1") == "two apples\n"
    typed(more)


@pytest.fixture
def bridged(connect):
    """A topic of bills that a bridge is said to have taken to Kafka, whatever comes."""
    host, _, port = connect["ZAICHIK_CONNECT"].rpartition(":")
    with blocking.connect(host, int(port)) as client:
        epoch = client.create_topic("bills", **LOSSLESS).epoch
        client.create_topic(topic_of("bills"), capacity=1, retention_ttl="forever")
        client.publish(topic_of("bills"), Watermark(epoch, 1_000_000, ()).encoded())


def without_a_cluster(lines):
    """The others take several brokers, and are typed where there are some."""
    return [line for line in lines if "--cluster" not in line]


@pytest.mark.usefixtures("bridged")
def test_of_publish(zaichik, typed, tmp_path):
    (tmp_path / "access.log").write_text("10.0.0.1 GET /\n")
    (tmp_path / "orders.jsonl").write_text('{"customer": "alice"}\n')
    lines = without_a_cluster(examples(zaichik, "publish"))
    reader = next(line for line in lines if line.startswith("zaichik subscribe"))
    for line in lines:
        if line != reader:
            typed(line.replace("tail -f", "tail"))
    assert typed(f"{reader} --count 4").splitlines() == [
        "hello", "good morning", "how are you?", "--looks-like-an-option",
    ]  # fmt: skip


@pytest.mark.usefixtures("bridged")
def test_of_subscribe(zaichik, typed):
    create, publish, first, *others = without_a_cluster(examples(zaichik, "subscribe"))
    typed(create)
    typed(publish)
    assert typed(f"{first} --count 3").splitlines() == ["one", "two", "three"]
    # That of a pattern needs a topic that matches.
    typed("zaichik create orders.de --retention forever")
    typed("zaichik publish orders.de four")
    typed("zaichik publish bills 1 2 3")
    for line in others:
        if "*" in line:
            typed(f"{line} --count 1")
        elif any(option in line for option in ("--until", "--count", "--forget")):
            typed(line)
        else:
            typed(f"{line} --until 3")


def test_of_watch(zaichik, typed):
    typed("zaichik publish orders x")
    for line in examples(zaichik, "watch"):
        assert "orders" in typed(line)


@pytest.fixture
def programs(tmp_path):
    """Stand-ins for what the examples run, in the folder where they are typed."""
    for name in ("mogrify", "sendmail", "bill", "resize"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nread payload; echo {name} $payload\n")
        program.chmod(0o700)


@pytest.mark.usefixtures("programs")
def test_of_work(zaichik, typed, tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / f"{name}.jpg").touch()
    (tmp_path / "mails.txt").write_text("dear\n")
    # Published to before there is a worker, a topic as it comes may keep nothing until then.
    for topic in ("images", "mails", "orders"):
        typed(f"zaichik create {topic} --retention forever --overflow reject")
    found = []
    for line in examples(zaichik, "work"):
        if " work " not in line:
            found.append(typed(line))
            continue
        topic = line.split()[2]
        typed(f"zaichik publish {topic} job --key alice")
        if "--until-empty" not in line:
            line = line.replace(" -- ", " --until-empty -- ")
        found.append(typed(f"PATH=.:$PATH {line}"))
    assert found == [
        "mogrify\n", "", "sendmail job\n", "bill job\n",
        "resize cat.jpg\nresize dog.jpg\nresize job\nfinished\n", "",
    ]  # fmt: skip


def test_of_dead(zaichik, typed):
    topic = "zaichik create images --retention forever --overflow reject"
    numbers = " ".join(map(str, range(19)))
    kill = "zaichik work images --name thumbs --until-empty -- sh -c 'exit 65' || true"
    typed(topic)
    typed(f"zaichik publish images {numbers}")
    typed(kill)
    for line in examples(zaichik, "dead"):
        # One that was revived, or moved away, dies again.
        if "--forget 17 18" in line or "--export" in line:
            typed(kill)
        if "--follow" in line:
            line = line.replace(" --follow", "")
        if "--json" in line:
            typed(kill)
            line = line.partition(" | ")[0]
        typed(line)
