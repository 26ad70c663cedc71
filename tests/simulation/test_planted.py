"""Does the simulation find anything?

Bugs are planted into the real broker, and into our client, one at a time, and it must find each.
"""

import pytest

from simulation import planted_bugs, planted_client_bugs
from simulation.scenario import has_our_client, run

pytestmark = [
    pytest.mark.unmeasured,  # a broker, or a client, with a bug
    pytest.mark.usefixtures("patchable"),
]

# Seed 0 finds most bugs; the next ones find what few others do, as of today; then come the rest.
SEEDS = list(dict.fromkeys([0, 10, 2, 3, 5, 6, 68, *range(30)]))  # the list of `test_simulation`
WITH_OUR_CLIENT = list(filter(has_our_client, dict.fromkeys([9, 19, 29, 49, *range(100)])))


def assert_caught(bug, seeds, monkeypatch):
    plant, promises = bug
    plant(monkeypatch)
    outcome = next(filter(lambda outcome: outcome.anomaly, map(run, seeds)), None)
    assert outcome is not None, "no seed shows anything"
    assert outcome.anomaly.promise in promises, outcome.report()


@pytest.mark.parametrize("name", planted_bugs.BUGS)
def test_every_planted_bug_is_caught_and_named(name, monkeypatch):
    assert_caught(planted_bugs.BUGS[name], SEEDS, monkeypatch)


@pytest.mark.parametrize("name", planted_client_bugs.BUGS)
def test_every_bug_planted_into_our_client_is_caught_and_named(name, monkeypatch):
    assert_caught(planted_client_bugs.BUGS[name], WITH_OUR_CLIENT, monkeypatch)
