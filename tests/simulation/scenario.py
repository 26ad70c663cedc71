"""What a seed stands for: which topics there are, who comes, when the broker stops.

And how to run it.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import trio
import trio.testing

from zaichik.core.settings import KIB, MIB, BrokerSettings, TopicSettings
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import FOREVER, Overflow

from .client import Lost
from .crew import crew
from .guests import GUESTS, dozer, metronome
from .inspection import check_audit, check_nothing_left
from .lives import Lives
from .machine import Machine
from .our_client import OurPublisher, OurReader
from .overheard import clients_live_in
from .publisher import Publisher
from .reader import Reader
from .topic_ledger import TopicLedger
from .trace import ANOMALY, Anomaly, Trace
from .trouble import TROUBLE, sipper
from .world import World

LONGEST = 5000  # simulated seconds: what has not ended by then never will
OUR_CLIENT_EVERY = 10  # seeds: a world with it takes more than twice the time of one without
MACHINE_EVERY = 10  # likewise
TABLE_EVERY = 10  # a table more in each world would make all others different ones
CREW_EVERY = 4  # worlds, of those without a disk
CREW_WITH_DISK_EVERY = 4  # worlds with one
LINES_BEFORE, LINES_AFTER = 40, 3  # of the trace around an anomaly


@dataclass(frozen=True)
class Outcome:
    """What became of a seed.

    Attributes:
        seed: which.
        anomaly: the first promise that was broken; None if all were kept.
        seconds: simulated.
        trace: all that happened.
        messages: delivered to anybody.
    """

    seed: int
    anomaly: Anomaly | None
    seconds: float
    trace: Trace
    messages: int

    def summary(self):
        """One line."""
        found = self.anomaly or f"no fault in {self.seconds:.0f} simulated seconds"
        return f"seed {self.seed}: {found}"

    def report(self):
        """The anomaly, and what happened before it."""
        lines = "\n".join(self.trace.around(ANOMALY, LINES_BEFORE, LINES_AFTER))
        again = f"python -m tests.simulation --seed {self.seed}"
        return (
            f"{self.summary()}\n{lines}\nall of it: {again} --trace\nfor zaichik replay: "
            f"{again} --record FILE"
        )


def run(seed, *, is_encrypted=False, record=None):
    """Live through what the seed stands for; in a world without our own client, connections can be
    encrypted.

    Each life of the broker can be recorded for `zaichik replay`; see `World` for `record`.
    """
    core = (
        trio._core._run
    )  # the scheduler's own source of random numbers, and its switch for using only that
    core._r.seed(seed)
    with patch.object(core, "_ALLOW_DETERMINISTIC_SCHEDULING", True):
        return trio.run(
            _live, seed, is_encrypted, record, clock=trio.testing.MockClock(autojump_threshold=0)
        )


def has_our_client(seed):
    """Whether our own client lives in that world, among all the others."""
    return seed % OUR_CLIENT_EVERY == OUR_CLIENT_EVERY - 1 or has_machine(seed)


def has_machine(seed):
    """Whether the broker runs on a machine that loses power now and then, and has durable topics on
    its disk.
    """
    return seed % MACHINE_EVERY == 4


def has_table(seed):
    """Whether there is a table in that world, besides the other topics."""
    return seed % TABLE_EVERY == 2


def has_crew(seed):
    """Whether there are workers in that world, who share a name."""
    if has_machine(seed):
        return seed // MACHINE_EVERY % CREW_WITH_DISK_EVERY == 0
    return seed % CREW_EVERY == 3


def make_world(seed):
    """The broker's settings and the topics: everything small, so that every limit is reached."""
    settings = BrokerSettings(
        max_message=2 * KIB,
        max_batch=16,
        max_frame=4 * KIB,
        max_connections=20,
        max_topics=6,
        max_subscriptions=6,
        soft_output=4 * KIB,
        max_replies=2 * KIB,
    )
    world = World(seed, settings)
    random = world.random("topics")
    if is_squeezed := random.random() < 0.2:
        world.settings = BrokerSettings(**{**settings.limits(), "max_bytes": 64 * KIB})
    topics = {
        "live": TopicSettings(capacity=random.choice([16, 100, 1000])),
        "short": TopicSettings(
            random.choice([500, 1000, 2500]), capacity=random.choice([30, 1000])
        ),
        "ring": TopicSettings(FOREVER, capacity=random.choice([16, 50, 400])),
        "bytes": TopicSettings(FOREVER, max_bytes=random.choice([5 * KIB, 20 * KIB])),
        "full": TopicSettings(
            FOREVER, capacity=random.choice([16, 60]), max_bytes=5 * KIB, overflow=Overflow.REJECT
        ),
        "keys": TopicSettings(
            random.choice([2000, FOREVER]), random.choice([500, 2500, 30_000]), capacity=200
        ),
    }
    if has_table(seed):
        world.settings = replace(world.settings, max_topics=7, max_subscriptions=7)
        topics["table"] = TopicSettings(
            random.choice([2500, FOREVER, FOREVER]), capacity=random.choice([20, 2000]), table=1
        )
    if has_machine(seed):
        world.machine = Machine(world)
        for name in random.sample(["short", "bytes", "full", "keys"], random.randint(2, 4)):
            topics[name] = replace(topics[name], durable=1, log_bytes=MIB, segment_bytes=64 * KIB)
    for name, topic in topics.items():
        may_pay = is_squeezed and topic.overflow == Overflow.EVICT and not topic.table
        world.topics[name] = TopicLedger(name, topic, is_squeezed=may_pay)
    return world


async def _live(seed, is_encrypted, record):
    world = make_world(seed)
    world.is_encrypted, world.record = is_encrypted, record
    threads = world.machine.has_all_threads() if world.machine else nullcontext()
    with world.listening_to_the_log(), threads, world.run:
        world.run.deadline = LONGEST
        try:
            await _Cast(world).play()
        except Anomaly as anomaly:
            world.fail(anomaly)
    if world.run.cancelled_caught and world.anomaly is None:
        world.anomaly = Anomaly("P5", f"it has not ended after {LONGEST} s")
    told = sum(
        book.delivered for each in world.books.values() for book in each.subscriptions.values()
    )
    return Outcome(seed, world.anomaly, trio.current_time(), world.trace, told)


class _Cast:
    """Everybody who takes part."""

    def __init__(self, world):
        self.world = world
        self.random = world.random("cast")

    async def play(self):
        """From the first connection until the broker has stopped and nothing is left."""
        world = self.world
        async with BackgroundTasks() as background:
            lives = self.lives = Lives(world, self.random, background.group)
            await lives.begin()
            guests = self.random.choices(
                self._possible_guests(), k=self.random.randint(0, 3 if world.machine else 8)
            )
            if self.random.random() < 0.3:
                background.group.start_soon(self._stop_after, self.random.choice([3, 30, 100]))
                guests.append(sipper)  # who would keep the broker from stopping
                guests.append(dozer)  # for whom much is left to be sent
            with clients_live_in(world, background.group):
                await self._all_come_and_go(guests)
            if not world.is_stopping:
                await trio.sleep(
                    world.settings.session_ttl + 5
                )  # by then, the last connection was given up, too
            if not world.is_stopping:
                if left := [
                    topic.name
                    for topic in world.broker.registry
                    if topic.names and not topic.settings.durable
                ]:
                    raise Anomaly("CLO-3", f"positions are kept for nobody in {left}")
                check_nothing_left(world)
                check_audit(world)
            await lives.stop()
        for topic in world.topics.values():
            topic.check_windows()
            topic.check_passed()

    def _possible_guests(self):
        if self.world.machine is None:
            return TROUBLE + GUESTS
        return [
            guest for guest in TROUBLE + GUESTS if guest is not metronome
        ]  # who cannot wait for a disk

    async def _stop_after(self, seconds):
        await trio.sleep(seconds)
        await self._act(self.lives.stop)

    async def _all_come_and_go(self, guests):
        world, random, names = self.world, self.random, list(self.world.topics)
        async with trio.open_nursery() as others:
            others.start_soon(self._act, Reader(world, "witness", names, is_auditor=True).run)
            for number in range(random.randint(2, 4)):
                reader = Reader(
                    world, f"reader-{number}", random.sample(names, random.randint(1, 3))
                )
                others.start_soon(self._act, reader.run)
            for act in self._of_our_client(OurReader):
                others.start_soon(self._act, act)
            for number, guest in enumerate(guests):
                name = f"{guest.__name__}-{number}"
                act = partial(self._visit, guest, name, world.random(name))
                others.start_soon(self._act, act)
            if has_crew(world.seed):
                act = partial(self._visit, crew, "crew", world.random("crew"))
                others.start_soon(self._act, act)
            if world.machine:
                others.start_soon(self.lives.have_trouble)
            async with trio.open_nursery() as publishers:
                for number in range(random.randint(1, 3)):
                    publisher = Publisher(
                        world, f"publisher-{number}", random.sample(names, random.randint(1, 5))
                    )
                    publishers.start_soon(self._act, publisher.run)
                for act in self._of_our_client(OurPublisher):
                    publishers.start_soon(self._act, act)
            if world.machine:
                await self._act(self.lives.calm_down)
            world.is_published = True
            await self._act(Reader(world, "latecomer", names, is_auditor=True).run)

    def _of_our_client(self, kind):
        """What those who use it do, if this is one of its worlds: all with two topics, of which one
        may be full.
        """
        world = self.world
        if not has_our_client(world.seed):
            return
        names = [name for name, topic in world.topics.items() if topic.is_durable] or ["full"]
        topics = [names[0], world.random("topic of our client").choice(list(world.topics))]
        random = world.random(kind.__name__)
        for number in range(random.randint(1, 2)):
            yield kind(world, f"{kind.__name__}-{number}", random.choice(topics)).run

    async def _visit(self, guest, name, random):
        await trio.sleep(random.choice([0, 1, 10, 40]))
        life = self.world.life
        try:
            await guest(self.world, name, random)
        except Lost as lost:
            is_fault = (
                life is self.world.life and life.is_open and str(lost) != "TOO_MANY_CONNECTIONS"
            )
            if guest in GUESTS and is_fault:
                raise Anomaly("P5", f"{name} was lost: {lost}") from lost

    async def _act(self, act):
        try:
            await act()
        except Anomaly as anomaly:
            self.world.fail(anomaly)
