"""Brokers that are right pass: the project's own everything, the tutorial's all but one check.

The loop of the tester is asyncio's in the suite; `make test-long` has trio's, too.
"""

import ast
import subprocess
import sys
from contextlib import contextmanager, suppress

import anyio
import pytest
from learn_hosts import BY_HAND, KILLING, SURE, run, shipped, small_buffers, tiny
from learn_mutant import LEFT_OUT_BY_TINY, TINY, Mutant
from mutants_options import EXTENSION, MUTANTS
from sampling import sampled

from zaichik.learn import lab, runner
from zaichik.learn.stages import CHECKS, s09_exactly, s13_stuck_reader, s14_ends
from zaichik.learn.trial import Pace

pytestmark = pytest.mark.anyio

SAYS_NO_GOAWAY = "S14.10"
NEEDS_A_PROCESS = {
    "S14.5",
    SAYS_NO_GOAWAY,
    *KILLING,
}  # SIGTERM: test_server.py; SIGKILL: test_killed.py
BUSY = ["S9.13", "S14.11"]  # not heavy, but they send more than all others together
ON_BOTH = pytest.mark.parametrize("anyio_backend", sampled(["asyncio", "trio"], ["asyncio"]))
OPTIONS = {name for name in CHECKS if name.startswith(("S16.", "S17.", "S18."))}
LONG_ROUNDS = 20
AT_ONCE = 8
TIMED = {"S9.13", "S11.5", "S11.6", "S11.15", "S12.5", "S14.11"}
UNHURRIED = Pace(scale=1.0, patience=60.0)  # or on busy cores they decide nothing


@pytest.fixture(autouse=True)
def _slow_is_not_wrong(monkeypatch):
    """A right broker on a busy machine may take longer over thousands of messages than one that
    hangs is given.
    """
    monkeypatch.setattr(runner, "LONGEST_TRIAL_S", 600.0)


async def passes(host, names, *, seed):
    """Each check with one seed, so that neighbours have the three patterns.

    Most of a check is waiting, so several run at once; those that judge by time come after them,
    and those that time still decided nothing about have the machine for themselves.
    """
    limiter = anyio.CapacityLimiter(AT_ONCE)
    seeds = {name: seed + number for number, name in enumerate(names)}
    results = {}

    async def ask(name, pace):
        async with limiter:
            results[name] = await run(host, name, seeds=[seeds[name]], pace=pace)

    for are_timed, pace in ((False, SURE), (True, UNHURRIED)):
        async with anyio.create_task_group() as tasks:
            for name in names:
                if (name in TIMED) == are_timed:
                    tasks.start_soon(ask, name, pace)
    for name in [name for name, result in results.items() if result.outcome == "inconclusive"]:
        await ask(name, UNHURRIED)
    bad = {name: result for name, result in results.items() if result.outcome != "passed"}
    assert [
        f"{name}, seed {seeds[name]}: {it.failure or it.reason}" for name, it in bad.items()
    ] == []


@ON_BOTH
async def test_the_project_s_broker_passes_every_light_check(monkeypatch):
    """Busy clients send less here, where they are measured, and all of it in the next test."""
    monkeypatch.setattr(s09_exactly, "RALLY", 800)
    monkeypatch.setattr(s14_ends, "MANY_MORE", 100)
    async with shipped() as host:
        light = [name for name, check in CHECKS.items() if not check.heavy]
        await passes(
            host, [name for name in light if name not in {*NEEDS_A_PROCESS, *BY_HAND}], seed=0
        )


async def test_the_project_s_broker_passes_the_checks_of_a_clock_that_is_moved_by_hand():
    async with shipped(clock="manual") as host:
        await passes(host, BY_HAND, seed=0)
    async with shipped() as host:
        assert {(await run(host, name, seeds=[0])).outcome for name in BY_HAND} == {"skipped"}


@pytest.mark.unmeasured
@ON_BOTH
async def test_the_project_s_broker_passes_every_busy_check():
    async with shipped() as host:
        await passes(host, BUSY, seed=0)


@pytest.mark.unmeasured
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_project_s_broker_passes_every_heavy_check(monkeypatch):
    small_buffers(monkeypatch)
    async with shipped() as host:
        await passes(host, [name for name, check in CHECKS.items() if check.heavy], seed=0)


@pytest.mark.unmeasured
@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_broker_of_the_tutorial_passes_what_it_does_not_leave_out():
    async with tiny(TINY.read_text(encoding="utf-8")) as host:
        await passes(
            host,
            [
                name
                for name in CHECKS
                if name not in {*NEEDS_A_PROCESS, *LEFT_OUT_BY_TINY, *OPTIONS}
            ],
            seed=1,
        )


def test_the_broker_of_the_tutorial_says_which_checks_it_does_not_pass():
    """The tests beside this one hold it to that sentence, to the last check."""
    last = ast.get_docstring(ast.parse(TINY.read_text(encoding="utf-8"))).rpartition("\n\n")[2]
    *names, name = (name for name in CHECKS if name in {*LEFT_OUT_BY_TINY, SAYS_NO_GOAWAY})
    skipped = "those of S16, S17 and S18 are skipped"
    left_out = f"{', '.join(names)} and {name} fail, {skipped}, and all others pass."
    assert " ".join(last.split()).endswith(left_out)


@pytest.mark.unmeasured
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", sorted(LEFT_OUT_BY_TINY))
async def test_the_broker_of_the_tutorial_fails_what_it_leaves_out(name, monkeypatch):
    small_buffers(monkeypatch)
    monkeypatch.setattr(
        s13_stuck_reader, "STALLED_S", 60.0
    )  # one that is slow has not stopped reading
    async with tiny(TINY.read_text(encoding="utf-8")) as host:
        result = await run(host, name, seeds=[0])
    assert result.outcome == "failed"
    assert name != "S13.4" or "requests were carried out" in result.failure.summary


def test_the_broker_of_the_tutorial_ends_for_all_when_no_descriptor_is_left(tmp_path):
    """As its Limits say. A broker that survives it has one limit less to admit."""
    program = tmp_path / "at_a_port.py"
    start = "import anyio, os, tiny_broker\nanyio.run(tiny_broker.main, int(os.environ['PORT']))\n"
    program.write_text(
        f"import sys\nsys.path.insert(0, {str(TINY.parent)!r})\n{start}", encoding="utf-8"
    )
    with lab.running(program, limits=["-n", "20"]) as broker:
        for _ in range(20):
            with suppress(ConnectionError):
                broker.connect()
        assert broker.wait_for_its_end() == 1
        assert any("Too many open files" in line for line in broker.output())


@pytest.mark.unmeasured
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_broker_may_leave_out_is_checked_if_it_does_not():
    text = TINY.read_text(encoding="utf-8")
    async with tiny(text) as host:
        assert {(await run(host, name)).outcome for name in OPTIONS} == {"skipped"}
    patches = tuple(zip(EXTENSION[::3], EXTENSION[1::3], EXTENSION[2::3], strict=True))
    async with tiny(Mutant("", (), "", patches).source()) as host:
        await passes(host, {name for mutant in MUTANTS for name in mutant.kills}, seed=0)


@contextmanager
def both_cores_busy():
    """Two processes that do nothing but burn time, one for each core of a small machine."""
    burn = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(burn) for _ in range(2)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@pytest.mark.soak
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("round_", range(LONG_ROUNDS))
async def test_the_project_s_broker_passes_again_and_again_on_a_busy_machine(round_):
    with both_cores_busy():
        async with shipped() as host:
            for name in CHECKS:
                if name not in {*NEEDS_A_PROCESS, *BY_HAND}:
                    seeds = [3000 + 3 * round_ + number for number in range(3)]
                    result = await run(host, name, seeds=seeds, pace=Pace())
                    assert result.outcome == "passed", (
                        f"{name}: {result.seed}: {result.failure or result.reason}"
                    )
