"""Does the simulation find anything?

Bugs are planted into the real broker, and into our client, one at a time, and it must find each.
"""

import pytest

from simulation.planted_client_bugs import BUGS
from simulation.scenario import OUR_CLIENT_EVERY, run

# The list of `test_simulation`, those with our client first: most are found by the first of these.
SEEDS = sorted(range(30), key=lambda seed: seed % OUR_CLIENT_EVERY)


@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_is_caught_and_named(name, monkeypatch):
    plant, promises = BUGS[name]
    plant(monkeypatch)
    outcome = next(filter(lambda outcome: outcome.anomaly, map(run, SEEDS)), None)
    assert outcome is not None, f"{len(SEEDS)} seeds show nothing"
    assert outcome.anomaly.promise in promises, outcome.report()
