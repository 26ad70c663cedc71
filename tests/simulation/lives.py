"""When the lives of a broker begin and end: that is all there is to a world's history, seen from
the machine.
"""

import math

import trio

from zaichik_protocol import CreateTopic

from .client import connected
from .inspection import Inspector, check_audit, check_nothing_left, check_reasons
from .trace import Anomaly

DRAIN = 1  # simulated seconds on top of the drain timeout
LULL = 30  # simulated seconds for which nobody waits for the disk to be used
LAST_WRITES = 10  # and on top of that, for a disk that may be slow
RESTART = [0.001, 0.1, 2]  # simulated seconds between two lives; never none
TROUBLE = ["full", "slow", "restart", "cut", "cut"]


class Lives:
    """The lives of a world's broker, one after the other.

    Args:
        world: which.
        random: decides what happens to them.
        tasks: where they run.
    """

    def __init__(self, world, random, tasks):
        self._world = world
        self._random = random
        self._tasks = tasks
        self._stops = world.random("stops")  # which power cuts come in the middle of one
        self._changing = trio.Lock()  # of whoever ends a life, or begins one
        self._may_end = trio.Event()  # the trouble
        self._has_ended = trio.Event()

    async def begin(self):
        """Begin a life.

        Topics in memory have to be made again before anybody else comes, or they are other ones.
        """
        world = self._world
        await world.begin_life()
        self._tasks.start_soon(world.life.run)
        self._tasks.start_soon(self._inspect, world.life)
        async with connected(world, "creator", self._random, is_first=True) as client:
            await client.hello()
            for name, topic in world.topics.items():
                await client.ask(CreateTopic, name, topic.settings.pairs())
            await client.close()
        world.life.is_open = True

    async def _inspect(self, life):
        inspector = Inspector(self._world)
        try:
            while not life.stopped.is_set():
                inspector.look()
                await trio.sleep(self._random.choice([0.3, 1.1, 2]))
        except Anomaly as anomaly:
            self._world.fail(anomaly)

    async def stop(self):
        """Stop the broker for good."""
        async with self._changing:
            if not self._world.is_stopping:
                self._world.is_stopping = True
                await self._end()

    async def _end(self):
        """Stop the broker; it must be gone in time, whatever its clients do (CLO-2)."""
        world, life = self._world, self._world.life
        self._tell_to_stop()
        seconds = world.settings.drain_timeout + DRAIN
        if world.machine:
            world.machine.slow = min(
                world.machine.slow, 0.5
            )  # it answers a broker that stops in time (DUR-6)
            seconds += LAST_WRITES
        with trio.move_on_after(seconds):
            await life.stopped.wait()
        if not life.stopped.is_set():
            raise Anomaly("P5", "the broker does not stop, for the sake of a client")
        check_audit(world)
        check_nothing_left(world)
        check_reasons(world)

    def _tell_to_stop(self):
        world = self._world
        world.trace.add(world.time(), "the broker", "is told to stop")
        world.life.stop()

    async def _restart(self):
        async with self._changing:
            if not self._world.is_stopping:
                await self._end()
                self._world.written = math.inf
                await self._begin_again()

    async def _lose_power(self):
        async with self._changing:
            world, random = self._world, self._random
            if world.is_stopping:
                return
            if is_late := self._stops.random() < 0.15:
                self._tell_to_stop()
            if random.random() < 0.7:
                await world.machine.at_work(1 if is_late else LULL, is_to_fail=True)
            world.trace.add(world.time(), "the machine", "loses power")
            world.written = world.machine.written()
            world.machine.cut()
            await world.life.end(random)
            await self._begin_again()

    async def _begin_again(self):
        await trio.sleep(self._random.choice(RESTART))
        await self.begin()

    async def have_trouble(self):
        """Now and then the machine is in trouble; until `calm_down`."""
        try:
            while not (self._world.is_stopping or self._may_end.is_set()):
                with trio.move_on_after(self._random.choice([0.5, 2, 5, 20])):
                    await self._may_end.wait()
                    return
                await self._meet(self._random.choice(TROUBLE))
        except Anomaly as anomaly:
            self._world.fail(anomaly)
        finally:
            self._has_ended.set()

    async def _meet(self, trouble):
        machine, random = self._world.machine, self._random
        if trouble != "cut" and random.random() < 0.7:
            await machine.at_work(LULL)
        match trouble:
            case "full":
                with machine.in_trouble(is_full=True):
                    await trio.sleep(random.choice([0.1, 2, 10]))
                    if random.random() < 0.3:
                        await self._lose_power()
            case "slow":
                with machine.in_trouble(slow=random.choice([0.5, 3])):
                    await trio.sleep(random.choice([1, 10]))
                    if random.random() < 0.3:
                        await self._lose_power()
            case "restart":
                await self._restart()
            case "cut":
                await self._lose_power()

    async def calm_down(self):
        """Have no trouble any more, after one last restart: what was published has to be there
        after it.
        """
        self._may_end.set()
        await self._has_ended.wait()
        await self._random.choice([self._lose_power, self._restart])()
