"""`zaichik clock`, `serve --clock manual`, and the lesson of docs/teach/clock.md (TIM-4)."""

import json
import re
import shlex
import time
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from zaichik import ManualClock, running_broker
from zaichik.base.clock import LAST_US
from zaichik.client.client import Client
from zaichik.client.errors import Unsupported
from zaichik_protocol import AdvanceClock, Error, ErrorCode

LESSON = Path(__file__).parents[2] / "docs" / "teach" / "clock.md"
START_US, HOUR_US = 1_700_000_000_000_000, 3_600_000_000
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d")


@pytest.fixture
def by_hand(start, monkeypatch):
    """A broker whose clock stands still, which all commands talk to."""

    def serve(*options):
        process = start("serve", "--port", "0", "--clock", "manual", "--json", *options)
        told = json.loads(process.stdout.readline())
        monkeypatch.setenv("ZAICHIK_CONNECT", f"127.0.0.1:{told['port']}")
        return told

    return serve


def blocks(text):
    """The commands of each block of a document, with what they print."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        yield [
            (line, out)
            for line, out in re.findall(
                r"^\$ zaichik (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE
            )
        ]


def test_the_lesson_is_what_happens(by_hand, zaichik):
    """Word for word, but for what the time is."""
    [(serve, _)], *lessons = blocks(LESSON.read_text(encoding="utf-8"))
    words = shlex.split(serve)
    assert words[:3] == ["serve", "--clock", "manual"]
    by_hand(*words[3:])
    commands = [command for lesson in lessons for command in lesson]
    assert len(commands) == 5
    for line, printed in commands:
        result = zaichik(*shlex.split(line))
        assert (result.code, TIME.sub("TIME", result.out)) == (0, TIME.sub("TIME", printed)), line


@pytest.fixture
def inside(monkeypatch):
    """The same, within this process."""
    running = running_broker(clock=ManualClock(START_US))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running) as server:
        monkeypatch.setenv("ZAICHIK_CONNECT", f"{server.host}:{server.port}")
        yield


def test_the_clock_stands_still_and_is_advanced(inside, zaichik):
    before, again = (zaichik("clock", "--json").json for _ in range(2))
    assert before == again == {"now_us": START_US, "clock": "manual"}
    assert zaichik("clock", "advance", "1h", "--json").json == {
        "now_us": START_US + HOUR_US,
        "clock": "manual",
    }
    assert TIME.sub("TIME", zaichik("clock").out) == "TIME, it stands still\n"


def test_a_broker_says_that_its_clock_stands_still(start):
    process = start("serve", "0", "--clock", "manual")
    process.stdout.readline()
    assert (
        process.stdout.readline()
        == "its clock stands still; to move it: zaichik clock advance 1h\n"
    )


def test_a_clock_that_moves_by_itself_is_shown_and_not_moved(connected, zaichik):
    told = zaichik("clock", "--json").json
    assert told["clock"] == "system"
    result = zaichik("clock", "advance", "1h")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "cannot advance its clock" in result.err
    assert "zaichik serve --clock manual" in result.err
    assert zaichik("clock", "--json").json["now_us"] - told["now_us"] < HOUR_US
    assert zaichik("clock").out.endswith(", it moves by itself\n")


@pytest.mark.parametrize(
    "words",
    [
        ["advance"],
        ["advance", "x"],
        ["advance", "forever"],
        ["back", "1h"],
        ["advance", "1h", "1h"],
        ["1h"],
    ],
)
def test_wrong_usage(zaichik, words):
    result = zaichik("clock", *words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("text", ["-1h", "-5", "-.5d", "-forever"])
def test_a_negative_duration_is_told_from_an_option(zaichik, text):
    separator = [] if text[1:2] in "15." else ["--"]
    result = zaichik("clock", "advance", *separator, text)
    sentence = f"{text} would set the clock back, and no clock can be set back"
    assert (result.code, result.out, result.err) == (
        2,
        "",
        f"zaichik: {sentence} (see: zaichik clock --help)\n",
    )


def test_no_further_than_there_are_dates(inside, zaichik):
    before = zaichik("clock").out
    result = zaichik("clock", "advance", "3000000d")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert (
        "time is 3,000,000.0 days from now; it must be now (it never goes back) to the year 9799"
        in result.err
    )
    assert zaichik("clock").out == before


def test_the_last_time_and_what_expires_after_it_can_be_shown(inside, zaichik, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # where it is later than anywhere else
    time.tzset()
    assert zaichik("create", "t", "--retention", "36525d").code == 0
    assert zaichik("clock", "advance", f"{(LAST_US - START_US) // 1_000_000}s").code == 0
    assert zaichik("publish", "t", "x").code == 0
    for command in (("clock",), ("explain", "t", "--offset", "0"), ("describe", "t")):
        result = zaichik(*command)
        assert (result.code, result.err) == (0, ""), command


def test_it_is_for_topics_in_memory(zaichik, tmp_path):
    """DUR-8."""
    result = zaichik("serve", "0", "--clock", "manual", "--data", str(tmp_path / "topics"))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "leave out --data" in result.err
    assert not (tmp_path / "topics").exists()


def test_strangers_cannot_move_it(zaichik):
    result = zaichik("serve", "0", "--clock", "manual", "--host", "0.0.0.0", "--insecure")  # noqa: S104
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "anyone there could move the clock" in result.err


def test_where_there_are_users_it_takes_a_right(by_hand, zaichik, monkeypatch, tmp_path):
    """ACC-2; and a login goes by the machine's time."""
    logins = by_hand("--init-access", str(tmp_path / "access"))["logins"]
    monkeypatch.setenv("ZAICHIK_CONNECT", logins["class"])
    refused = zaichik("clock", "advance", "1h")
    assert (refused.code, "has no right to delete '$broker'" in refused.err) == (1, True)
    assert zaichik("clock").code == 0
    monkeypatch.setenv("ZAICHIK_CONNECT", logins["admin"])
    assert zaichik("clock", "advance", "1h").code == 0


def test_a_login_expires_by_the_machine_s_time(by_hand, zaichik, monkeypatch, tmp_path):
    """ACC-4: a teacher who advances a day does not lock the class out."""
    line = by_hand("--init-access", str(tmp_path / "access"))["logins"]["admin"]
    added = zaichik(
        "user", "token", "add", "admin", "--expires", "1h", "--access", str(tmp_path / "access")
    )
    token = re.search(r"zk_[\w-]+", added.out)[0]
    port = by_hand("--access", str(tmp_path / "access"))["port"]
    monkeypatch.setenv(
        "ZAICHIK_CONNECT", re.sub(r"zk_[\w-]+@127.0.0.1:\d+", f"{token}@127.0.0.1:{port}", line)
    )
    assert zaichik("clock", "advance", "1000d").code == 0
    assert zaichik("clock").code == 0


def test_an_older_broker(connected, zaichik, monkeypatch):
    async def refused(self, by):
        raise Unsupported(
            Error(1, ErrorCode.UNSUPPORTED, AdvanceClock.TYPE, "type", 0, "not known here")
        )

    monkeypatch.setattr(Client, "advance_clock", refused)
    result = zaichik("clock", "advance", "1s")
    assert (result.code, "cannot advance its clock" in result.err) == (1, True)
