"""A snapshot passes the stages its chapter claims, and fails the next one (I5)."""

import sys

import pytest
from chapter import all_chapters

from zaichik.learn.config import Config
from zaichik.learn.runner import run_check
from zaichik.learn.server import Launcher
from zaichik.learn.stages import CHECKS, STAGES
from zaichik.learn.trial import Pace

pytestmark = pytest.mark.anyio

PATIENT, QUICK = Pace(scale=0.5, patience=20.0), Pace(scale=0.5, patience=0.5)
SNAPSHOTS = [(chapter, name) for chapter in all_chapters() for name in chapter.stages]


@pytest.fixture
def anyio_backend():
    """The snapshots are processes of their own; the loop that asks them makes no difference."""
    return "asyncio"


def claims(chapter, name):
    """The checks that must pass, and those of which one must fail."""
    claim = chapter.stages[name]
    if isinstance(claim, dict):
        return claim["passes"], claim["fails"]
    passes = [check.id for stage in STAGES[: claim + 1] for check in stage.checks]
    return passes, [check.id for check in STAGES[claim + 1].checks]


async def outcome(name, launcher, pace):
    """Of one check with one seed; neighbours have different patterns."""
    number = list(CHECKS).index(name)
    return (await run_check(CHECKS[name], launcher, [number], pace)).outcome


@pytest.mark.parametrize(("chapter", "name"), SNAPSHOTS, ids=[f"{c.folder.name}-{n}" for c, n in SNAPSHOTS])
async def test_a_snapshot_passes_what_is_claimed_and_no_more(chapter, name):
    passes, fails = claims(chapter, name)
    launcher = Launcher(Config(chapter.folder / name, (sys.executable, "broker.py")))
    try:
        for check in passes:
            assert await outcome(check, launcher, PATIENT) == "passed", check
    finally:
        await launcher.stop()
    for check in fails:
        launcher = Launcher(Config(chapter.folder / name, (sys.executable, "broker.py")))
        try:
            if await outcome(check, launcher, QUICK) == "failed":
                return
        finally:
            await launcher.stop()
    pytest.fail(f"none of {fails} fails: does the chapter claim too little?")


def test_the_chapters_claim_more_and_more():
    last = [chapter.stages.get("end", -1) for chapter in all_chapters()]
    assert last == sorted(last)
    assert last[-1] >= 4


def test_a_chapter_ends_with_the_last_of_its_stages():
    for chapter in all_chapters():
        mine = [stage.number for stage in STAGES if stage.chapter == chapter.number]
        if mine:
            assert chapter.stages["end"] == mine[-1]
