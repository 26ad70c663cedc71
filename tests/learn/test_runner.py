"""Seeds, retries, results; and what they look like, compared with golden transcripts."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from learn_hosts import answering, run, tiny
from learn_mutants import MUTANTS

from zaichik.learn import examination, runner, story
from zaichik.learn.examination import Plan
from zaichik.learn.external import ExternalBroker
from zaichik.learn.failure import Failure, Inconclusive, Skipped
from zaichik.learn.progress import Progress
from zaichik.learn.runner import Result, ServerError, run_check
from zaichik.learn.stage import Check
from zaichik.learn.stages import CHECKS
from zaichik.learn.trial import Pace, Target

pytestmark = pytest.mark.anyio

NOWHERE = ExternalBroker(Target("127.0.0.1", 1))
GOLDEN = Path(__file__).parent / "golden"


def check_of(function, *, stage=5, once=False):
    return Check(f"S{stage}.1", stage, "a check", ("a hint",) * 3, function, once=once)


async def test_every_seed_is_run_and_decides_pattern_and_chance():
    met = []

    async def note(trial):
        met.append((trial.seed, trial.pattern.name, trial.rng.random()))

    result = await run_check(check_of(note), NOWHERE, (3, 4, 5), Pace())
    assert result.outcome == "passed"
    assert [pattern for _, pattern, _ in sorted(met)] == ["WHOLE", "DRIPPED", "GLUED"]
    before, met[:] = sorted(met), []
    await run_check(check_of(note), NOWHERE, (3, 4, 5), Pace())
    assert sorted(met) == before
    met.clear()
    await run_check(check_of(note, stage=1), NOWHERE, (3, 4, 5), Pace())
    assert {pattern for _, pattern, _ in met} == {"WHOLE"}
    met.clear()
    await run_check(check_of(note, once=True), NOWHERE, (3, 4, 5), Pace())
    assert len(met) == 1


async def test_what_time_cannot_decide_is_tried_again_more_slowly():
    scales = []

    async def unclear(trial):
        scales.append((trial.scale, trial.patience))
        if len(scales) < 3:
            raise Inconclusive("too late")

    assert (await run_check(check_of(unclear), NOWHERE, [1], Pace(0.5, 2))).outcome == "passed"
    assert scales == [(0.5, 2), (1, 4), (2, 8)]


async def test_what_stays_undecided_is_inconclusive_and_bad():
    async def unclear(_trial):
        raise Inconclusive("too late")

    result = await run_check(check_of(unclear), NOWHERE, [1], Pace())
    assert (result.outcome, result.is_bad) == ("inconclusive", True)
    assert result.reason == "too late, even at a time scale of 8"


@pytest.mark.parametrize("others", [[], [Inconclusive("x")]])
async def test_verdicts_of_several_tasks_are_one_failure(others):
    async def several(_trial):
        raise ExceptionGroup("tasks", [*others, ExceptionGroup("more", [Failure("this")])])

    result = await run_check(check_of(several), NOWHERE, [1], Pace())
    assert result.failure.summary == "this"


async def test_a_bug_of_a_check_is_not_blamed_on_the_broker():
    async def wrong(_trial):
        raise ExceptionGroup("tasks", [Failure("this"), ZeroDivisionError()])

    with pytest.raises(ExceptionGroup):
        await run_check(check_of(wrong, stage=1), NOWHERE, [1], Pace())


@pytest.mark.parametrize("stage", [1, 5])
async def test_without_a_server_that_is_told_and_nothing_else(stage):
    """Also where the seeds run at the same time."""

    class Ended(ExternalBroker):
        async def ready(self):
            raise ServerError("it has ended")

    with pytest.raises(ServerError, match="it has ended"):
        await run_check(
            check_of(None, stage=stage), Ended(Target("127.0.0.1", 1)), [1, 2, 3], Pace()
        )


async def test_a_server_that_hangs_a_check_fails_it(monkeypatch):
    monkeypatch.setattr(runner, "LONGEST_TRIAL_S", 0.01)

    async def hang(_trial):
        await anyio.sleep_forever()

    result = await run_check(check_of(hang), NOWHERE, [1], Pace())
    assert result.failure.summary == "the check did not end within 0.01 s"


async def test_a_failure_outranks_what_was_skipped():
    async def mixed(trial):
        raise Skipped("not here") if trial.seed == 1 else Failure("wrong")

    assert (await run_check(check_of(mixed), NOWHERE, (1, 2), Pace())).outcome == "failed"
    assert (await run_check(check_of(mixed), NOWHERE, (1,), Pace())).outcome == "skipped"


@pytest.mark.parametrize(("keep_going", "count"), [(False, 1), (True, 3)])
async def test_the_first_failure_ends_the_run_unless_told_otherwise(keep_going, count):
    async def bad(_trial):
        raise Failure("wrong")

    plan = Plan((1,), Pace(), keep_going)
    results = [result async for result in examination.examine([check_of(bad)] * 3, NOWHERE, plan)]
    assert len(results) == count


def test_a_stage_is_passed_when_every_check_of_it_was_run():
    whole = [
        Result(check, "passed", (1, 2, 3), 0.1) for check in CHECKS.values() if check.stage == 2
    ]
    known = Progress()
    examination.record(known, whole[:-1])
    examination.record(
        known, [replace(result, seeds=(1,)) for result in whole]
    )  # one pattern of three
    assert known.passed == []
    examination.record(known, whole)
    assert known.passed == [2]
    examination.record(known, [replace(whole[0], outcome="failed", seed=7)])
    assert (known.passed, known.failed, known.seed) == ([2], "S2.1", 7)  # it has passed


def test_the_current_stage_is_the_last_of_those_that_have_passed_from_the_beginning():
    known = Progress()
    for stage, here in ((0, 0), (2, 0), (1, 1), (3, 3), (1, 3)):
        known.record(stage, "", None)
        assert known.stage == here


# -- golden transcripts --------------------------------------------------------------------------


def masked(text):
    """Times, ports, and the numbers that differ from run to run."""
    text = re.sub(r" *\d+\.\d{3} s", " T s", text)
    text = re.sub(r"\bs(\d+)\.(\d+)-\w+-\d+-", r"s\1.\2-N-", text)
    text = re.sub(r"(boot|epoch|accepted_us)=\d+", r"\1=N", text)
    return re.sub(r"(?m)(?:[0-9a-f]{2} ){11}[0-9a-f]{2}[^;\n]*", "HEX", text)


TRANSCRIPTS = {
    "offsets begin at 1": "S5.2",
    "half a frame is thrown away (as in 2020)": "S2.1",
    "one message too many": "S9.1",
    "lag is told with its last offset": "S10.1",
    "integers of the header are big-endian": "S1.1",
}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_failure_reads_as_it_always_did(name):
    """Regenerate by deleting tests/learn/golden; then read what changed."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    async with tiny(mutant.source()) as host:
        result = await run(host, TRANSCRIPTS[name], seeds=[6], pace=Pace(1.0, 2.0))
    text = masked(story.as_text(result)) + "\n"
    path = GOLDEN / f"{TRANSCRIPTS[name]} {name.partition(' (')[0]}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


async def test_results_are_json_and_junit(monkeypatch):
    async def silent(stream):
        await stream.send(b"\0nonsense")
        await anyio.sleep_forever()

    async with answering(silent) as host:
        results = [await run(host, name, seeds=[4]) for name in ("S0.1", "S0.2", "S14.5")]
    states = [story.as_json(result) for result in results]
    assert [state["outcome"] for state in states] == ["passed", "failed", "skipped"]
    failure = states[1]["failure"]
    assert (failure["seed"], failure["pattern"]) == (4, "whole")
    assert failure["summary"] == "the server spoke before it was spoken to"
    assert failure["hint"] == CHECKS["S0.2"].hints[0]
    root = ET.fromstring(story.junit(results))  # noqa: S314 (our own)
    assert [suite.get("name").split()[0] for suite in root] == ["S0", "S14"]
    assert (root[0].get("tests"), root[0].get("failures"), root[1].get("skipped")) == (
        "2",
        "1",
        "1",
    )
    assert root[0][1][0].tag == "failure"
    assert "run it again: zaichik learn check S0.2 --seed 4" in root[0][1][0].text
    assert root[1][0][0].tag == "skipped"


def test_characters_that_xml_cannot_hold_are_escaped():
    result = Result(CHECKS["S0.1"], "failed", (1,), 0.1, 1, failure=Failure("odd \x00 \x1b < &"))
    assert ET.fromstring(story.junit([result]))[0][0][0].get("message") == "odd \\x00 \\x1b < &"  # noqa: S314 (our own)
