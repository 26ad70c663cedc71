"""Runs checks: three seeds each, slower retries if timing was inconclusive, and one result."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import SystemRandom
from typing import Any, Protocol

import anyio

from zaichik.learn.failure import Failure, Inconclusive, Skipped
from zaichik.learn.stage import Check
from zaichik.learn.trace import Trace
from zaichik.learn.trial import PATTERNS, Pace, Starter, Target, Trial

SEEDS = len(PATTERNS)  # consecutive, so that each check meets each pattern
FIRST_CONCURRENT_STAGE = 5  # before it, a broker need not serve two clients at once
TRIES = 4  # at pace 1, 2, 4 and 8
# Apart from its own waiting, no trial takes this long unless the server hangs.
LONGEST_TRIAL_S = 60.0

PASSED, FAILED, INCONCLUSIVE, SKIPPED = "passed", "failed", "inconclusive", "skipped"
WORST_FIRST = (FAILED, INCONCLUSIVE, SKIPPED, PASSED)

# Topics outlive a trial, and with --connect even this process: each has its own prefix for names.
_RUN = f"{SystemRandom().randrange(2**16):04x}"
_serial = count(1)


class ServerError(Exception):
    """The server under test does not start or keep running; the text says why."""


class Host(Starter, Protocol):
    """Where checks find the broker under test, or start a separate one."""

    async def ready(self) -> Target:
        """Where the broker listens; it is restarted if it has ended.

        Raises:
            ServerError: it cannot be started.
        """

    async def post_mortem(self) -> tuple[str, str]:
        """How the server ended, or "" if it has not; and the relevant lines of its output."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check.

    Attributes:
        outcome: passed, failed, inconclusive or skipped.
        seeds: the seeds that were run.
        seed: the one that failed; it repeats the run.
        pattern: how its frames were written.
        failure: what was wrong.
        trace: the record of that trial.
        reason: why it was skipped or inconclusive.
        exit_status, output: how the server ended, if it did, and its output.
        seconds: how long it took.
    """

    check: Check
    outcome: str
    seeds: tuple[int, ...]
    seconds: float
    seed: int | None = None
    pattern: str = ""
    failure: Failure | None = None
    trace: Trace = field(default_factory=Trace)
    reason: str = ""
    exit_status: str = ""
    output: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether there is something left to fix."""
        return self.outcome in {FAILED, INCONCLUSIVE}


def fresh_seeds() -> tuple[int, ...]:
    """Random seeds, one for each pattern."""
    first = SystemRandom().randrange(10_000) * SEEDS
    return tuple(range(first, first + SEEDS))


async def run_check(check: Check, host: Host, seeds: Sequence[int], pace: Pace) -> Result:
    """Run a check with every seed, until one fails.

    Raises:
        ServerError: there is no server to check.
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
            if errors := group.subgroup(ServerError):
                raise next(_leaves(errors)) from None
            raise
    else:
        for seed in seeds:
            await run(seed)
            if outcomes[seed].outcome == FAILED:
                break
    worst = min(
        (outcomes[seed] for seed in seeds if seed in outcomes),
        key=lambda it: WORST_FIRST.index(it.outcome),
    )
    return replace(worst, seeds=tuple(seeds), seconds=time.monotonic() - began)


async def _carry_out(check: Check, trial: Trial) -> None:
    """One run. A check may use several tasks; what they raise together becomes one verdict."""
    try:
        async with trial.running():
            with anyio.fail_after(LONGEST_TRIAL_S * max(1.0, trial.scale)):
                await check.function(trial)
    except BaseExceptionGroup as group:
        verdicts = group.subgroup((Failure, Inconclusive, Skipped))
        if verdicts is None or group.split((Failure, Inconclusive, Skipped))[1] is not None:
            raise
        raise min(_leaves(verdicts), key=lambda error: not isinstance(error, Failure)) from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _run_seed(check: Check, host: Host, seed: int, pace: Pace) -> Result:
    """One seed, retried more slowly if timing was inconclusive."""
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
            reason, pace = f"{unclear}, even at a time scale of {pace.scale:g}", pace.doubled()
            continue
        except Skipped as skipped:
            return result(SKIPPED, reason=str(skipped))
        except (Failure, TimeoutError) as error:
            hung = f"the check did not end within {LONGEST_TRIAL_S:g} s"
            failure = error if isinstance(error, Failure) else Failure(hung)
            exit_status, output = await host.post_mortem()
            how = {
                "seed": seed,
                "pattern": trial.pattern.value,
                "exit_status": exit_status,
                "output": output,
            }
            return result(FAILED, failure=failure, trace=trial.trace, **how)
        return result(PASSED)
    return result(INCONCLUSIVE, seed=seed, reason=reason)
