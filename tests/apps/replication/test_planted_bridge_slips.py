"""Do the tests of the bridge find anything? Bugs are planted, one at a time."""

import importlib.util
import inspect
import threading
from functools import cache
from pathlib import Path

import pytest
from embedded import embedded_broker
from fake_kafka import FakeKafka, Killed
from planted_bridge_slips import BRIDGE_SLIPS
from sampling import sampled

from zaichik.apps.replication import bridge, transactions

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = [
    "the name is settled before the round is in Kafka",
    "what Kafka has is written again",
    "gaps are forgotten with the bridge",
    "a bridge that is fenced comes back",
    "nobody looks after a commit whether the topic is still the same",
]
BY_NAME = {slip.name: slip for slip in BRIDGE_SLIPS}


@cache
def loaded(name):
    """A module of tests beside this one; other folders have modules of the same names."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"bridge_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fixtures(monkeypatch, caplog, tmp_path):
    """What the tests ask for, those that wait in a hurry."""
    monkeypatch.setattr(bridge, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(bridge, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(bridge, "LOOK_SECONDS", 0)
    monkeypatch.setattr(transactions, "FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setattr(transactions, "LAST_SECONDS", 0)
    with embedded_broker(data=tmp_path) as broker:
        yield {
            "broker": broker,
            "kafka": FakeKafka(),
            "stop": threading.Event(),
            "caplog": caplog,
            "monkeypatch": monkeypatch,
        }


def noticed(slip, fixtures):
    """Run the test that should notice the slip."""
    module, _, name = slip.caught_by.partition(":")
    test = getattr(loaded(module), name)
    names = list(inspect.signature(test).parameters)
    wanted = {fixture: fixtures[fixture] for fixture in names if fixture in fixtures}
    left = [name for name in names if name not in wanted]
    test(**wanted, **dict(zip(left, slip.arguments, strict=True)))


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught_by_the_test_that_it_names(name, monkeypatch, fixtures):
    slip = BY_NAME[name]
    slip.plant(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception, Killed)):
        noticed(slip, fixtures)


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_without_the_bug_the_test_passes(name, fixtures):
    noticed(BY_NAME[name], fixtures)
