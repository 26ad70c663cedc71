"""Every verdict of every check is one: lied to there, and only there, the check fails there."""

import inspect
from pathlib import Path

import pytest
from learn_hosts import KILLING, killable, run, shipped, small_buffers
from learn_liars import Ear, is_at, places, places_in

from zaichik.learn.stages import CHECKS
from zaichik.learn.trial import Pace

pytestmark = pytest.mark.anyio

PACE = Pace(scale=0.25, patience=0.5)
LEFT_OUT = {
    "S9.13",  # thousands of times the same judgement, by must_be
    "S14.5",  # needs a process
    "S14.10",  # so does this
    "S15.1",  # its judgements are those of test_history.py
}
# One of each kind: a field, a batch, something that must not come, an Error, an end.
SOME = ["S2.1", "S3.4", "S5.3", "S9.1"]


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def judgements(host, name):
    """What a check looks at: each field that each of its statements judges, once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        ear = Ear(monkeypatch)
        result = await run(host, name, seeds=[0], pace=Pace(PACE.scale, 20.0))
    assert result.outcome == "passed", f"{name}: {result.failure or result.reason}"
    return {(each.place, each.field): each for each in reversed(ear.judgements)}.values()


async def is_found(host, name, lie):
    """Whether the check fails at the statement that was lied to.

    Somewhat later is soon enough on a busy machine.
    """
    for patience in (PACE.patience, 5.0):
        with pytest.MonkeyPatch.context() as monkeypatch:
            Ear(monkeypatch, lie)
            result = await run(host, name, seeds=[0], pace=Pace(PACE.scale, patience))
        if result.outcome == "failed" and is_at(lie.place, places_in(result.failure)):
            return True
    return False


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", SOME)
async def test_a_lie_is_found_where_it_is_told(name):
    async with shipped() as host:
        lies = await judgements(host, name)
        assert lies
        assert [lie for lie in lies if not await is_found(host, name, lie)] == []


@pytest.mark.soak
async def test_every_lie_is_found_and_every_judgement_was_lied_to(monkeypatch):
    small_buffers(monkeypatch)
    judged = set()
    with killable() as hosts:
        async with shipped() as host:
            for name in CHECKS:
                if name not in LEFT_OUT:
                    at = hosts() if name in KILLING else host
                    lies = await judgements(at, name)
                    judged |= {lie.place for lie in lies}
                    assert [lie for lie in lies if not await is_found(at, name, lie)] == [], name
    left_out = [
        (CHECKS[name].function, inspect.getsourcelines(CHECKS[name].function)) for name in LEFT_OUT
    ]
    lines = {
        (Path(inspect.getfile(function)).stem, first + number)
        for function, (source, first) in left_out
        for number in range(len(source))
    }
    assert {place for place in places(raising=False) - judged if not is_at(place, lines)} == set()
