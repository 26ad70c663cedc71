"""Which checks are run, in which order, and when to stop."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from zaichik.learn.progress import Progress
from zaichik.learn.runner import SEEDS, Host, Result, run_check
from zaichik.learn.stage import Check, Stage
from zaichik.learn.stages import CHECKS, STAGES
from zaichik.learn.trial import Pace

SPAN = re.compile(r"S?(\d{1,2})(?:-S?(\d{1,2}))?")


class NoSuchCheck(Exception):
    """The stage or check does not exist; the text says which do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run checks.

    Attributes:
        seeds: each check is run with each of them.
        pace: how long things take.
        keep_going: whether to go on after a check has failed.
    """

    seeds: tuple[int, ...]
    pace: Pace
    keep_going: bool = False


def select(what: str | None, progress: Progress) -> list[Check]:
    """The checks that a word means.

    It is "all", a stage (S5, or just 5), several (S5-S7), a check (S5.2), or None for the current
    stage.

    Raises:
        NoSuchCheck: it names none.
    """
    if what is None:
        return list(stage(progress.stage).checks)
    if what == "all":
        return list(CHECKS.values())
    name = what.upper()
    if name in CHECKS:
        return [CHECKS[name]]
    if span := SPAN.fullmatch(name):
        first, last = int(span[1]), int(span[2] or span[1])
        if first <= last < len(STAGES):
            return [check for each in STAGES[first : last + 1] for check in each.checks]
    raise NoSuchCheck(
        f"'{what}' is not a stage (S0 to S{len(STAGES) - 1}), a range (such as S5-S7), a check "
        "(such as S5.2) or the word all; zaichik learn list shows them. For exercises (such as "
        "2.1) "
        "there are check, hint and watch"
    )


def next_step(progress: Progress, options: str = "") -> str:
    """What to do after the current stage, in a sentence; "" as long as that has not passed.

    `options` are the options of the command in that sentence.
    """
    missing = [each.id for each in STAGES if each.number not in progress.passed]
    here = stage(progress.stage)
    if not missing:
        return f"all {len(STAGES)} stages passed: you have built a broker"
    if here.id in missing:
        return ""
    if here is STAGES[-1]:
        return f"{here.id}, the last stage, has passed; not passed yet: {', '.join(missing)}"
    return f"{here.id} has passed; for the next stage: zaichik learn next{options}"


def stage(number: int) -> Stage:
    """The stage with this number; the last one for numbers beyond it."""
    return STAGES[max(0, min(number, len(STAGES) - 1))]


async def examine(checks: Sequence[Check], host: Host, plan: Plan) -> AsyncIterator[Result]:
    """Run checks one after another, until one fails.

    Raises:
        ServerError: there is no server to check.
    """
    for check in checks:
        result = await run_check(check, host, plan.seeds, plan.pace)
        yield result
        if result.is_bad and not plan.keep_going:
            return


def record(progress: Progress, results: Sequence[Result]) -> None:
    """Record the stages of which all checks were run with all seeds, or one failed."""
    for each in STAGES:
        mine = [result for result in results if result.check.stage == each.number]
        bad = next((result for result in mine if result.is_bad), None)
        if bad is not None:
            progress.record(each.number, bad.check.id, bad.seed)
            continue
        whole = {
            result.check.id for result in mine if result.check.once or len(result.seeds) >= SEEDS
        }
        if len(whole) == len(each.checks):
            progress.record(each.number, "", None)
