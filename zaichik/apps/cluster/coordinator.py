"""What a node decides: which shards it claims and serves, and what it says of the others.

One task hands in one event after the other, and everything is decided here, so nothing is locked.
An event only says where to look; what is done follows from what is read then. So an event that
comes twice, late, or together with others does no harm, and after the service was away everything
is read again.

Nothing in here waits for time or starts anything: brokers are `Hosting`'s, and time is an argument.

What is kept to:

- A shard is served if its record names this machine *and* this folder, and not before all records
  were read once (CL-7): it may have been restored elsewhere meanwhile.
- A record is changed by version only, and its generation rises with every change. A record with a
  smaller generation than was known is an old answer.
- A shard of another machine is never claimed, also if its record is gone.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from zaichik.apps.cluster.engine import (
    Away,
    Changed,
    Denied,
    Engine,
    Event,
    Stale,
    State,
    StateChanged,
)
from zaichik.apps.cluster.records import (
    FEATURES,
    Features,
    Incompatible,
    Placement,
    Presence,
    Unreadable,
    machine_path,
    shard_in,
    shard_path,
)
from zaichik.client.cluster.map import ClusterMap, Shard

logger = logging.getLogger("zaichik.cluster.coordinator")

# A record that changes between reading and writing is read again, but not for ever.
ATTEMPTS = 10
NO_SHARDS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Retry:
    """An event: something could not be asked, and the service can be asked now."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """An event: the session of a former process on this folder should have ended by now."""


class NameTaken(Exception):
    """Another machine of this name is there. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Machine:
    """This node.

    Attributes:
        name: its name, which no other machine has.
        presence: the identity of its folder and of this process.
        address: returns the HOST:PORT of a shard's broker here; raises `Incompatible` if the shard
            cannot have one.
        most: how many shards it claims at most.
        shards: how many shards the cluster is to have; None: as many as it has.
        cluster: the cluster's identity, if this node is the first to join.
    """

    name: str
    presence: Presence
    address: Callable[[int], str]
    most: int
    shards: int | None
    cluster: str


@dataclass(frozen=True, slots=True)
class Known:
    """What a node knew last, as its folder keeps it.

    Attributes:
        features: what was agreed on.
        epoch: the version of that.
        placements: by shard; a shard that has never been placed is missing.
    """

    features: Features
    epoch: int
    placements: dict[int, Placement]


class Hosting(Protocol):
    """Runs brokers and publishes; neither call waits."""

    def serve(self, shards: frozenset[int]) -> None:
        """Have the brokers of exactly these shards run."""

    def publish(self, cluster_map: ClusterMap) -> None:
        """Have all of these brokers keep this map."""


class Coordinator:
    """The decisions of one node.

    Args:
        machine: the node.
        engine: what nodes agree through.
        hosting: runs what is decided.
        save: keeps what is known, whenever it changes.
        now_us: the clock.
        known: what was kept by the process before.
        serves_alone: whether to serve what is known before the service has answered.

    Attributes:
        is_behind: whether something could not be asked: `Retry` is due.
        is_waiting: whether a former session of this machine is waited for: `Overdue` is due later.
        has_seen: whether all records were read since the start.
    """

    def __init__(
        self,
        machine: Machine,
        engine: Engine,
        hosting: Hosting,
        save: Callable[[Known], None],
        now_us: Callable[[], int],
        known: Known | None = None,
        *,
        serves_alone: bool = False,
    ) -> None:
        self._machine = machine
        self._engine = engine
        self._hosting = hosting
        self._save = save
        self._now_us = now_us
        self._features = known.features if known else None
        self._epoch = known.epoch if known else -1
        self._placements = dict(known.placements) if known else {}
        self._saved = known
        self._serves_alone = serves_alone
        self._is_patient = True
        self._served = NO_SHARDS
        self._published: ClusterMap | None = None
        self.is_behind = False
        self.is_waiting = False
        self.has_seen = False

    @property
    def shards(self) -> int:
        """How many shards the cluster has; 0: not known yet."""
        return self._features.shards if self._features else 0

    @property
    def served(self) -> frozenset[int]:
        """The shards whose brokers run here, or are started."""
        return self._served

    def begin(self) -> None:
        """Serve what was known last, if that is asked for, before anything has answered."""
        self._apply()

    async def handle(self, event: Event | Retry | Overdue) -> None:
        """Look where the event says, and do what follows.

        Raises:
            NameTaken, Incompatible: this node cannot be in this cluster.
            Denied: the service refuses what a node needs, and has done so since the start.
        """
        try:
            await self._handle(event)
        except Away:
            self.is_behind = True
        except Denied as error:
            if not self.has_seen:
                raise
            # What is served stays served: rights that were taken away are no reason to stop.
            logger.error("a call was refused: %s", error)  # noqa: TRY400 (it is no bug)
            self.is_behind = True
        self._apply()

    async def _handle(self, event: Event | Retry | Overdue) -> None:
        match event:
            case StateChanged(state):
                # Sessions do not expire while nobody counts: a former one has its time again.
                self._is_patient = True
                # All watches are gone; when it is back, everything is read again.
                if state is State.CONNECTED:
                    await self._refresh()
            case Retry():
                await self._refresh()
            case Overdue():
                self._is_patient = False
                await self._refresh()
            case Changed(path) if path == machine_path(self._machine.name):
                await self._refresh()
            case Changed(path) if path == FEATURES:
                await self._agree()
            case Changed(path):
                shard = shard_in(path)
                if shard is not None and self.has_seen and shard < self.shards:
                    await self._look(shard, claims=True)

    async def _refresh(self) -> None:
        """Read everything, and claim what is nobody's, if there is room for it."""
        await self._agree()
        was_waiting = self.is_waiting
        self.is_waiting = not await self._join()
        if self.is_waiting:
            if not was_waiting:
                logger.info(
                    "a former process of this machine is still present at ZooKeeper: waiting until "
                    "its session expires"
                )
            return
        for shard in range(self.shards):
            await self._look(shard, claims=False)
        # Only now is it known how many shards are this node's.
        for shard in range(self.shards):
            if shard not in self._placements or self._is_mine(self._placements[shard]):
                await self._look(shard, claims=True)
        self.has_seen = True
        self.is_behind = False

    # -- what all agree on -----------------------------------------------------------------------

    async def _agree(self) -> None:
        await self._engine.watch(FEATURES)
        for _ in range(ATTEMPTS):
            record = await self._engine.get(FEATURES)
            if record is None:
                await self._engine.create(FEATURES, self._proposed().encoded())
                continue
            try:
                features = Features.parse(record.data)
            except Unreadable as error:
                raise Incompatible(
                    f"what is at {FEATURES} is not a cluster's: {error}; choose another path"
                ) from None
            self._check(features)
            if record.version < self._epoch:
                return  # an old answer
            self._epoch = record.version
            self._features = features
            return
        raise Away(f"{FEATURES} does not come to rest")

    def _proposed(self) -> Features:
        """Returns what the first node of a cluster proposes."""
        if self._features is not None:
            return self._features
        if self._machine.shards is None:
            raise Incompatible(
                "there is no cluster yet: to make one, say how many shards it has, with --shards N"
            )
        return Features(self._machine.shards, self._machine.cluster)

    def _check(self, features: Features) -> None:
        known = self._features
        if known is not None and known.cluster != features.cluster:
            raise Incompatible(
                "this folder belongs to another cluster; choose another --data for this one"
            )
        if known is not None and known.shards != features.shards:
            raise Incompatible(
                f"this folder is of a cluster of {known.shards} shards, and this one has "
                f"{features.shards}: their number cannot change, because it says where topics are; "
                "choose another --data"
            )
        wanted = self._machine.shards
        if wanted not in {None, features.shards}:
            raise Incompatible(
                f"this cluster has {features.shards} shards, not {wanted}, and their number cannot "
                f"change, because it says where topics are: write --shards {features.shards}"
            )
        # Each may come to be here.
        self._machine.address(features.shards - 1)

    async def _join(self) -> bool:
        """Returns whether this machine is present; False: a former session of it still is.

        Raises:
            NameTaken: another machine of its name is.
        """
        path = machine_path(self._machine.name)
        ours = self._machine.presence
        await self._engine.watch(path)
        for _ in range(ATTEMPTS):
            if await self._engine.create(path, ours.encoded(), ephemeral=True):
                # The next session may have to wait for this one.
                self._is_patient = True
                return True
            record = await self._engine.get(path)
            if record is None:
                continue
            try:
                there = Presence.parse(record.data)
            except Unreadable:
                there = Presence("", "")
            if there == ours:
                return True
            if there.folder != ours.folder or not self._is_patient:
                raise NameTaken(
                    f"another machine named {self._machine.name} is in this cluster: give this one "
                    "another name, with --machine, or stop that one"
                )
            return False
        raise Away(f"{path} does not come to rest")

    # -- shards ----------------------------------------------------------------------------------

    async def _look(self, shard: int, *, claims: bool) -> None:
        """Read a shard's record; write it if it is ours to write."""
        path = shard_path(shard)
        # Before it is read, so that no change is missed.
        await self._engine.watch(path)
        for _ in range(ATTEMPTS):
            record = await self._engine.get(path)
            if record is None:
                claim = self._claim(shard)
                if not claims or claim is None:
                    return
                await self._engine.create(path, claim.encoded())
                # Somebody else may have been first: it is read now.
                continue
            recorded = self._parsed(shard, record.data)
            if recorded is None:
                return
            placement = self._later(shard, recorded)
            if self._is_mine(placement):
                placement = self._at_its_address(shard, placement)
                if placement != recorded:
                    try:
                        await self._engine.set(path, placement.encoded(), record.version)
                    except Stale:
                        continue
            self._placements[shard] = placement
            return
        raise Away(f"{path} does not come to rest")

    def _claim(self, shard: int) -> Placement | None:
        """Returns what claims a shard for this machine; None if it may not have it."""
        known = self._placements.get(shard)
        if known is not None:
            # The record is gone, and not the shard: only the machine that has it writes it again.
            if not self._is_mine(known):
                return None
            return self._here(shard, known.generation + 1)
        if sum(map(self._is_mine, self._placements.values())) >= self._machine.most:
            return None
        return self._here(shard, 1)

    def _here(self, shard: int, generation: int) -> Placement:
        return Placement(
            self._machine.name,
            self._machine.presence.folder,
            generation,
            self._machine.address(shard),
            self._now_us(),
        )

    def _parsed(self, shard: int, data: bytes) -> Placement | None:
        try:
            return Placement.parse(data)
        except Unreadable as error:
            logger.warning(
                "the record of shard %d cannot be read, and is passed over: %s", shard, error
            )
            return None

    def _later(self, shard: int, recorded: Placement) -> Placement:
        known = self._placements.get(shard)
        if known is not None and recorded.generation < known.generation:
            return known
        return recorded

    def _at_its_address(self, shard: int, placement: Placement) -> Placement:
        """Returns the placement of a shard that is here, with the address that it has here now."""
        address = self._machine.address(shard)
        if placement.address == address:
            return placement
        return replace(placement, address=address, generation=placement.generation + 1)

    def _is_mine(self, placement: Placement) -> bool:
        return (placement.machine, placement.folder) == (
            self._machine.name,
            self._machine.presence.folder,
        )

    # -- what follows ----------------------------------------------------------------------------

    def _apply(self) -> None:
        """Have everything served, published and kept as it is known now."""
        if self._features is None:
            return
        known = Known(self._features, max(self._epoch, 0), dict(self._placements))
        if self.has_seen and known != self._saved:
            self._save(known)
            self._saved = known
        if not self.has_seen and not self._serves_alone:
            return
        mine = {shard for shard, place in self._placements.items() if self._is_mine(place)}
        for shard in sorted(self._served - mine):
            place = self._placements[shard]
            logger.warning(
                "shard %d is at machine %s now, so its broker here is stopped", shard, place.machine
            )
        self._served = frozenset(mine)
        # The map first: a broker that is started then has it at once.
        cluster_map = self._map()
        if cluster_map != self._published:
            self._hosting.publish(cluster_map)
            self._published = cluster_map
        self._hosting.serve(self._served)

    def _map(self) -> ClusterMap:
        shown = tuple(self._shown(shard) for shard in range(self.shards))
        return ClusterMap(max(self._epoch, 0), shown)

    def _shown(self, shard: int) -> Shard:
        placement = self._placements.get(shard)
        if placement is None:
            return Shard(0, "")
        if self._is_mine(placement):
            # What could not be written yet is what clients of this machine need.
            placement = self._at_its_address(shard, placement)
        return Shard(placement.generation, placement.address, placement.machine, placement.since_us)
