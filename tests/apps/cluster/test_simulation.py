"""Nodes of a cluster in simulated worlds, and whether those find bugs that are planted."""

import pytest
from cluster_world import World
from planted_cluster_slips import CLUSTER_SLIPS
from sampling import sampled

WORLDS = range(100)
BY_NAME = {slip.name: slip for slip in CLUSTER_SLIPS}
SAMPLE = [
    name for name in BY_NAME if not name.startswith("an address that could not be written yet")
]


def run_worlds(seeds):
    for seed in seeds:
        World(int(seed)).run()


def test_in_every_world_each_shard_has_one_owner_and_maps_become_right():
    run_worlds(WORLDS)


@pytest.mark.long
def test_in_more_worlds():
    run_worlds(range(1000, 3000))


@pytest.mark.unmeasured
@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_breaks_a_world(name, monkeypatch):
    BY_NAME[name].plant(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)):
        run_worlds(WORLDS)
