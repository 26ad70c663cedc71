"""The demo's statistics agree with the broker; where they do not, or cannot be made, the demo says
so.

That Spark counts what the broker has counted is tested in `spark/test_demo`, where a session runs
already.
"""

import argparse
import io
import json
from importlib import import_module
from subprocess import CompletedProcess

import pytest
from rich.console import Console
from small import JAVA

from zaichik.cli import demo_statistics
from zaichik.cli.arguments import add
from zaichik.cli.commands import demo

# Each runs the whole demo, which is measured in `test_demo`.
pytestmark = [pytest.mark.anyio, pytest.mark.unmeasured]

COUNTED = {"published": 1785, "stored": 1631, "compacted": 154}  # on two days
SIX_HOURS = {
    "window_us": 6 * 3_600_000_000,
    "winner": "first",
    "messages": 1785,
    "kept": 1631,
    "differing": 154,
    "delayed": 50,
    "delay_us": 50_000_000,
    "unseen": 104,
}


async def shown():
    """The demo of two days: its exit code, and all it printed."""
    parser = argparse.ArgumentParser()
    add(parser, demo.ARGUMENTS)
    console = Console(file=io.StringIO(), width=200)
    code = await demo.run(parser.parse_args(["--days", "2"]), console)
    return code, console.file.getvalue()


@pytest.fixture
def told(monkeypatch):
    """What takes the place of Spark: put in what it shall tell."""
    done = CompletedProcess([], 0)

    async def run_process(command, **_):
        done.args = command
        return done

    monkeypatch.setattr(demo_statistics.anyio, "run_process", run_process)
    return done


def row_of_six_hours(text):
    (row,) = [line.split() for line in text.splitlines() if line.strip().startswith("6h ")]
    return row


def statistics(account):
    rows = [SIX_HOURS, SIX_HOURS | {"winner": "last"}]
    return json.dumps(
        [{"topic": "flights", "advice": "Take [six] hours.", "account": account, "what_if": rows}]
    )


@pytest.mark.cluster  # starts a Java of its own; `spark/test_demo` is the same without
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_spark_and_the_broker_count_the_same(monkeypatch):
    monkeypatch.setenv("JDK_JAVA_OPTIONS", JAVA)  # half the processor time
    code, text = await shown()
    assert code == 0
    assert "Spark counts 1,785 published, 1,631 stored, 154 compacted" in text
    assert "They match the broker's own counters." in text
    assert row_of_six_hours(text)[:2] == ["6h", "1,631"]
    assert "What next?" in text


async def test_the_table_shows_the_statistics(told):
    told.stdout = statistics(COUNTED)
    code, text = await shown()
    assert code == 0
    assert told.args[2:5] == ["zaichik", "stats", "flights"]
    assert row_of_six_hours(text) == ["6h", "1,631", "91.4%", "8.6%", "2.8%", "1s", "5.8%"]
    assert "Take [six] hours." in text


async def test_a_broker_that_counts_differently_fails_the_demo(told):
    told.stdout = statistics(COUNTED | {"stored": 1630, "compacted": 155})
    code, text = await shown()
    assert code == 1
    assert "But the broker counted 1,785 published, 1,631 stored, 154 compacted" in text
    assert "What next?" not in text


async def test_failing_statistics_fail_the_demo(told):
    told.returncode = 1
    code, text = await shown()
    assert code == 1
    assert "It failed" in text


async def test_without_anything_to_count_with_the_step_is_skipped(monkeypatch):
    monkeypatch.setattr(demo_statistics, "find_spec", lambda name: None)
    code, text = await shown()
    assert code == 0
    assert "This step is skipped: statistics are an extra; get it with" in " ".join(text.split())
    assert "What next?" in text


async def test_without_spark_one_process_counts(monkeypatch):
    find_spec = demo_statistics.find_spec
    monkeypatch.setattr(
        demo_statistics, "find_spec", lambda name: None if name == "pyspark" else find_spec(name)
    )
    code, text = await shown()
    assert code == 0
    assert "One process counts, not Spark: PySpark is not installed" in text
    assert "Counted: 1,785 published, 1,631 stored, 154 compacted" in text
    assert "They match the broker's own counters." in text


async def test_without_java_one_process_counts(monkeypatch, told):
    # By its name: the package has a function of the same name.
    session = import_module("zaichik.apps.spark.session")
    monkeypatch.setattr(session, "_places", list)
    told.stdout = statistics(COUNTED)
    code, text = await shown()
    assert code == 0
    assert "One process counts, not Spark: Spark needs Java 17 or newer" in text
    assert "--master" not in told.args
