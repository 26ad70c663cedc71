"""Do the tests of the bridge find anything? Bugs are planted, one at a time."""

import threading

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


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught_by_the_test_that_it_names(name, monkeypatch, fixtures):
    slip = BY_NAME[name]
    slip.plant(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception, Killed)):
        slip.run_test(fixtures)


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_without_the_bug_the_test_passes(name, fixtures):
    BY_NAME[name].run_test(fixtures)
