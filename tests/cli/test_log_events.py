"""The log for programs: names that stay, for everything the broker says."""

import ast
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from offenders import each

from zaichik.cli import log_events

PACKAGE = Path(log_events.__file__).parent.parent
# What runs in `zaichik serve`, or logs for programs as it does: folders and files.
SERVED = [
    "core",
    "server",
    "storage",
    "net",
    "apps/kafka",
    "apps/replication/bridge.py",
    "apps/replication/servers.py",
    "apps/replication/transactions.py",
    "apps/users",
    "apps/web",
    "cli/commands/bridge.py",
    "cli/commands/serve.py",
    "cli/commands/web.py",
    "cli/flight_file.py",
    "cli/front_end.py",
    "cli/log.py",
    "cli/serve_access.py",
    "cli/serve_record.py",
    "cli/serve_beside.py",
]
GATE = "access_gate.py"  # its `_count` logs, too
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
NO_ACTION = "publish"  # in place of one that is known only when it happens


def sentences(path):
    """Returns the sentence of each call to a logger, or to a method that hands it to one."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        if name == "_count" and path.name == GATE:
            yield " ".join(map(text, node.args[:2])).rstrip()
        elif owner.endswith("logger") and name in LEVELS:
            yield text(node.args[0])
        elif (owner.endswith("logger") and name == "log" and path.name != GATE) or (
            owner,
            name,
        ) == ("self", "_say"):
            yield text(node.args[1])


def text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else NO_ACTION for part in node.values
        )
    return node.value


@pytest.fixture(scope="module")
def said():
    found = set()
    for name in SERVED:
        place = PACKAGE / name
        paths = [place] if place.is_file() else place.rglob("*.py")
        for path in paths:
            found.update(sentences(path))
    return found


def test_every_sentence_of_the_broker_has_an_event(said):
    assert said - set(log_events.EVENTS) == set()
    assert len(said) > 30


def test_no_event_is_of_a_sentence_that_is_no_longer_said(said):
    unsaid = set(log_events.EVENTS) - said
    assert {sentence.split(" ")[0] for sentence in unsaid} <= {
        f"forbidden.{action}" for action in ("subscribe", "create", "delete", "describe")
    }


@pytest.mark.unmeasured
def test_the_page_about_logs_is_current():
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", "docs/run/logs.md"]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `make docs`\n{done.stdout}{done.stderr}"


@each("sentence", log_events.EVENTS)
def test_every_value_has_a_name_of_its_own(sentence):
    event, *names = log_events.EVENTS[sentence]
    assert len(re.findall(r"%[srdg]", sentence)) == len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z_.]+", name) for name in (event, *names))
    assert not {"ts", "level", "logger", "event", "message", "traceback", "detail"} & set(names)


def line(sentence, *values, error=None):
    record = logging.LogRecord("zaichik.x", logging.INFO, __file__, 0, sentence, values, error)
    record.created = 1_700_000_000.25
    return log_events.JsonFormatter().format(record)


def test_a_line_has_time_level_logger_event_values_and_sentence():
    assert json.loads(
        line("%s %r disconnected: %s", "10.0.0.1:5", "ana", "SLOW_CONSUMER: it did not read")
    ) == {
        "ts": "2023-11-14T22:13:20.250000Z",
        "level": "info",
        "logger": "zaichik.x",
        "event": "disconnected",
        "peer": "10.0.0.1:5",
        "client": "ana",
        "reason": "SLOW_CONSUMER",
        "detail": "it did not read",
        "message": "10.0.0.1:5 'ana' disconnected: SLOW_CONSUMER: it did not read",
    }


def test_numbers_stay_numbers_and_other_values_become_text():
    assert json.loads(line("a bug in %s, number %d since the start", Path("/x"), 3))["number"] == 3
    assert json.loads(line("a bug in %s, number %d since the start", Path("/x"), 3))["work"] == "/x"


def test_a_sentence_without_an_event_is_a_message():
    told = json.loads(line("something %s", "new"))
    assert (told["event"], told["message"]) == ("message", "something new")


def fail(problem):
    raise ValueError(problem)


def test_a_bug_comes_with_its_traceback_in_the_same_line():
    try:
        fail("a\x1b[2Jb")
    except ValueError as bug:
        written = line(
            "%s: a bug ended this connection",
            "10.0.0.1:5",
            error=(ValueError, bug, bug.__traceback__),
        )
    assert written.isprintable()
    assert json.loads(written)["traceback"].startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize(
    "evil", ["a\nb", "a\x1b[2J", "a\u202eb", "a\u2028b", "\x9b", 'a", "event": "login_ok', "\ud800"]
)
def test_names_cannot_forge_lines_or_fields(evil):
    written = line("topic %s created by %s", evil, "10.0.0.1")
    assert written.isprintable()
    told = json.loads(written)
    assert (told["event"], told["topic"]) == ("topic_created", evil)
