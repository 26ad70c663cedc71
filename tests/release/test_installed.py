"""An installation that says or is something else than it should is refused.

Real ones are what `make release` makes.
"""

import json
from types import SimpleNamespace

import pytest

from release.environment import Failed
from release.installed import (
    check_demo,
    check_modules,
    check_round_trip,
    check_tool,
    check_version,
)

pytestmark = pytest.mark.unmeasured

PROJECT = SimpleNamespace(
    name="zaichik", version="0.2.0", hot_modules=lambda: ["zaichik_protocol.codec"]
)


class Fake:
    """An environment whose programs say what they are told to; the first word that is known
    decides.
    """

    def __init__(self, **answers):
        self.answers = answers
        self.exit_code = 0

    def run(self, *command):
        return next((self.answers[word] for word in command if word in self.answers), "")

    def start(self, *_):
        stdout = SimpleNamespace(readline=lambda: self.answers.get("served", '{"port": 8889}\n'))
        ended = {
            "wait": lambda _: self.exit_code,
            "communicate": lambda: None,
            "kill": lambda: None,
        }
        return SimpleNamespace(stdout=stdout, send_signal=lambda _: None, **ended)


def test_another_version_or_build_than_it_should_be_is_refused():
    check_version(Fake(zaichik="zaichik 0.2.0 (compiled)\n"), PROJECT, compiled=True)
    for said in ("zaichik 0.1.0 (compiled)\n", "zaichik 0.2.0 (pure Python)\n"):
        with pytest.raises(Failed, match="instead of 'zaichik 0"):
            check_version(Fake(zaichik=said), PROJECT, compiled=True)


def test_a_command_that_a_tool_has_installed_must_be_of_this_version(tmp_path):
    command = tmp_path / "zaichik"
    for said, is_right in (
        ("zaichik 0.2.0 (pure Python)", True),
        ("zaichik 0.1.0 (compiled)", False),
    ):
        command.write_text(f"#!/bin/sh\necho '{said}'\n", encoding="utf-8")
        command.chmod(0o755)
        if is_right:
            check_tool(command, PROJECT)
        else:
            with pytest.raises(Failed, match=r"the version is 0\.2\.0"):
                check_tool(command, PROJECT)


@pytest.mark.parametrize(
    ("place", "compiled", "told"),
    [
        ("/env/lib/hot.py", True, "should be compiled"),
        ("/env/lib/codec.so", False, "should be Python"),
        ("/clone/hot.py", False, "outside of the environment"),
    ],
)
def test_modules_from_elsewhere_or_of_another_build_are_refused(place, compiled, told):
    with pytest.raises(Failed, match=told):
        check_modules(
            Fake(python=json.dumps(["/env", {"zaichik_protocol.codec": place}])),
            PROJECT,
            compiled=compiled,
        )


def test_modules_of_the_right_build_are_accepted():
    check_modules(
        Fake(python='["/env", {"zaichik_protocol.codec": "/env/lib/codec.so"}]'),
        PROJECT,
        compiled=True,
    )


MESSAGE = {"key": "alice", "payload": "two apples"}


def test_a_message_that_comes_back_changed_is_refused():
    check_round_trip(Fake(subscribe=json.dumps(MESSAGE)))
    with pytest.raises(Failed, match="published was alice: two apples, and this came back: "):
        check_round_trip(Fake(subscribe=json.dumps(MESSAGE | {"key": "bob"})))


def test_a_broker_that_does_not_serve_or_ends_badly_is_refused():
    with pytest.raises(Failed, match="ended with exit code 0 before it served"):
        check_round_trip(Fake(served=""))
    broker = Fake(subscribe=json.dumps(MESSAGE))
    broker.exit_code = 3
    with pytest.raises(Failed, match="zaichik serve ended with exit code 3"):
        check_round_trip(broker)


def test_a_demo_that_says_nothing_is_refused():
    check_demo(Fake(demo="all is well"))
    with pytest.raises(Failed, match="printed nothing"):
        check_demo(Fake(demo=" \n"))
