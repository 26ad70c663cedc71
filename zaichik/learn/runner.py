"""Runs checks: three seeds each, another try at half the speed where time decided nothing, one result."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import SystemRandom
from typing import Any, Protocol

import anyio

from zaichik.learn.failure import Failed, Inconclusive, Skipped
from zaichik.learn.stage import Check
from zaichik.learn.trace import Trace
from zaichik.learn.trial import PATTERNS, Pace, Starter, Target, Trial

SEEDS = len(PATTERNS)  # neighbours, so that each check meets each pattern
FIRST_CONCURRENT_STAGE = 5  # before that a broker need not serve two clients at once
TRIES = 4  # at pace 1, 2, 4 and 8
LONGEST_TRIAL_S = 60.0  # beyond its own waiting no trial takes that long, unless the server hangs

PASSED, FAILED, INCONCLUSIVE, SKIPPED = "passed", "failed", "inconclusive", "skipped"
WORST_FIRST = (FAILED, INCONCLUSIVE, SKIPPED, PASSED)

# Topics outlive a trial, and with --connect also this process: names begin differently in each.
_RUN = f"{SystemRandom().randrange(2**16):04x}"
_serial = count(1)


class ServerTrouble(Exception):
    """The server under test does not start, or does not stay; the text says so, and what to do."""


class Host(Starter, Protocol):
    """Where checks find the broker under test, and those who need one for themselves find that."""

    async def ready(self) -> Target:
        """Where it listens; started again if it has ended.

        Raises:
            ServerTrouble: it cannot be started.
        """

    async def aftermath(self) -> tuple[str, str]:
        """How it ended, if it has, else ""; and the lines it wrote that matter."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one check.

    Attributes:
        outcome: passed, failed, inconclusive or skipped.
        seeds: those that were run.
        seed: the one that failed; with it the run can be repeated.
        pattern: how its frames were written.
        failure: what was wrong.
        trace: the record of that trial.
        reason: why it was skipped or inconclusive.
        obituary, output: how the server ended, if it did, and what it wrote.
        seconds: how long it took.
    """

    check: Check
    outcome: str
    seeds: tuple[int, ...]
    seconds: float
    seed: int | None = None
    pattern: str = ""
    failure: Failed | None = None
    trace: Trace = field(default_factory=Trace)
    reason: str = ""
    obituary: str = ""
    output: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether something is left to do."""
        return self.outcome in {FAILED, INCONCLUSIVE}


def fresh_seeds() -> tuple[int, ...]:
    """Seeds nobody has chosen, one for each pattern."""
    first = SystemRandom().randrange(10_000) * SEEDS
    return tuple(range(first, first + SEEDS))


async def run_check(check: Check, host: Host, seeds: Sequence[int], pace: Pace) -> Result:
    """Run a check with every seed, until one fails.

    Raises:
        ServerTrouble: there is no server to check.
    """
    began = time.monotonic()
    seeds = seeds[:1] if check.once else seeds
    outcomes: dict[int, Result] = {}

    async def run(seed: int) -> None:
        outcomes[seed] = await _run_seed(check, host, seed, pace)

    if check.stage >= FIRST_CONCURRENT_STAGE and not check.heavy:
        try:
            async with anyio.create_task_group() as tasks:
                for seed in seeds:
                    tasks.start_soon(run, seed)
        except BaseExceptionGroup as group:
            if trouble := group.subgroup(ServerTrouble):
                raise next(_leaves(trouble)) from None
            raise
    else:
        for seed in seeds:
            await run(seed)
            if outcomes[seed].outcome == FAILED:
                break
    worst = min((outcomes[seed] for seed in seeds if seed in outcomes), key=lambda it: WORST_FIRST.index(it.outcome))
    return replace(worst, seeds=tuple(seeds), seconds=time.monotonic() - began)


async def _carry_out(check: Check, trial: Trial) -> None:
    """One run. Checks may use several tasks; what these raise together comes out as one verdict."""
    try:
        async with trial.running():
            with anyio.fail_after(LONGEST_TRIAL_S * max(1.0, trial.scale)):
                await check.function(trial)
    except BaseExceptionGroup as group:
        verdicts = group.subgroup((Failed, Inconclusive, Skipped))
        if verdicts is None or group.split((Failed, Inconclusive, Skipped))[1] is not None:
            raise
        raise min(_leaves(verdicts), key=lambda error: not isinstance(error, Failed)) from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _run_seed(check: Check, host: Host, seed: int, pace: Pace) -> Result:
    """One seed, tried again more slowly where time decided nothing."""
    began = time.monotonic()
    reason = ""

    def result(outcome: str, **more: Any) -> Result:
        return Result(check, outcome, (seed,), time.monotonic() - began, **more)

    for _ in range(TRIES):
        target = await host.ready()
        name = f"{check.id.lower()}-{_RUN}-{next(_serial)}-{seed}"
        trial = Trial(target, host, name=name, stage=check.stage, seed=seed, pace=pace)
        try:
            await _carry_out(check, trial)
        except Inconclusive as unclear:
            reason, pace = f"{unclear}, also at a time scale of {pace.scale:g}", pace.doubled()
            continue
        except Skipped as skipped:
            return result(SKIPPED, reason=str(skipped))
        except (Failed, TimeoutError) as error:
            failure = error if isinstance(error, Failed) else Failed(f"no end after {LONGEST_TRIAL_S:g} s")
            obituary, output = await host.aftermath()
            how = {"seed": seed, "pattern": trial.pattern.value, "obituary": obituary, "output": output}
            return result(FAILED, failure=failure, trace=trial.trace, **how)
        return result(PASSED)
    return result(INCONCLUSIVE, seed=seed, reason=reason)
