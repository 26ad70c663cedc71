"""Bugs in what a node decides. Each is one wrong expression or statement.

`planting` says how a place and its code are written. The bug is planted in the running program, and
one of the simulated worlds must break.
"""

from dataclasses import dataclass

from planting import plant, planted


@dataclass(frozen=True)
class ClusterSlip:
    """A wrong line.

    Attributes:
        name: what is wrong.
        where: the method that has it.
        right: what stands there, an expression or statements; `wrong` stands there instead.
        nth: which one, counted from 1, if what is right is there several times.
    """

    name: str
    where: str
    right: str
    wrong: str
    nth: int = 0
    test = "apps/cluster/test_simulation.py::test_every_planted_bug_breaks_a_world"

    def planted(self):
        """The file that has the slip, and its text with it."""
        return planted(self.where, self.right, self.wrong, self.nth)

    def plant(self, monkeypatch):
        """Replace the method by the wrong one, which uses all else as it is."""
        plant(monkeypatch, self.where, self.right, self.wrong, self.nth)


def slip(name, method, right, wrong, nth=0):
    return ClusterSlip(name, f"cluster.coordinator:Coordinator.{method}", right, wrong, nth)


CLUSTER_SLIPS = [
    slip(
        "a watch is lost: a shard's record is not watched",
        "_look",
        "await self._engine.watch(path)",
        "pass",
    ),
    slip(
        "a watch is lost: what was agreed on is not watched",
        "_agree",
        "await self._engine.watch(FEATURES)",
        "pass",
    ),
    slip(
        "two owners: who was not first takes the shard all the same",
        "_look",
        "await self._engine.create(path, claim.encoded())\ncontinue",
        "await self._engine.create(path, claim.encoded())\nself._placements[shard] = claim\nreturn",
    ),
    slip(
        "two owners: a machine of the same name serves what another folder has",
        "_is_mine",
        "return (placement.machine, placement.folder) == "
        "(self._machine.name, self._machine.presence.folder)",
        "return placement.machine == self._machine.name",
    ),
    slip(
        "two owners: what is gone from the service is taken from the machine that has it",
        "_claim",
        "if not self._is_mine(known):\n    return None",
        "pass",
    ),
    slip(
        "two owners: what was known last is served before anything was seen",
        "_apply",
        "if not self.has_seen and not self._serves_alone:\n    return",
        "pass",
    ),
    slip(
        "an old epoch is accepted",
        "_agree",
        "if record.version < self._epoch:\n    return",
        "pass",
    ),
    slip(
        "an address that could not be written is never written",
        "_look",
        "placement = self._at_its_address(shard, placement)",
        "pass",
    ),
    slip(
        "an address that could not be written yet is not published",
        "_shown",
        "placement = self._at_its_address(shard, placement)",
        "pass",
    ),
    slip(
        "a generation is stale: another address has the one of before",
        "_at_its_address",
        "replace(placement, address=address, generation=placement.generation + 1)",
        "replace(placement, address=address)",
    ),
    slip(
        "a generation is stale: what is claimed again begins anew",
        "_claim",
        "self._here(shard, known.generation + 1)",
        "self._here(shard, 1)",
    ),
    slip(
        "what could not be asked is forgotten",
        "handle",
        "self.is_behind = True",
        "pass",
        nth=1,
    ),
    slip(
        "a new session is not present",
        "_refresh",
        "self.is_waiting = not await self._join()",
        "self.is_waiting = not (self.has_seen or await self._join())",
    ),
    slip(
        "nothing is read again when the service is back",
        "_handle",
        "if state is State.CONNECTED:\n    await self._refresh()",
        "if not self.has_seen:\n    await self._refresh()",
    ),
    slip(
        "a change of the map is not published",
        "_apply",
        "cluster_map != self._published",
        "self._published is None",
    ),
    slip(
        "a shard that was restored elsewhere is served on",
        "_apply",
        "self._served = frozenset(mine)",
        "self._served |= frozenset(mine)",
    ),
]
