"""A cluster in a simulation: nodes that decide, and a service that keeps what they agree on.

No event loop and no time: a node's calls stop wherever ZooKeeper's could, and chance says who goes
on. Links are cut, with answers on their way or not; sessions expire; nodes are killed and started
again, on their folder or on an empty disk, at another address; shards are restored elsewhere;
records are deleted by hand; a server that a new session finds may lag behind.

What must hold at each moment is checked when something is written, served or published, and what
must hold when all is well again at the end.
"""

import random
import types
from collections import deque
from dataclasses import replace

from zaichik.apps.cluster.coordinator import Coordinator, Machine, Overdue, Retry
from zaichik.apps.cluster.engine import Away, Changed, Record, Stale, State, StateChanged
from zaichik.apps.cluster.records import (
    FEATURES,
    MACHINES,
    SHARDS,
    Features,
    Placement,
    Presence,
    shard_in,
    shard_path,
)
from zaichik.apps.cluster.restoring import RESTORED
from zaichik.client.cluster.map import Shard

LONGEST_LAG = 6  # changes
SETTLE_STEPS = 20_000


@types.coroutine
def pause():
    """Let chance decide who goes on."""
    yield


class Broken(AssertionError):
    """Something does not hold. The text says what."""


class Service:
    """What ZooKeeper keeps, in every state that it ever had."""

    def __init__(self) -> None:
        # By path: data, version, the session that it ends with.
        self.states: list[dict[str, tuple[bytes, int, int]]] = [{}]
        self.last: dict[int, Placement] = {}  # of each shard, also if its record was deleted
        self.restored: set[int] = set()
        self.links: list[Link] = []

    @property
    def now(self):
        return self.states[-1]

    def change(self, path, entry, by=None):
        """Write or delete a record; all links that are up to date are told."""
        if entry is not None and (shard := shard_in(path)) is not None:
            self._check_placement(shard, Placement.parse(entry[0]), path, by)
        state = dict(self.now)
        if entry is None:
            del state[path]
        else:
            state[path] = entry
        self.states.append(state)
        for link in self.links:
            if link.view == len(self.states) - 2:
                link.catch_up()

    def _check_placement(self, shard, placement, path, by):
        before = self.last.get(shard)
        if before is not None and placement.generation <= before.generation:
            raise Broken(f"{path}: generation {placement.generation} after {before.generation}")
        if by is not None:
            if placement.folder != by.folder:
                raise Broken(f"{path}: written by {by.folder} for {placement.folder}")
            if before is not None and before.folder != by.folder:
                raise Broken(f"{path}: {by.folder} took what is {before.folder}'s")
            own = sum(
                last.folder == by.folder
                for number, last in self.last.items()
                if number not in self.restored
            )
            if before is None and own >= by.most:
                raise Broken(f"{path}: claimed beyond the most, {by.most}")
        else:
            self.restored.add(shard)
        self.last[shard] = placement

    def end_session(self, session):
        for path, (_, _, owner) in self.now.copy().items():
            if owner == session:
                self.change(path, None)


class Link:
    """A node's way to the service: the six calls."""

    def __init__(self, world, node):
        self.world = world
        self.node = node
        self.service = world.service
        self.is_cut = True
        self.session = 0
        self.view = 0
        self.watched = set()
        self.service.links.append(self)

    @property
    def state(self):
        return State.AWAY if self.is_cut else State.CONNECTED

    def connect(self):
        """A server is reached; if the session is over, by another one, which may lag behind."""
        if not self.is_cut:
            return
        if self.session not in self.world.sessions:
            self.session = self.world.new_session()
            latest = len(self.service.states) - 1
            self.view = max(0, latest - self.world.chance.randrange(LONGEST_LAG))
        self.is_cut = False
        self.node.inbox.append(StateChanged(State.CONNECTED))

    def cut(self):
        if not self.is_cut:
            self.is_cut = True
            self.watched.clear()
            self.node.inbox.append(StateChanged(State.AWAY))

    def catch_up(self):
        """The server has all changes now."""
        before, self.view = self.service.states[self.view], len(self.service.states) - 1
        after = self.service.now
        if self.is_cut:
            return
        for path in sorted(self.watched):
            if before.get(path) != after.get(path):
                self.watched.discard(path)
                self.node.inbox.append(Changed(path))

    async def _call(self, do):
        await pause()
        if self.is_cut or self._takes_too_long():
            raise Away
        result = do()
        await pause()
        if self.is_cut or self._takes_too_long():
            raise Away  # it was done, and nobody here knows
        return result

    def _takes_too_long(self):
        return not self.world.is_settling and self.world.chance.random() < 0.01

    async def create(self, path, data, *, ephemeral=False):
        def do():
            # Through the leader: what was written before is seen from now on.
            self.catch_up()
            if path in self.service.now:
                return False
            owner = self.session if ephemeral else 0
            self.service.change(path, (data, 0, owner), self.node)
            return True

        return await self._call(do)

    async def get(self, path):
        def do():
            entry = self.service.states[self.view].get(path)
            return None if entry is None else Record(entry[0], entry[1])

        return await self._call(do)

    async def set(self, path, data, version):
        def do():
            self.catch_up()
            entry = self.service.now.get(path)
            if entry is None or entry[1] != version:
                return None
            self.service.change(path, (data, version + 1, entry[2]), self.node)
            return version + 1

        found = await self._call(do)
        if found is None:
            raise Stale(path)
        return found

    async def children(self, path):
        return await self._call(
            lambda: sorted(
                name.removeprefix(f"{path}/")
                for name in self.service.states[self.view]
                if name.startswith(f"{path}/")
            )
        )

    async def watch(self, path):
        await self._call(lambda: self.watched.add(path))


class Node:
    """A machine: a folder that stays, and processes that come and go. It is its own hosting."""

    def __init__(self, world, name, most):
        self.world = world
        self.name = name
        self.most = most
        self.port = 1000
        self.is_up = False
        self.known = None
        self.serves_alone = False
        self.lose_disk()

    def lose_disk(self):
        self.folder = f"{self.name}-{self.world.number()}"
        self.known = None

    def start(self):
        self.inbox = deque()
        self.running = None
        self.served = frozenset()
        self.published = None
        self.began = len(self.world.service.states) - 1
        self.link = Link(self.world, self)
        self.process = f"process-{self.world.number()}"
        self.coordinator = Coordinator(
            Machine(
                self.name,
                Presence(self.folder, self.process),
                self.address,
                self.most,
                self.world.shards,
                f"cluster-{self.world.number()}",
            ),
            self.link,
            self,
            self.save,
            self.world.number,
            self.known,
            serves_alone=self.serves_alone,
        )
        self.is_up = True
        self.coordinator.begin()

    def kill(self):
        """Its brokers end with it; its session goes on until it expires."""
        self.is_up = False
        self.served = frozenset()
        if self.running is not None:
            self.running.close()
        self.link.is_cut = True
        self.world.service.links.remove(self.link)

    def address(self, shard):
        return f"{self.name}:{self.port + shard}"

    def save(self, known):
        self.known = known

    # -- hosting, and what must hold whenever something is served or published ---------------------

    def serve(self, shards):
        for shard in shards - self.served:
            self._check_may_serve(shard)
        self.served = shards

    def _check_may_serve(self, shard):
        if self.serves_alone:
            return
        if not self.coordinator.has_seen:
            raise Broken(f"{self.name} serves {shard} before it has seen all records")
        for state in self.world.service.states[self.began :]:
            entry = state.get(shard_path(shard))
            if entry is not None and Placement.parse(entry[0]).folder == self.folder:
                return
        raise Broken(f"{self.name} serves {shard}, which was never its own since it began")

    def publish(self, cluster_map):
        for shard in self.coordinator.served:
            if cluster_map.shards[shard].address != self.address(shard):
                raise Broken(f"{self.name} says that shard {shard} is elsewhere")
        before, self.published = self.published, cluster_map
        if before is None:
            return
        if cluster_map.features < before.features:
            raise Broken(f"{self.name}: epoch {cluster_map.features} after {before.features}")
        pairs = zip(before.shards, cluster_map.shards, strict=True)
        for number, (old, new) in enumerate(pairs):
            if new.generation < old.generation:
                raise Broken(
                    f"{self.name}: shard {number} has generation {new.generation} after "
                    f"{old.generation}"
                )
            is_other = (new.address, new.machine) != (old.address, old.machine)
            if is_other and new.generation == old.generation:
                raise Broken(f"{self.name}: shard {number} differs, in one generation")

    def knows(self, shard, placement):
        """Whether it has published this placement, which is in its record."""
        if placement is None or not self.is_up or self.published is None:
            return False
        is_told = self.published.shards[shard].generation == placement.generation
        return is_told and shard_path(shard) in self.world.service.now

    # -- going on ----------------------------------------------------------------------------------

    @property
    def has_work(self):
        if not self.is_up:
            return False
        if self.running is not None or self.inbox:
            return True
        can_ask = self.link.state is State.CONNECTED
        return can_ask and (self.coordinator.is_behind or self.is_overdue)

    @property
    def is_overdue(self):
        """Whether its own former session, for which it waits, has ended, and it was not told."""
        return self.coordinator.is_waiting and f"{MACHINES}/{self.name}" not in (
            self.world.service.now
        )

    def step(self):
        """Go on to the next place where others may come between."""
        if self.running is None:
            event = Overdue() if self.is_overdue else Retry()
            if self.inbox:
                event = self.inbox.popleft()
            self.running = self.coordinator.handle(event)
        try:
            self.running.send(None)
        except StopIteration:
            self.running = None


class World:
    """Some machines, and what befalls them.

    Args:
        seed: of chance.
        machines: how many.
        shards: how many.
    """

    def __init__(self, seed, machines=3, shards=4):
        self.chance = random.Random(seed)
        self.shards = shards
        self.service = Service()
        self.sessions = set()
        self.is_settling = False
        self._numbers = 0
        most = self.chance.choice([shards, 2])
        self.nodes = [Node(self, name, most) for name in "abcde"[:machines]]

    def number(self):
        self._numbers += 1
        return self._numbers

    def new_session(self):
        session = self.number()
        self.sessions.add(session)
        return session

    def run(self, steps=800):
        """Let things happen, then let all be well, and check what is left."""
        for node in self.nodes:
            node.start()
            node.link.connect()
        for _ in range(steps):
            if self.chance.random() < 0.95:
                working = [node for node in self.nodes if node.has_work]
                if working:
                    self.chance.choice(working).step()
            else:
                self.chance.choice(TROUBLES)(self, self.chance.choice(self.nodes))
        self.settle()
        self.check()

    @property
    def is_recorded(self):
        """Whether no record is missing."""
        return all(shard_path(shard) in self.service.now for shard in self.service.last)

    def expire(self, session):
        if not session:
            return  # it was never connected
        self.sessions.discard(session)
        self.service.end_session(session)

    def settle(self):
        """Everything is there again but the machines that are down; all do what they have to."""
        self.is_settling = True
        used = {node.link.session for node in self.nodes if node.is_up}
        for session in sorted(self.sessions - used):
            self.expire(session)
        for node in self.nodes:
            if node.is_up:
                node.link.connect()
        for _ in range(SETTLE_STEPS):
            for link in self.service.links:
                link.catch_up()
            working = [node for node in self.nodes if node.has_work]
            if not working:
                return
            self.chance.choice(working).step()
        raise Broken("the nodes do not come to rest")

    def check(self):
        up = [node for node in self.nodes if node.is_up]
        placed = {}
        for shard in range(self.shards):
            entry = self.service.now.get(shard_path(shard))
            if entry is not None:
                placed[shard] = Placement.parse(entry[0])
        for node in up:
            mine = {shard for shard, place in placed.items() if place.folder == node.folder}
            if node.served != mine:
                raise Broken(f"{node.name} serves {set(node.served)}, and has {mine}")
            for shard in mine:
                if placed[shard].address != node.address(shard):
                    raise Broken(f"shard {shard} is not at {placed[shard].address}")
            if f"{MACHINES}/{node.name}" not in self.service.now:
                raise Broken(f"{node.name} is not present")
            self._check_map(node, placed)

    def _check_map(self, node, placed):
        if node.published.features != self.service.now[FEATURES][1]:
            raise Broken(f"{node.name} has not published the latest epoch")
        for shard, place in placed.items():
            told = node.published.shards[shard]
            truth = Shard(place.generation, place.address, place.machine, place.since_us)
            if told != truth:
                raise Broken(f"{node.name} says {told}, and it is {truth}")


# -- what befalls machines -------------------------------------------------------------------------


def cut(_world, node):
    if node.is_up:
        node.link.cut()


def connect(_world, node):
    if node.is_up:
        node.link.connect()


def expire(world, node):
    if node.is_up and node.link.is_cut and node.link.session:
        world.expire(node.link.session)


def catch_up(_world, node):
    if node.is_up:
        node.link.catch_up()


def kill(world, node):
    if node.is_up:
        node.kill()
        if world.chance.random() < 0.5:
            world.expire(node.link.session)


def start(world, node):
    """Start a machine that is down; on an empty disk only once nobody takes it for present."""
    if node.is_up:
        return
    node.serves_alone = False
    is_present = f"{MACHINES}/{node.name}" in world.service.now
    if world.chance.random() < 0.2:
        node.port += 100
    if world.chance.random() < 0.2 and not is_present and world.is_recorded:
        node.lose_disk()
    elif world.chance.random() < 0.1 and world.is_recorded:
        node.known = None
    elif world.chance.random() < 0.2:
        node.serves_alone = True
    node.start()
    if world.chance.random() < 0.8:
        node.link.connect()


def end_sessions(world, _node):
    """Sessions of processes that are gone expire."""
    used = {node.link.session for node in world.nodes if node.is_up}
    for session in sorted(world.sessions - used):
        world.expire(session)


def restore(world, node):
    """A shard whose machine is not present is placed on another one."""
    if f"{MACHINES}/{node.name}" in world.service.now:
        return
    other = world.chance.choice([each for each in world.nodes if each is not node])
    for path, (data, version, _) in world.service.now.copy().items():
        if path.startswith(SHARDS) and Placement.parse(data).machine == node.name:
            before = Placement.parse(data)
            placed = replace(
                before,
                machine=other.name,
                folder=other.folder,
                generation=before.generation + RESTORED,
                address=other.address(shard_in(path)),
            )
            world.service.change(path, (placed.encoded(), version + 1, 0))
            return


def delete_record(world, _node):
    """An operator deletes a record by mistake; every node is there and knows whose the shard is."""
    shard = world.chance.randrange(world.shards)
    last = world.service.last.get(shard)
    if all(node.knows(shard, last) for node in world.nodes):
        world.service.change(shard_path(shard), None)


def agree(world, _node):
    """The nodes agree on something new, as a later version will."""
    if FEATURES in world.service.now:
        data, version, _ = world.service.now[FEATURES]
        added = data.replace(b"{", b'{"later":%d,' % version, 1)
        assert Features.parse(added) == Features.parse(data)
        world.service.change(FEATURES, (added, version + 1, 0))


TROUBLES = (
    *(cut, connect, connect, connect, expire, expire, catch_up, catch_up),
    *(kill, start, start, start, end_sessions, restore, restore, delete_record, agree),
)
