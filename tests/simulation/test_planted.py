"""Does the simulation find anything? Bugs are planted into the real broker, one at a time, and it must find each."""

import pytest

from simulation.planted_bugs import BUGS
from simulation.scenario import run

pytestmark = pytest.mark.unmeasured  # a broker with a bug

SEEDS = 30  # the list of `test_simulation`; most are found by its first


@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_is_caught_and_named(name, monkeypatch):
    plant, promises = BUGS[name]
    plant(monkeypatch)
    outcome = next(filter(lambda outcome: outcome.anomaly, map(run, range(SEEDS))), None)
    assert outcome is not None, f"{SEEDS} seeds show nothing"
    assert outcome.anomaly.promise in promises, outcome.report()
