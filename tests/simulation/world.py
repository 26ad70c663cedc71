"""One simulated world: the broker, its network, its clock, and the book of everything that happens in it."""

import logging
from contextlib import contextmanager
from random import Random
from zlib import crc32

import trio

from zaichik.broker.broker import Broker
from zaichik.serving.server import Server
from zaichik.sharing.scheduler import Scheduler

from .network import SimulatedListener, Weather
from .session_ledger import SessionLedger
from .trace import ANOMALY, Anomaly, Trace
from .turn_ledger import TurnLedger

MICROSECONDS = 1_000_000
# What our client warns of is what becomes of it here: a connection was lost, messages were gone. It is no bug.
WARNS_OF_THE_WORLD = {"zaichik.client.transport", "zaichik.client.subscription"}
READING_US = 70  # so that a slice is a few turns
BEGINNING_US = 1_000_000_000 * MICROSECONDS  # 2001, for no reason but to be a round number

WEATHERS = [
    Weather(),  # no network at all: things happen at the same moment
    Weather(latency_ms=(0, 1, 2), piece=1000, buffer=32768),
    Weather(latency_ms=(20, 50, 120), piece=1400, buffer=16384, stall=0.02, stall_ms=1500),
    Weather(latency_ms=(0, 1, 300), piece=60, buffer=2048, stall=0.005, stall_ms=2500, short=0.5),
]


class VirtualClock:
    """The broker's clock, by trio's."""

    def now_us(self):
        return BEGINNING_US + round(trio.current_time() * MICROSECONDS)

    @staticmethod
    def seconds(time_us):
        """That time, by trio's clock."""
        return (time_us - BEGINNING_US) / MICROSECONDS


class Stopwatch:
    """The scheduler's time: trio's, and a little more whenever it is read, so that turns cost something."""

    def __init__(self):
        self._read = 0

    def __call__(self):
        self._read += 1
        return trio.current_time() * MICROSECONDS + self._read * READING_US


class World:
    """What all actors share.

    Args:
        seed: what everything follows from.
        settings: the broker's.
        topics: their ledgers, by name.

    Attributes:
        anomaly: the first promise that was broken.
        is_published: all publishers are done.
        is_stopping: the broker was told to stop.
        sessions: the books of names, by topic and name.
        books: of all connections, by their number.
        reasons: why they ended, by their number.
        turns: the book of turns.
    """

    def __init__(self, seed, settings, topics):
        self.seed = seed
        self.settings = settings
        self.topics = {topic.name: topic for topic in topics}
        self.trace = Trace()
        self.clock = VirtualClock()
        self.listener = SimulatedListener()
        self.broker = Broker(settings, self.clock, Scheduler(Stopwatch()))
        self.broker.boot, self.broker.name = 1, "simulated"  # what differs from run to run and from version to version
        self.server = Server(self.broker, self.listener)
        self.turns = TurnLedger(self)
        self.anomaly = None
        self.is_published = self.is_stopping = False
        self.books = {}
        self.sessions = {}
        self.reasons = {}
        self.run = trio.CancelScope()
        self._weathers = self.random("weather").sample(WEATHERS, 2)
        self._hosts = self.random("hosts").choice([1, 3, 1000])

    def random(self, name):
        """A source of random numbers of its own, so that nobody's choices depend on what others do."""
        return Random(f"{self.seed} {name}")

    def weather(self, random):
        return random.choice(self._weathers)

    def host(self, name):
        """The address of who has that name; in some worlds many share one."""
        return f"host-{crc32(name.encode()) % self._hosts}"

    def cut_after(self, random):
        """Seconds until a connection is cut, for no reason."""
        return random.choice([0.05, 2, 30]) if random.random() < 0.3 else float("inf")

    def time(self):
        return trio.current_time()

    def now_us(self):
        return self.clock.now_us()

    def next_offset(self, topic):
        """Where the topic ends at this very moment: the one thing that is asked of the broker itself."""
        return self.broker.registry.get_or_create(topic, self.now_us()).ring.next_offset

    def session(self, subscribe):
        """The book of the name under which somebody subscribes."""
        return self.sessions.setdefault((subscribe.topic, subscribe.name), SessionLedger())

    def met(self, number, book):
        """A client has connected."""
        self.books[number] = book
        self.trace.add(self.time(), book.name, "connects as", number)

    def fail(self, anomaly):
        """A promise was broken: the run ends."""
        if self.anomaly is None:
            self.anomaly = anomaly
            self.trace.add(self.time(), ANOMALY, anomaly)
        self.run.cancel()

    @contextmanager
    def listening_to_the_log(self):
        """Everything that is logged goes into the trace; a warning, or worse, is an anomaly."""
        logger, handler = logging.getLogger("zaichik"), _Log(self)
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]


class _Log(logging.Handler):
    def __init__(self, world):
        super().__init__()
        self._world = world

    def emit(self, record):
        world = self._world
        world.trace.add(world.time(), "the log", record.getMessage())
        if record.levelno >= logging.WARNING and record.name not in WARNS_OF_THE_WORLD:
            cause = f": {record.exc_info[1]!r}" if record.exc_info else ""
            world.fail(Anomaly("BUG", record.getMessage() + cause))
        if "disconnected" in record.msg:
            peer, *_, reason = record.args
            world.reasons[int(peer.rpartition(":")[2])] = reason
