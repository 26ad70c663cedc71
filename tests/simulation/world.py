"""One simulated world: the broker, its network, its clock, and the book of everything that happens
in it.
"""

import logging
import math
import threading
from contextlib import contextmanager
from random import Random
from zlib import crc32

import trio

from .life import MICROSECONDS, Life
from .network import SimulatedSocket, Weather
from .session_ledger import SessionLedger
from .trace import ANOMALY, Anomaly, Trace
from .worker import Worker

# What our client warns of is what becomes of it here: a connection was lost, messages were gone. It
# is no bug. Nor is what a store makes of a power cut: only an error says that something is damaged.
WARNS_OF_THE_WORLD = {
    "zaichik.client.sequencer",  # the disk may be full, and memory used up
    "zaichik.client.transport",
    "zaichik.client.subscription",
    "zaichik.client.epochs",  # `our_client` asks for which topics
    "zaichik.log.store",
}
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
        return self.microseconds(trio.current_time())

    @staticmethod
    def microseconds(seconds):
        """That time of trio's clock, by this one."""
        return BEGINNING_US + round(seconds * MICROSECONDS) if math.isfinite(seconds) else seconds

    @staticmethod
    def seconds(time_us):
        """That time, by trio's clock."""
        return (time_us - BEGINNING_US) / MICROSECONDS


class World:
    """What all actors share.

    Args:
        seed: what everything follows from.
        settings: the broker's.

    Attributes:
        topics: their ledgers, by name.
        machine: what it runs on, if that can fail; else None.
        life: the broker's, now, or the last one; None before the first.
        written: what was committed to durable topics by then has outlived the last life; simulated
            seconds.
        anomaly: the first promise that was broken.
        is_encrypted: its connections have TLS.
        record: called at the start of a life with its boot, returns what takes its recording; None
            if there is none.
        is_published: all publishers are done.
        is_stopping: the broker was told to stop, and does not come back.
        sessions: the books of names, by topic and name.
        shared: those of shared ones.
        books: of all connections, by their number.
    """

    def __init__(self, seed, settings):
        self.seed = seed
        self.settings = settings
        self.topics = {}
        self.trace = Trace()
        self.clock = VirtualClock()
        self.machine = self.life = None
        self.written = -math.inf
        self.anomaly = None
        self.is_published = self.is_stopping = False
        self.books = {}
        self.sessions = {}
        self.shared = {}
        self.run = trio.CancelScope()
        self.is_encrypted, self.record = False, None
        self._weathers = self.random("weather").sample(WEATHERS, 2)
        self._hosts = self.random("hosts").choice([1, 3, 1000])

    @property
    def broker(self):
        """The broker of this life."""
        return self.life.broker

    # -- lives -----------------------------------------------------------------------------------

    async def begin_life(self):
        """Have the broker start; nobody can connect yet."""
        store = await self.machine.start() if self.machine else None
        if self.life is None:
            self.life = Life(self, 1, store)
            return
        self.life.is_forgotten()
        self.life = Life(self, self.life.boot + 1, store)
        self.trace.add(self.time(), "the broker", "starts again, boot", self.life.boot)
        for name, topic in self.topics.items():
            if topic.is_durable:
                topic.survives(self.broker.registry.durable(name))
            else:
                self.topics[name] = topic.successor()
        self.sessions = {
            key: book for key, book in self.sessions.items() if self.topics[key[0]].is_durable
        }
        for (topic, _), book in self.sessions.items():
            book.survives(self.next_offset(topic), self.clock.microseconds(self.written))
        # Where there are lives, a name is shared in a durable topic.
        for (topic, _), book in self.shared.items():
            book.survives(self.next_offset(topic), self.clock.microseconds(self.written))

    def connect(self, random, weather, book, kind=SimulatedSocket, *, is_first=False):
        """The client's end of a new connection, of that kind, with that book.

        Raises:
            ConnectionRefusedError: nobody listens.
        """
        if not self.life.is_open and not is_first:
            raise ConnectionRefusedError
        socket = self.life.listener.connect(random, weather, book.say, kind, self.host(book.name))
        self.books[socket.number] = book
        self.trace.add(self.time(), book.name, "connects as", socket.number)
        return socket

    # -- what follows from the seed --------------------------------------------------------------

    def random(self, name):
        """A random source of its own, so that no client's choices depend on what others do."""
        return Random(f"{self.seed} {name}")

    def weather(self, random):
        return random.choice(self._weathers)

    def host(self, name):
        """The address of who has that name; in some worlds many share one."""
        return f"host-{crc32(name.encode()) % self._hosts}"

    def cut_after(self, random):
        """Seconds until a connection is cut, for no reason."""
        return random.choice([0.05, 2, 30]) if random.random() < 0.3 else float("inf")

    # -- now -------------------------------------------------------------------------------------

    def time(self):
        """Simulated seconds."""
        worker = threading.current_thread()
        return worker.now if isinstance(worker, Worker) else trio.current_time()

    def now_us(self):
        return self.clock.now_us()

    def next_offset(self, topic):
        """Where the topic ends at this very moment: the one thing that is asked of the broker
        itself.
        """
        return self.broker.registry.get_or_create(topic, self.now_us()).end

    def session(self, subscribe):
        """The book of the name under which somebody subscribes."""
        return self.sessions.setdefault((subscribe.topic, subscribe.name), SessionLedger())

    def fail(self, anomaly):
        """A promise was broken: the run ends."""
        worker = threading.current_thread()
        if isinstance(worker, Worker):
            worker.found = worker.found or anomaly
            return
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
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]


class _Log(logging.Handler):
    """Looks through the log."""

    def __init__(self, world):
        super().__init__()
        self._world = world

    def emit(self, record):
        world = self._world
        if world.life is not None and world.life.is_dying:
            return  # the last words of what is no more
        if record.levelno < logging.INFO and "disconnected" not in record.msg:
            return
        world.trace.add(world.time(), "the log", record.getMessage())
        if record.levelno >= logging.WARNING and not self._is_expected(record):
            cause = f": {record.exc_info[1]!r}" if record.exc_info else ""
            world.fail(Anomaly("BUG", record.getMessage() + cause))
        if "disconnected" in record.msg:
            peer, *_, reason = record.args
            world.life.reasons[int(peer.rpartition(":")[2])] = reason

    def _is_expected(self, record):
        """Whether it tells of no bug."""
        if (
            record.name == "zaichik.client.connection"
        ):  # a commit to a topic that was in memory before a restart
            return (
                self._world.life.boot > 1
                and "this connection has no subscription" in record.getMessage()
            )
        return record.name in WARNS_OF_THE_WORLD and record.levelno < logging.ERROR
