"""Every example runs: alone and at a running broker, and twice, because a student runs everything
twice.
"""

import ast
import re
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from code_lines import code_lines

from zaichik import running_broker
from zaichik.learn import wire

pytestmark = (
    pytest.mark.unmeasured
)  # they run no line that the tests of client and broker do not run

EXAMPLES = Path(__file__).parent.parent / "examples"
CODE_LINES = 40  # what a student reads in one go

SAYS = {
    "echo.py": ["published b'three'", "got b'three' back, offset 2"],
    "retention.py": ["kept: a latecomer gets [b'it rains'", "fleeting: a latecomer gets []"],
    "compaction.py": ["2 stored, 99 compacted"],
    "slow_reader.py": ["offsets 10 to 899 are gone", "received 110 + lagged 890 = published 1000"],
    "patterns.py": [
        "fr is gone: the next message to be read was offset 1",
        "countries: ['de', 'fr']",
    ],
    "table.py": ["offset 4: b'pear' was deleted", "now: {b'plum': b'20', b'apple': b'35'}"],
    "workers.py": [
        "offset 2, delivery 2: there is no image",
        "all but offset 2 are smaller now; it is dead",
    ],
    "flights.py": ["2,699 published = "],
}
ARGUMENTS = {"flights.py": ["--days", "3"]}


def run(name, *arguments):
    """An example as a process, once it has ended."""
    command = [sys.executable, EXAMPLES / name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def output(name, *arguments):
    """What an example prints, without what its topics' names have at random. It must succeed."""
    done = run(name, *arguments)
    assert done.returncode == 0, done.stderr
    return re.sub(r"-[0-9a-f]{8}\b", "", done.stdout)


@pytest.fixture(scope="module")
def address():
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_broker()) as broker,
    ):
        yield f"{broker.host}:{broker.port}"


def test_every_example_is_tested():
    in_tests_of_spark = "compaction_stats.py"  # where a session runs already
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        *SAYS,
        "at_broker.py",
        in_tests_of_spark,
    }


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


class Refusing(socketserver.StreamRequestHandler):
    """A broker that welcomes everybody, and offers nothing."""

    def handle(self):
        while length := int.from_bytes(self.rfile.read(4), "little"):
            body = self.rfile.read(length)
            kind, frame_id = body[0], int.from_bytes(body[4:8], "little")
            how = {"frame_id": frame_id}
            if kind == wire.TYPES["Hello"]:
                limits = {
                    "max_frame": 2**20,
                    "max_batch": 1000,
                    "max_message": 2**19,
                    "max_credit": 1000,
                }
                frame = wire.encode(
                    "Welcome",
                    version=1,
                    features=0,
                    boot=1,
                    idle_ms=0,
                    broker="stub",
                    **limits,
                    **how,
                )
            else:
                said = {"field": "type", "retry_after_ms": 0, "message": "no such request here"}
                frame = wire.encode("Error", code=65, request_type=kind, **said, **how)
            self.wfile.write(frame)


@pytest.fixture
def refusing():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("name", SAYS)
def test_an_example_at_a_broker_that_does_not_offer_what_it_needs_says_so_in_a_sentence(
    name, refusing
):
    done = run(name, *ARGUMENTS.get(name, ()), "--connect", refusing)
    needed = "Describe, a request" if name == "flights.py" else "a request"
    said = (
        f"This broker does not offer {needed} that the example needs. It says: no such request "
        "here [UNSUPPORTED]\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_an_example_where_no_broker_is_says_so_in_a_sentence():
    done = run("echo.py", "--connect", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("no broker answers at 127.0.0.1:1 ")
    assert done.stderr.count("\n") == 1


@pytest.mark.soak
def test_a_year_of_flights():
    """Over TCP, minute by minute; `test_departures` holds the figures of docs/teach/demo.md
    against the core in every run.
    """
    printed = output("flights.py")
    assert "336,776 published = 305,960 stored + 30,816 compacted" in printed
    assert "the stored messages of the last week: 5,639" in printed
    shown = (EXAMPLES.parent / "docs" / "teach" / "demo.md").read_text(
        encoding="utf-8"
    )  # what a reader is told to expect
    assert re.search(r" flights +336,776 +305,960 +30,816 +5,639 +300,321 +0\n", shown)


def test_an_address_that_is_none_is_explained():
    done = run("echo.py", "--connect", "8889")
    assert done.returncode == 2
    assert "'8889' is not HOST:PORT" in done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(code_lines(path)) <= CODE_LINES


@pytest.mark.parametrize("name", SAYS)
def test_an_example_checks_its_own_result(name):
    assert any(
        isinstance(node, ast.Assert) for node in ast.walk(ast.parse((EXAMPLES / name).read_text()))
    )
