"""Every example runs: alone and at a running broker, and twice, because a student runs everything twice."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from code_lines import code_lines

from zaichik import running_broker

pytestmark = pytest.mark.unmeasured  # they run no line that the tests of client and broker do not run

EXAMPLES = Path(__file__).parent.parent / "examples"
CODE_LINES = 40  # what a student reads in one go

SAYS = {
    "echo.py": ["published b'three'", "got b'three' back, offset 2"],
    "retention.py": ["kept: a latecomer gets [b'it rains'", "fleeting: a latecomer gets []"],
    "compaction.py": ["2 stored, 99 compacted"],
    "slow_reader.py": ["offsets 10 to 899 are gone", "received 110 + lagged 890 = published 1000"],
    "flights.py": ["2,699 published = "],
}
ARGUMENTS = {"flights.py": ["--days", "3"]}


def output(name, *arguments):
    """What an example prints, without what its topics' names have at random. It must succeed."""
    command = [sys.executable, EXAMPLES / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return re.sub(r"-[0-9a-f]{8}\b", "", done.stdout)


@pytest.fixture(scope="module")
def address():
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running_broker()) as broker:
        yield f"{broker.host}:{broker.port}"


def test_every_example_is_tested():
    in_tests_of_spark = "compaction_stats.py"  # where a session runs already
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SAYS, "at_broker.py", in_tests_of_spark}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_at_a_broker_of_its_own_does_the_same_each_time(name):
    first = output(name, *ARGUMENTS.get(name, ()))
    assert all(words in first for words in SAYS[name])
    assert output(name, *ARGUMENTS.get(name, ())) == first


@pytest.mark.parametrize("name", SAYS)
def test_an_example_at_a_running_broker_does_the_same_each_time(name, address):
    first = output(name, *ARGUMENTS.get(name, ()), "--connect", address)
    assert all(words in first for words in SAYS[name])
    assert output(name, *ARGUMENTS.get(name, ()), "--connect", address) == first


@pytest.mark.soak
def test_a_year_of_flights():
    """Over TCP, minute by minute; `test_departures` holds the README's figures against the core in every run."""
    printed = output("flights.py")
    assert "336,776 published = 305,960 stored + 30,816 compacted" in printed
    assert "the stored messages of the last week: 5,639" in printed
    shown = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")  # what a reader is told to expect
    assert re.search(r" flights +336,776 +305,960 +30,816 +5,639 +300,321 +0\n", shown)


def test_an_address_that_is_none_is_explained():
    command = [sys.executable, EXAMPLES / "echo.py", "--connect", "8889"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "'8889' is not HOST:PORT" in done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(code_lines(path)) <= CODE_LINES


@pytest.mark.parametrize("name", SAYS)
def test_an_example_checks_its_own_result(name):
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse((EXAMPLES / name).read_text())))
