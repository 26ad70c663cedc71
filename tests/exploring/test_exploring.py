"""Every short story of a few verbs; `make explore` tries longer ones, of all verbs there are. And
does it find anything?
"""

import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from exploring import __main__ as command
from exploring import report
from exploring.planted_slips import SLIPS
from exploring.search import Search
from exploring.state import BEGIN_US, digest
from exploring.world import KINDS, VERBS, World, verb_of

pytestmark = pytest.mark.unmeasured  # nothing of the broker that its own tests do not run

ROOT = Path(__file__).parents[2]
FEW = [
    "publish",
    "publish two",
    "a ms passes",
    "sweep",
    "subscribes",
    "takes a turn",
    "commits all",
]


def searched(kind, steps, verbs):
    """A search of so many steps, and what it has found."""
    search = Search(kind, verbs)
    wrong = None
    while wrong is None and search.covered.steps < steps:
        wrong = search.go_on()
    return search, wrong


def steps_of(story):
    return tuple(story.split(", "))


def ended(*steps):
    world = World("retained")
    for step in steps:
        world.take(step)
    return world


# -- core and model agree ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_core_and_model_agree_in_every_story_of_two_steps(kind):
    search, wrong = searched(kind, 2, list(VERBS))
    assert wrong is None
    assert search.covered.stories > search.covered.tried.total() > search.covered.states > 50


def test_core_and_model_agree_in_every_story_of_four_steps():
    """P1, P2, P4: whatever happens, in whichever order."""
    search, wrong = searched("retained", 4, FEW)
    assert wrong is None
    assert search.covered.tried.keys() == set(FEW)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_core_and_model_agree_in_every_story_of_three_steps_of_any_verb(kind):
    search, wrong = searched(kind, 3, list(VERBS))
    assert wrong is None
    assert search.covered.tried.keys() >= VERBS.keys() - {"commits one", "commits all"}


# -- does it find anything? ----------------------------------------------------------------------


@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.name)
def test_a_slip_is_found_with_a_shortest_story(slip, monkeypatch):
    slip.plant(monkeypatch)
    story = steps_of(slip.story)
    needed = {*FEW, *map(verb_of, story)}
    _, wrong = searched(slip.kind, len(story), [name for name in VERBS if name in needed])
    assert wrong is not None
    assert wrong.story == story


@pytest.mark.usefixtures("patchable")
def test_what_is_wrong_is_told_with_all_requests(monkeypatch):
    (slip,) = (slip for slip in SLIPS if "again" in slip.story)
    slip.plant(monkeypatch)
    _, wrong = searched("retained", 2, ["publish numbered", "publish the number again"])
    told = report.wrong("retained", wrong).splitlines()
    assert told[0] == "retained: core and model do not agree after 2 steps, and never after fewer"
    assert told[1] == "  1 publish numbered"
    assert told[3] == "  2 publish the number again"
    for line in told[2], told[4]:
        assert line.startswith("      Publish(id=1000000, producer=7, sequence=0, topic='a'")
    assert "assert_reply" in "\n".join(told[5:])


# -- when two stories lead to the same -----------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("publish", "publish, sweep"),
        ("publish", "a ms passes, sweep, publish, delete if empty"),
        ("A subscribes, publish", "A subscribes, A commits too much, publish"),
    ],
)
def test_two_stories_that_end_alike_are_one(one, other):
    assert ended(*steps_of(one)).digest() == ended(*steps_of(other)).digest()


@pytest.mark.parametrize(
    "other", ["publish keyed", "publish, publish", "publish, a ms passes", "publish, A subscribes"]
)
def test_two_stories_that_may_go_on_differently_are_two(other):
    assert ended("publish").digest() != ended(*steps_of(other)).digest()


@pytest.mark.usefixtures("patchable")  # compiled, the core cannot be seen
def test_a_topics_settings_make_a_difference():
    world = ended("publish")
    before = world.digest()
    (topic,) = world.core.registry
    topic.settings = replace(topic.settings, overflow=1)
    assert world.digest() != before


@pytest.mark.usefixtures("patchable")  # compiled, the core cannot be seen
def test_what_a_topic_has_found_last_makes_a_difference():
    """B, who comes next, is given what is found there. All else is the same."""
    begins = "publish, publish, A subscribes, B subscribes, A takes a turn"
    one = ended(*steps_of(f"{begins}, B takes a turn, A commits all, A takes a turn"))
    other = ended(*steps_of(f"{begins}, A commits all, A takes a turn, B takes a turn"))
    assert one.digest() != other.digest()


class Named(NamedTuple):
    held: int


def keeping(held):
    """A function that keeps something."""
    return lambda: held


class Held:
    """An object that holds something, and knows itself."""

    __slots__ = ("about", "held")

    def __init__(self, held):
        self.about = self
        self.held = held


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [2, 1]),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"a": 2}),
        (-1, -2),
        (1, True),
        ({1}, {2}),
        ([], 0),
        (Named(1), Named(2)),
        (keeping(1), keeping(2)),
    ],
)
def test_all_that_an_object_holds_counts(one, other):
    assert digest(Held(one), BEGIN_US) != digest(Held(other), BEGIN_US)
    assert digest(Held(one), BEGIN_US) == digest(Held(one), BEGIN_US)


@pytest.mark.parametrize("opaque", [iter([1]), object()], ids=["iterator", "object"])
def test_what_cannot_be_seen_is_an_error(opaque):
    with pytest.raises(TypeError, match="cannot be seen"):
        digest(Held(opaque), BEGIN_US)


def test_a_time_is_an_age():
    now_us = BEGIN_US + 1_000
    assert digest(Held(BEGIN_US), BEGIN_US) == digest(Held(now_us), now_us)
    assert digest(Held(BEGIN_US), now_us) != digest(Held(now_us), now_us)
    assert digest(Held(BEGIN_US), now_us + 8_000) == digest(Held(now_us), now_us + 8_000)


# -- the command ---------------------------------------------------------------------------------


def test_the_command_says_how_much_it_has_covered(capsys):
    assert command.main(["--steps", "2", "--kind", "retained", "--only", "publish, sweep"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"retained: all 6 stories of up to 2 steps; 3 states, 4 steps tried, \d+ s", lines[1]
    )
    assert lines[2] == "retained: how often each step was tried"
    assert [line.split(maxsplit=1) for line in lines[3:]] == [["2", "publish"], ["2", "sweep"]]


@pytest.mark.usefixtures("patchable")
def test_the_command_fails_if_a_story_goes_wrong(monkeypatch, capsys):
    (slip,) = (slip for slip in SLIPS if "names of a deleted topic" in slip.name)
    slip.plant(monkeypatch)
    assert command.main(["--steps", "3", "--only", "subscribes by name, delete"]) == 1
    assert "  2 delete\n" in capsys.readouterr().out


def test_the_command_refuses_verbs_that_do_not_exist(capsys):
    with pytest.raises(SystemExit) as refused:
        command.main(["--only", "publish, fly"])
    assert refused.value.code == 2
    assert "there is no 'fly'" in capsys.readouterr().err


@pytest.mark.long
def test_ctrl_c_ends_it_with_what_it_has_covered():
    with subprocess.Popen(
        [sys.executable, "-m", "tests.exploring", "--steps", "9"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert first.startswith("retained: all 11 stories")
    assert "publish" in out
    assert "stopped in step" in err
    assert "Traceback" not in err
    assert process.returncode == command.INTERRUPTED
