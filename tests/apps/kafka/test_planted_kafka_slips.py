"""Do the tests of the gateway find anything? Bugs are planted, one at a time."""

import importlib.util
import inspect
from functools import cache
from pathlib import Path

import anyio
import pytest
from planted_kafka_slips import KAFKA_SLIPS
from sampling import sampled

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = [
    "only the last batch is remembered",
    "a zero byte in a group's name splits its key",
    "a gap in the middle sends the consumer to the head, for ever",
    "checksums are not looked at",
    "lengths are taken at their word",
]
BY_NAME = {slip.name: slip for slip in KAFKA_SLIPS}


@cache
def loaded(name):
    """A module of tests beside this one; other folders have modules of the same names."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"kafka_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def noticed(slip, fixtures):
    """Run the test that should notice the slip."""
    module, _, name = slip.caught_by.partition(":")
    test = getattr(loaded(module), name)
    names = list(inspect.signature(test).parameters)
    wanted = {fixture: fixtures[fixture] for fixture in names if fixture in fixtures}
    left = [name for name in names if name not in wanted]
    call = {**wanted, **dict(zip(left, slip.arguments, strict=True))}
    if not inspect.iscoroutinefunction(test):
        return test(**call)

    async def run():
        # What waits in vain has noticed it, too.
        with anyio.fail_after(5):
            await test(**call)

    return anyio.run(run)


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught_by_the_test_that_it_names(name, monkeypatch, caplog, tmp_path):
    slip = BY_NAME[name]
    slip.plant(monkeypatch)
    fixtures = {"monkeypatch": monkeypatch, "caplog": caplog, "tmp_path": tmp_path}
    with pytest.raises((Exception, pytest.fail.Exception)):
        noticed(slip, fixtures)


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_without_the_bug_the_test_passes(name, monkeypatch, caplog, tmp_path):
    fixtures = {"monkeypatch": monkeypatch, "caplog": caplog, "tmp_path": tmp_path}
    noticed(BY_NAME[name], fixtures)
