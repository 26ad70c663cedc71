"""A broker on a file system that keeps no more than POSIX promises, killed and cut off at any
system call, and what must be true whenever it starts again.

The whole broker but its sockets and threads. Its segments have a few messages each, so that a short
history creates topics, begins files, writes checkpoints, removes what has expired or is too much,
deletes topics and makes them again.

What a client has been told, or could have read, is known: `Known`. A start is asked for all of it
(`World.start`). Whatever a start has *found* is known as well, even if nobody was told of it
before: from then on it can be delivered, and a later power cut must not take it back.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from conversation import Conversation, batch
from cut_worker import CutWorker
from posix_model import Folder, ModelDisk, left_by_cut, states_after_cut
from sim_disk import Crash

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.core.topic_controller import TopicController
from zaichik.storage.recovery import Recovered
from zaichik.storage.repair.checking import check
from zaichik.storage.restoring import restore
from zaichik.storage.store import Store
from zaichik.storage.topic_log import TopicLog
from zaichik.storage.walk import walk
from zaichik_protocol import (
    Batch,
    Commit,
    CreateTopic,
    Delete,
    Deleted,
    Frame,
    Messages,
    Publish,
    Published,
    Setting,
    Subscribe,
    Subscribed,
    TopicCreated,
)

SECOND_US = 1_000_000
KIB = 1024
# A segment has its head and about ten messages; a log has room for eight of these.
SMALL = {"log_bytes": 56 * KIB, "segment_bytes": 7 * KIB}
TTL_MS = 100_000
NEVER = 10**9  # so many system calls are never made
READER = "r"


class Stage(Enum):
    """How much of a topic's life is certain."""

    ASKED = "its creation was asked for"
    THERE = "its creation was acknowledged, or a start has found it"
    GOING = "its deletion was asked for"
    GONE = "its deletion was acknowledged, or a start has not found it any more"


@dataclass
class Known:
    """What is certain about one topic, from its creation to its deletion.

    Attributes:
        stage: see `Stage`.
        messages: payloads by offset: acknowledged, or found by a start.
        may_be_gone: the offset below which the broker may have removed what it had.
        is_gone: the offset below which it has removed all, and said so.
        committed: the last position that was sent; offset 0 is none.
        kept: the position that is on the disk at least.
    """

    stage: Stage = Stage.ASKED
    messages: dict[int, bytes] = field(default_factory=dict)
    may_be_gone: int = 0
    is_gone: int = 0
    committed: int = 0
    kept: int = 0

    def note(self, offset: int, payload: bytes) -> None:
        """Somebody was given this message, and an offset is an identity."""
        known = self.messages.setdefault(offset, payload)
        assert known == payload, f"offset {offset} was {known[:9]!r}, and is {payload[:9]!r}"


class SmallStore(Store):
    """A store whose topics have small files."""

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> TopicLog:
        return super().create(name, epoch, {**settings, **SMALL})


class World:
    """A broker that starts and ends again and again, its clients, and what they know.

    Attributes:
        disk: the disk, for all of its lives.
        known: what is certain, by the topics' epochs.
        workers: those of the shared names, likewise: one in each topic `a`.
        pending: by the ids of requests, what was asked: the topic's epoch and the payloads, or the
            name of a topic.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clock = ManualClock(SECOND_US)
        self.disk = ModelDisk()
        self.known: dict[int, Known] = {}
        self.workers: dict[int, CutWorker] = {}
        self.names: dict[str, int] = {}
        self.ids = 100
        self.payloads = 0
        self.start()

    # -- its ends and beginnings ---------------------------------------------------------------

    def run(self, calls: int, steps: int) -> None:
        """Live for so many steps, or until that many system calls were made; then be killed."""

        def live() -> None:
            for _ in range(steps):
                self.step()

        self.live(live, calls)

    def live(self, life: Callable[[], None], calls: int) -> bool:
        """Do that until so many system calls were made, and be killed.

        Returns whether it came to its end before.
        """
        self._alarm(calls)
        try:
            life()
        except Crash:
            is_whole = False
        else:
            is_whole = True
        self._listen()  # what the broker has said before it was killed
        self.disk = self.disk.killed()
        return is_whole

    def _alarm(self, calls: int) -> None:
        left = calls

        def count() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash

        self.disk.before_call = count

    def cut(self, root: Folder | None = None) -> None:
        """Cut the power: leave that of the disk, or anything."""
        if root is None:
            root = left_by_cut(self.disk.root, self.random.randrange)
        self.disk = ModelDisk(root)

    def forked(self, root: Folder) -> "World":
        """Returns another world with the same past, whose next start finds that on its disk."""
        other = copy.copy(self)
        other.known = copy.deepcopy(self.known)
        other.workers = {epoch: worker.forked() for epoch, worker in self.workers.items()}
        other.clock = ManualClock(self.clock.now_us())
        other.disk = ModelDisk(copy.deepcopy(root))
        return other

    def ends(self, most: int) -> Iterator["World"]:
        """Returns worlds for what may become of this one, if it ends now.

        In the first, the process was killed. In the others the power was cut, and there are so many
        of them at most.
        """
        yield self.forked(self.disk.root)
        for root in states_after_cut(self.disk.root, most, self.random):
            yield self.forked(root)

    def restart(self, calls: int = NEVER) -> bool:
        """Start, but end at that system call. Returns whether the start came to its end before."""
        self._alarm(calls)
        try:
            self.start()
        except Crash:
            self.disk = self.disk.killed()
            return False
        self.disk.before_call = lambda: None
        return True

    def go_on(self) -> None:
        """Publish to every topic, and create what is missing; all of it is acknowledged."""
        for name in "ab":
            if name not in self.names:
                self.create(name)
            self.publish(name)
        self.work()
        assert not self.asked

    def start(self) -> None:
        """Start, and compare what is found with what is known."""
        self._check_before()
        self.store = SmallStore(self.disk)
        found = {topic.epoch: it for topic, it, _ in self.store.recovered}
        for epoch, known in self.known.items():
            self._compare(known, found.pop(epoch, None))
        assert not found, "nobody has ever asked for that topic"
        self.names = {topic.name: topic.epoch for topic, _, _ in self.store.recovered}
        self._check_whole()
        self.broker = Broker(BrokerSettings(), self.clock, logs=self.store)
        restore(self.broker, self.store)
        for topic in self._topics():
            if topic.epoch in self.workers:
                self.workers[topic.epoch].survives(topic)
        self.talk = Conversation(self.broker)
        self.talks = [self.talk]
        self.asked: dict[int, tuple[int, list[bytes]]] = {}
        self.creating: dict[int, str] = {}
        self.deleting: dict[int, int] = {}
        self.readers: dict[str, int] = {}
        self.next: dict[str, int] = {}

    def _check_before(self) -> None:
        """What a power cut can leave is never damage, to `zaichik check` either."""
        for checked in check(self.disk):
            for problem in checked.problems:
                assert "torn end" in problem or "only begun" in problem, problem
            for problem in checked.hopeless:
                assert "newer topic of the same name" in problem, problem

    def _check_whole(self) -> None:
        """What a start leaves is whole."""
        for checked in check(self.disk):
            assert not checked.problems, checked.problems
            assert not checked.hopeless, checked.hopeless

    def _compare(self, known: Known, found: Recovered | None) -> None:
        if found is None:
            assert known.stage is not Stage.THERE, "a topic is gone"
            known.stage = Stage.GONE
            return
        assert known.stage is not Stage.GONE, "a deleted topic is back"
        assert found.damage == ""
        known.stage = Stage.THERE
        messages = dict(self._messages(found))
        head = found.segments[0].base if found.segments else found.state.end
        assert sorted(messages) == list(range(head, found.state.end)), "a hole"
        for offset, payload in messages.items():
            known.note(offset, payload)
        assert known.is_gone <= head <= known.may_be_gone
        for offset in known.messages:
            assert offset < head or offset in messages, f"offset {offset} is gone"
        position = found.state.positions.get(READER, 0)
        assert known.kept <= position <= known.committed
        assert position <= found.state.end
        known.kept = known.committed = position

    def _messages(self, found: Recovered) -> Iterator[tuple[int, bytes]]:
        for segment in found.segments:
            for step in walk(self.disk, segment):
                assert step.record is not None, "damage"
                if step.record.count:
                    payloads = Batch(step.record.body, step.record.count).each_payload()
                    yield from enumerate(map(bytes, payloads), step.record.base)

    # -- what clients do -----------------------------------------------------------------------

    def step(self) -> None:
        """Do anything."""
        random = self.random
        name = random.choice("ab")
        there = name in self.names
        match random.choice("pppppwwwwsstcrddo"):
            case "p" if there:
                self.publish(name)
            case "w":
                self.work(random.randint(1, 3))
            case "s":
                self.sweep()
            case "t":
                self.clock.advance(random.choice([1, 30, 70]))
            case "c" if not there:
                self.create(name)
            case "r" if there:
                self.read(name)
                self.have_worked(name)
            case "d" if there and random.random() < 0.3:
                self.delete(name)
                if random.random() < 0.5:
                    self.create(name)  # without waiting for the answer
            case "o" if random.random() < 0.2:
                self.stop()

    def script(self) -> None:
        """Do everything once that changes files, in few calls."""
        for name in "ab":
            self.create(name)
            self.work()
        for _ in range(3):  # a file each, a minute apart
            self.publish_big("b")
            self.clock.advance(61)
        self.publish_big("a")
        self.read("b")
        self.have_worked("a")
        self.sweep()  # a position is written, and a shared name
        self.have_worked("a")
        self.clock.advance(TTL_MS / 1000)
        self.publish_big("b")
        self.sweep()  # files expire
        self.sweep()  # nothing is new: checkpoints
        self.delete("b")
        self.work()
        self.create("b")
        self.publish_big("b")
        self.stop()
        self.have_worked("a")
        self.sweep()
        for _ in range(9):  # more than `log_bytes`
            self.publish_big("a")

    def publish_big(self, name: str) -> None:
        """Publish as much as fills a file."""
        payloads = []
        for _ in range(4):
            self.payloads += 1
            payloads.append((b"%d " % self.payloads).ljust(900, b"."))
        self._publish(name, payloads)
        self.work()

    def create(self, name: str) -> None:
        settings = [(Setting.DURABLE, 1), (Setting.CAPACITY, 5)]
        if name == "b":
            settings.append((Setting.RETENTION_TTL_MS, TTL_MS))
        self.ids += 1
        self.clock.advance(0.001)  # an epoch is a time
        self._tell_alone(CreateTopic(self.ids, name, tuple(settings)))
        topic = self.broker.registry.durable(name)
        assert topic is not None
        self.names[name] = topic.epoch
        self.known[topic.epoch] = Known()
        if name == "a":
            self.workers[topic.epoch] = CutWorker(name)
        self.creating[self.ids] = name

    def publish(self, name: str) -> None:
        payloads = []
        for _ in range(self.random.randint(1, 3)):
            self.payloads += 1
            size = self.random.choice([5, 50, 900])
            payloads.append((b"%d " % self.payloads).ljust(size, b"."))
        self._publish(name, payloads)

    def _publish(self, name: str, payloads: list[bytes]) -> None:
        self.ids += 1
        self.asked[self.ids] = self.names[name], payloads
        self._tell_alone(Publish(self.ids, name, batch(*payloads)))

    def read(self, name: str) -> None:
        """Read on under a name, and commit all that has come."""
        if name not in self.readers:
            self.ids += 1
            self.readers[name] = self.ids
            self.talk.tell(Subscribe(self.ids, name, name=READER, credit=50))
        self._listen()
        next_offset = self.next.get(name, 0)
        known = self.known[self.names[name]]
        if next_offset > known.committed:
            self.talk.tell(Commit(0, self.readers[name], next_offset))
            known.committed = next_offset

    def have_worked(self, name: str) -> None:
        """Have some jobs done, if the topic has a worker."""
        worker = self.workers.get(self.names[name])
        if worker is not None:
            worker.work(self.broker)

    def delete(self, name: str) -> None:
        epoch = self.names.pop(name)
        self.next.pop(name, None)
        self.readers.pop(name, None)
        self.known[epoch].stage = Stage.GOING
        self.ids += 1
        self.deleting[self.ids] = epoch
        self._tell_alone(Delete(self.ids, name))

    def _tell_alone(self, request: Frame) -> None:
        """Send a request over a connection of its own: there it waits for no other reply."""
        talk = Conversation(self.broker)
        self.talks.append(talk)
        talk.tell(request)

    def sweep(self) -> None:
        """Do what a broker does each second; positions are on the disk when all is written."""
        heard = {epoch: worker.moment for epoch, worker in self.workers.items()}
        self.broker.sweep()
        committed: dict[int, int] = {}
        for topic in self._topics():
            if READER in topic.names:
                committed[topic.epoch] = topic.names[READER].committed
        self.work()
        for epoch, position in committed.items():
            self.known[epoch].kept = position
        for epoch, moment in heard.items():
            self.workers[epoch].written = moment

    def stop(self) -> None:
        """Stop in order, and start."""
        self.sweep()
        self.store.close(self.clock.now_us())
        alarm = self.disk.before_call
        self.disk = self.disk.killed()
        self.disk.before_call = alarm
        self.start()

    # -- what happens then ---------------------------------------------------------------------

    def work(self, most: int = 1000) -> None:
        """Do what threads do, some of it."""
        queue = self.store.work
        while most and (queue.has_writes or queue.has_reads):
            most -= 1
            if queue.has_writes:
                log = queue.take_write()
                work = log.gather()
                for topic in self._topics():
                    known = self.known[topic.epoch]
                    known.may_be_gone = max(known.may_be_gone, topic.retained.log.head)
                work()()
                queue.finish_write(log)
                for topic in self._topics():
                    self.known[topic.epoch].is_gone = topic.retained.log.head
            if queue.has_reads:
                queue.take_read()()()
            self._listen()

    def _topics(self) -> list[TopicController]:
        """Returns the topics that there are."""
        found = [self.broker.registry.durable(name) for name in self.names]
        return [topic for topic in found if topic is not None]

    def _listen(self) -> None:
        for worker in self.workers.values():
            worker.listen()
        by_id = {number: name for name, number in self.readers.items()}
        for frame in [frame for talk in self.talks for frame in talk.heard()]:
            match frame:
                case Published():
                    epoch, payloads = self.asked.pop(frame.id)
                    for offset, payload in enumerate(payloads, frame.first_offset):
                        self.known[epoch].note(offset, payload)
                case TopicCreated():
                    name = self.creating.pop(frame.id)
                    known = self.known[frame.epoch]
                    if self.names.get(name) == frame.epoch:
                        known.stage = Stage.THERE
                case Deleted():
                    self.known[self.deleting.pop(frame.id)].stage = Stage.GONE
                case Subscribed() if frame.id in by_id:
                    known = self.known[self.names[by_id[frame.id]]]
                    known.committed = max(known.committed, frame.start)
                case Messages() if frame.id in by_id:
                    name = by_id[frame.id]
                    known = self.known[self.names[name]]
                    for offset, payload in enumerate(frame.batch.each_payload(), frame.base):
                        known.note(offset, bytes(payload))
                    self.next[name] = frame.base + frame.batch.count
