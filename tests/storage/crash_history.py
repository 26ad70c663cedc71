"""A random history of a broker whose power is cut again and again, and what its clients know for
certain.

The whole broker but its sockets and threads: the core, the logs, and a disk in memory, of which a
cut leaves any sectors of what was being written. Clients number their batches, send again what was
not answered, and read on where they were.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field

from conversation import Conversation, batch
from sim_disk import Crash, SimDisk, full

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.storage.restoring import restore
from zaichik.storage.store import Store
from zaichik_protocol import (
    DURABLE,
    Commit,
    CreateTopic,
    Describe,
    Error,
    ErrorCode,
    Hello,
    Kind,
    Messages,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    TopicCreated,
)

SECOND_US = 1_000_000
KEYS = [b"", b"a", b"b", b"c", b"d"]
AGAIN = {ErrorCode.STORAGE_FULL, ErrorCode.SEQUENCE_GAP}
PUBLISHES, READER = 1000, 10  # the ids of requests


@dataclass
class Sent:
    """A batch of a client, whose number is its index; when it was sent, and what became of it."""

    messages: list
    times: list = field(default_factory=list)
    is_asked: bool = False
    answer: Published | None = None


class Client:
    """One that outlives its connections: a writer and a reader.

    Args:
        world: where it lives.
        number: of its producer.
        name: of its subscription.
    """

    def __init__(self, world, number, name=""):
        self.world, self.number, self.name = world, number, name
        self.batches, self.next, self.committed, self.epoch = [], 0, 0, 0
        self.seen = set()

    def connect(self):
        """Come back: what was not answered is sent again, the oldest first."""
        self.talk = Conversation(self.world.broker, greeted=False)
        self.talk.ask(Hello(1, client=f"client {self.number}", features=DURABLE))
        for sent in self.batches:
            sent.is_asked = False
        self.retry()
        start = self.committed if self.name else self.next
        self.talk.tell(
            Subscribe(
                READER,
                "t",
                name=self.name,
                start=Start.OFFSET,
                value=start,
                epoch=self.epoch,
                credit=9,
            )
        )

    def publish(self, messages):
        self.batches.append(Sent(messages))
        self.retry()

    def retry(self):
        for number, sent in enumerate(self.batches):
            if sent.answer is None and not sent.is_asked:
                sent.is_asked = True
                sent.times.append(self.world.now_us)
                request = Publish(
                    PUBLISHES + number,
                    "t",
                    batch(*sent.messages),
                    producer=self.number,
                    sequence=number,
                )
                self.talk.tell(request)

    def commit(self):
        self.talk.tell(Commit(0, READER, self.next))
        self.committed = self.next

    def listen(self):
        for frame in self.talk.heard():
            match frame:
                case Published():
                    self._answered(frame)
                case Error(code=code):
                    assert ErrorCode(code) in AGAIN, frame
                    self.batches[frame.id - PUBLISHES].is_asked = False
                case Subscribed():
                    assert self.epoch in (0, frame.epoch)
                    assert frame.start <= self.next
                    assert frame.start == self.next or self.name
                    self.epoch, self.next = frame.epoch, frame.start
                    if (
                        not frame.resumed
                    ):  # a name that was not on the disk yet begins anew, where the client says
                        self.seen = set()
                case Messages():
                    assert frame.base == self.next
                    self.next += frame.batch.count
                    pairs = zip(frame.batch.keys(), frame.batch.each_payload(), strict=True)
                    for offset, pair in enumerate(pairs, frame.base):
                        self.world.note(offset, (frame.accepted_us, *map(bytes, pair)))
                        assert frame.redelivered or offset not in self.seen
                        self.seen.add(offset)
                case _:
                    raise AssertionError(frame)

    def _answered(self, answer):
        sent = self.batches[answer.id - PUBLISHES]
        assert answer.durable
        assert sent.answer is None
        sent.answer = answer
        bits = int.from_bytes(answer.dropped, "little")
        kept = [message for index, message in enumerate(sent.messages) if not bits >> index & 1]
        assert (answer.stored, answer.compacted) == (len(kept), bits.bit_count())
        for offset, message in enumerate(kept, answer.first_offset):
            self.world.stored[offset] = message

    def dropped(self):
        """The messages that were, with the times at which that may have been."""
        for sent in self.batches:
            bits = int.from_bytes(sent.answer.dropped, "little")
            for index, (key, _) in enumerate(sent.messages):
                if bits >> index & 1:
                    yield key, sent.times


class World:
    """A broker, its disk, and three clients."""

    def __init__(self, random, window):
        self.random, self.window_us = random, window * SECOND_US
        self.disk, self.clock = SimDisk(), ManualClock(SECOND_US)
        self.disk.random = random
        self.crashes = 0
        self.known, self.stored = {}, {}
        self.payloads = 0
        self._start()
        talk = Conversation(self.broker)
        settings = {
            Setting.DURABLE: 1,
            Setting.CAPACITY: 5,
            Setting.COMPACTION_WINDOW_MS: window * 1000,
        }
        talk.tell(
            CreateTopic(
                2,
                "t",
                (
                    (
                        *settings.items(),
                        (Setting.LOG_BYTES, 1 << 20),
                        (Setting.SEGMENT_BYTES, 1 << 16),
                    )
                ),
            )
        )
        self.work()
        (created,) = talk.heard()
        assert isinstance(created, TopicCreated)
        self.clients = [Client(self, 7), Client(self, 8), Client(self, 9, "n")]
        for client in self.clients:
            client.connect()

    @property
    def now_us(self):
        return self.clock.now_us()

    def note(self, offset, message):
        """Somebody was given this message, which never changes."""
        assert self.known.setdefault(offset, message) == message, (
            f"offset {offset} is another message by now"
        )
        assert self.stored.setdefault(offset, message[1:]) == message[1:]

    # -- the broker --------------------------------------------------------------------------------

    def _start(self):
        self.store = Store(self.disk)
        assert self.store.clock_us <= self.now_us
        self.broker = Broker(BrokerSettings(), self.clock, logs=self.store)
        restore(self.broker, self.store)

    def crash(self):
        """The power is cut; perhaps again, while the broker starts."""
        while True:
            self.crashes += 1
            self.disk = self.disk.copy()
            self.disk.random = self.random
            if self.random.random() < 0.4:
                self._fail(Crash)
            try:
                self._start()
            except Crash:
                continue
            break
        self.disk.fault = lambda _: None
        self._come_back()

    def stop(self):
        """An orderly stop, and a start."""
        self.broker.sweep()
        self.work()
        self.store.close(self.now_us)
        self.disk = self.disk.copy()
        self._start()
        self._come_back()

    def _come_back(self):
        topic = self.broker.registry.durable("t")
        assert topic.retained.log.damage == ""
        assert all(offset < topic.end for offset in self.stored), "what was acknowledged is gone"
        for client in self.clients:
            client.connect()

    def _fail(self, error):
        """One of the next calls of the disk fails."""
        call = len(self.disk.calls) + self.random.randrange(3)
        self.disk.fault = lambda number: error() if number == call else None

    def work(self, most=1000):
        """Do what threads do, some of it."""
        queue = self.store.work
        while most and (queue.has_writes or queue.has_reads):
            most -= 1
            if queue.has_writes:
                log = queue.take_write()
                work = log.gather()
                work()()
                queue.finish_write(log)
            if queue.has_reads:
                queue.take_read()()()

    # -- steps -------------------------------------------------------------------------------------

    def step(self):
        random = self.random
        client = random.choice(self.clients)
        match random.choice("pppppwwwwtscrfxxo"):
            case "p":
                messages = []
                for _ in range(random.randint(1, 3)):
                    self.payloads += 1
                    size = random.choice([5, 5, 50, 3000])
                    messages.append(
                        (random.choice(KEYS), (b"%d " % self.payloads).ljust(size, b"."))
                    )
                client.publish(messages)
            case "w":
                self.work(random.randint(1, 3))
            case "t":
                self.clock.advance(random.choice([0.001, 0.5, 1]))
            case "s":
                self.broker.sweep()
            case "c":
                client.commit()
            case "r":
                client.retry()
            case "f" if random.random() < 0.4:
                self.disk.fault = lambda _: full()
                self.work(3)
                self.disk.fault = lambda _: None
            case "x" if random.random() < 0.5:
                self.cut()
            case "o" if random.random() < 0.2:
                self.stop()
        for each in self.clients:
            each.listen()
        self.check()

    def cut(self):
        """Cut the power, often in the middle of a call."""
        if self.random.random() < 0.7:
            self._fail(Crash)
        with suppress(Crash):
            self.work(2)
        self.crash()

    def check(self):
        (page,) = Conversation(self.broker).ask(Describe(9, Kind.TOPICS, "t"))
        (told,) = json.loads(page.json)["topics"]
        assert set(told["left_over"].values()) == {0}, told
        assert (told["head"], told["evicted"]) == (0, 0)

    def end(self):
        """Everybody finishes; then all that is stored is known, and compared with what was
        promised.
        """
        plain = self.clients[0]
        for _ in range(
            10 + len(self.stored)
        ):  # each has credit for more than one message at a time
            for client in self.clients:
                client.retry()
                client.commit()
            self.work()
            for client in self.clients:
                client.listen()
        assert all(sent.answer is not None for client in self.clients for sent in client.batches)
        assert sorted(self.known) == list(range(self.log_end))
        assert plain.seen <= set(self.known)
        assert self.stored == {offset: message[1:] for offset, message in self.known.items()}
        messages = [self.known[offset] for offset in range(self.log_end)]
        assert [at for at, _, _ in messages] == sorted(at for at, _, _ in messages)
        payloads = [payload for _, _, payload in messages]
        assert len(payloads) == len(set(payloads)), "one was stored twice"
        self._check_windows(messages)

    def _check_windows(self, messages):
        opened = {}
        for at, key, _ in messages if self.window_us else ():
            if key:
                times = opened.setdefault(key, [])
                assert not times or at >= times[-1] + self.window_us, (
                    "a window let a second one through"
                )
                times.append(at)
        for client in self.clients:
            for key, times in client.dropped():
                assert any(at <= now < at + self.window_us for at in opened[key] for now in times)

    @property
    def log_end(self):
        return self.broker.registry.durable("t").end
