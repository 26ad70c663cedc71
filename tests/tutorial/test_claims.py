"""A step passes the stages its chapter claims, and fails the next one (I5).

In the ordinary run each is asked for the stages of its own chapter; `make tutorial-full` asks for
all before them, too.
"""

import sys

import anyio
import pytest
from chapter import all_chapters

from zaichik.learn import snapshots
from zaichik.learn.config import Config
from zaichik.learn.runner import run_check
from zaichik.learn.server import Launcher
from zaichik.learn.snapshots import END
from zaichik.learn.stages import CHECKS, STAGES
from zaichik.learn.trial import Pace

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.unmeasured,
]  # the tester has tests of its own, in tests/learn

PATIENT, QUICK = Pace(scale=0.5, patience=20.0), Pace(scale=0.5, patience=0.5)
UNHURRIED = Pace(scale=1.0, patience=20.0)
AT_ONCE = 6  # checks of one broker: most of them wait most of the time
ALONE = {check.id for check in CHECKS.values() if check.heavy} | {
    "S14.10"
}  # whose server has three seconds to stop
STEPS = [(chapter, name) for chapter in all_chapters() for name in chapter.stages]
each_step = pytest.mark.parametrize(
    ("chapter", "name"), STEPS, ids=[f"{c.folder.name}-{n}" for c, n in STEPS]
)


@pytest.fixture
def anyio_backend():
    """The brokers are processes of their own; the loop that asks them makes no difference."""
    return "asyncio"


@pytest.fixture
async def broker(chapter, name, tmp_path):
    """A step's program, started when it is first asked."""
    for file, text in chapter.program(name).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    launcher = Launcher(Config(tmp_path, (sys.executable, "broker.py")))
    yield launcher
    await launcher.stop()


def checks_of(stages):
    return [check.id for stage in stages for check in stage.checks]


def is_next_passed(chapter):
    """Whether the chapter says so: then there is nothing for the next one to build."""
    return snapshots.facts(chapter.folder).get("next") == "passed"


async def outcome(name, launcher, pace):
    """Of one check with one seed; neighbours have different patterns."""
    number = list(CHECKS).index(name)
    return (await run_check(CHECKS[name], launcher, [number], pace)).outcome


async def outcomes(names, launcher):
    """Of several checks: some at once; those that load the machine, or that time decided nothing
    about, one by one.
    """
    came = {}
    limit = anyio.Semaphore(AT_ONCE)

    async def one(name):
        async with limit:
            came[name] = await outcome(name, launcher, PATIENT)

    async with anyio.create_task_group() as tasks:
        for name in names:
            if name not in ALONE:
                tasks.start_soon(one, name)
    for name in names:
        if name in ALONE:
            await one(name)
        elif came[name] == "inconclusive":
            came[name] = await outcome(name, launcher, UNHURRIED)
    return came


@each_step
async def test_a_step_passes_the_stages_of_its_chapter(chapter, name, broker):
    claim = chapter.stages[name]
    if isinstance(claim, dict):
        names = claim["passes"]
    else:
        mine = [stage for stage in STAGES[: claim + 1] if stage.chapter == chapter.number]
        names = checks_of(mine or STAGES[claim : claim + 1])
    assert await outcomes(names, broker) == dict.fromkeys(names, "passed")


@pytest.mark.full
@each_step
async def test_a_step_passes_every_stage_up_to_there(chapter, name, broker):
    claim = chapter.stages[name]
    upto = claim.get("upto", -1) if isinstance(claim, dict) else claim
    names = checks_of(STAGES[: upto + 1])
    assert await outcomes(names, broker) == dict.fromkeys(names, "passed")


@each_step
async def test_a_step_fails_the_next_stage(chapter, name, broker):
    claim = chapter.stages[name]
    names = claim["fails"] if isinstance(claim, dict) else checks_of(STAGES[claim + 1 : claim + 2])
    if (
        is_next_passed(chapter) or chapter.number == 14
    ):  # what comes after is not for the reader's broker
        return
    for check in names:
        if await outcome(check, broker, QUICK) == "failed":
            return
    pytest.fail(f"none of {names} fails: does the chapter claim too little?")


def test_the_chapters_claim_more_and_more():
    last = [
        chapter.stages[END]
        for chapter in all_chapters()
        if END in chapter.stages and not chapter.is_optional
    ]
    assert last == sorted(last)
    # What follows is the last chapter's, in which the reader's own broker is left for the real one.
    assert last[-1] == max(stage.number for stage in STAGES if stage.chapter < STAGES[-1].chapter)
    assert [chapter.shipped for chapter in all_chapters() if chapter.shipped is not None] == [
        STAGES[-1].number
    ]


def test_a_chapter_ends_with_the_last_of_its_stages():
    for chapter in all_chapters():
        mine = [stage.number for stage in STAGES if stage.chapter == chapter.number]
        if mine:
            assert chapter.stages.get(END, chapter.shipped) == mine[-1]
