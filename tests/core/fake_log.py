"""Logs without a disk: what a topic writes waits until a test says that it is synced, or that there
is no room.
"""

from bisect import bisect_right
from dataclasses import dataclass

from conversation import Conversation, batch

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.ring import Entry
from zaichik.core.settings import BrokerSettings
from zaichik_protocol import (
    DURABLE,
    FOREVER,
    Batch,
    CreateTopic,
    ErrorCode,
    Hello,
    Publish,
    Refused,
    Setting,
)

FULL = Refused(ErrorCode.STORAGE_FULL, "no room", "topic")


@dataclass
class Written:
    """A record.

    `kind` is "publish", "refuse" or "move"; `what` a batch, a refusal, or positions.
    """

    kind: str
    base: int
    accepted_us: int
    what: object
    dropped: bytes
    producer: int
    sequence: int

    @property
    def count(self):
        return self.what.count if self.kind == "publish" else 0

    @property
    def size(self):
        return 100 + (len(self.what.data) if self.count else 0)


class FakeLog:
    """See `zaichik.core.log.Log`.

    Args:
        end: where it begins.

    Attributes:
        disk: records that are synced.
        files: how many records are in each file.
        reads: the readers that wait for a chunk, with the offset; `read` serves them.
        bad: offsets that cannot be read.
    """

    def __init__(self, end=0):
        self.head = self.end = end
        self.damage = ""
        self.disk, self.reads, self.gone = [], {}, None
        self.looks = []
        self.bad = ()
        self.files = 2
        self.saves = 0
        self.bound = 0
        self._chunks = {}

    @property
    def size(self):
        return sum(record.size for record in self.disk)

    def write(self):
        assert self.owner.waiting[-1].what != {}

    @property
    def gathered(self):
        """The records that wait."""
        return written(self.owner.waiting)

    def clean(self):
        pass

    def save(self):
        self.saves += 1

    def delete(self, gone):
        self.gone = gone

    # -- what the disk does ----------------------------------------------------------------------

    def gather(self, count=None):
        """A thread writes so many of those that wait; what it returns reports them as synced."""
        group = [*self.owner.waiting][:count]

        def finish():
            self.disk += written(group)
            if self.gone is not None:
                gone, self.gone = self.gone, None
                gone()
                return
            if self.disk:
                self.end = self.disk[-1].base + self.disk[-1].count
            self.owner.on_synced(len(group))

        return finish

    def sync(self, count=None):
        """The oldest records, or all, are on the disk."""
        self.gather(count)()

    def refuse_all(self, refusal=FULL):
        """There is no room for what waits."""
        self.owner.on_refused(refusal)

    def fail(self, damage):
        """Somebody else has changed the log, as the next write has found out."""
        self.damage = damage
        self.owner.on_refused(Refused(ErrorCode.DAMAGED, f"the log is damaged: {damage}", "topic"))

    def positions(self):
        """Those of names, as a start would find them."""
        found = {}
        for record in self.disk:
            if record.kind == "move":
                found |= record.what
        return {name: committed for name, committed in found.items() if committed is not None}

    def size_from(self, offset):
        files = [
            self.disk[first : first + self.files] for first in range(0, len(self.disk), self.files)
        ]
        kept = [it for it in files if it is files[-1] or it[-1].base + it[-1].count > offset]
        return sum(record.size for it in kept for record in it)

    def remove_files(self, offset, own=FOREVER):
        """Files that hold nothing from that offset on go: those below `own` for the log's own
        limit.
        """
        while len(self.disk) > self.files and self.disk[self.files].base <= offset:
            del self.disk[: self.files]
            self.head = self.disk[0].base
        self.owner.on_head_moved(self.head, own)

    # -- reading ---------------------------------------------------------------------------------

    def _stored(self):
        return [record for record in self.disk if record.count]

    def entry(self, offset, wake):
        assert offset >= self.head
        for entry in self._chunks.get(wake, ()):
            if entry is None:
                del self._chunks[wake]
                raise Refused(ErrorCode.DAMAGED, f"damaged at offset {offset}")
            if entry.base <= offset < entry.base + entry.batch.count:
                return entry
        self.reads[wake] = offset
        return None

    def read(self, most=2):
        """Each reader that waits is given some batches, and is woken."""
        reads, self.reads = self.reads, {}
        for wake, offset in reads.items():
            stored = self._stored()
            first = max(bisect_right([record.base for record in stored], offset) - 1, 0)
            chunk = [Entry(it.base, it.accepted_us, it.what) for it in stored[first : first + most]]
            self._chunks[wake] = [None] if offset in self.bad else chunk
            wake()
        return bool(reads)

    def is_reading(self, wake):
        return wake in self.reads

    def release(self, wake):
        self._chunks.pop(wake, None)
        self.reads.pop(wake, None)

    def first_since(self, time_us, found):
        self.looks.append((time_us, found))

    def look(self):
        """The disk knows when its messages were accepted."""
        looks, self.looks = self.looks, []
        for time_us, found in looks:
            found(
                next(
                    (record.base for record in self._stored() if record.accepted_us >= time_us),
                    None,
                )
            )

    def expired_until(self, time_us):
        """Memory knows where files begin, and the end."""
        stored = self._stored()
        if stored and stored[-1].accepted_us <= time_us:
            return self.end
        known = [record.base for record in stored[:: self.files] if record.accepted_us <= time_us]
        return known[-1] if known else self.head

    def drop_below(self, offset):
        self.remove_files(offset)


KINDS = {Batch: "publish", Refused: "refuse", dict: "move"}


def written(writes):
    """The records of those that wait, without what only waits."""
    return [
        Written(
            KINDS[type(it.what)],
            it.base,
            it.accepted_us,
            it.what,
            it.dropped,
            it.producer,
            it.sequence,
        )
        for it in writes
        if it.what is not None
    ]


class FakeLogs:
    """All logs, by the names of their topics."""

    def __init__(self):
        self.used, self.p99_us = 0, None
        self.known = {}
        self.unreadable = ()

    def check(self, name):
        if name in self.unreadable:
            raise Refused(ErrorCode.DAMAGED, "it cannot be read", "topic")

    def sync_p99_us(self):
        return self.p99_us

    def create(self, name, epoch, settings):
        self.known[name] = log = FakeLog()
        return log


class Durably(Conversation):
    """A client that knows the flag, and the log of the topic "t"."""

    def __init__(self, broker=None, **how):
        self.logs = FakeLogs() if broker is None else broker.registry._logs
        super().__init__(broker or durable_broker(self.logs), greeted=False, **how)
        self.ask(Hello(1, client="somebody", features=DURABLE))

    @property
    def log(self):
        return self.logs.known["t"]

    @property
    def topic(self):
        return self.broker.registry.durable("t")

    def create(self, **settings):
        pairs = {"DURABLE": 1} | settings
        self.tell(
            CreateTopic(2, "t", tuple((Setting[name], value) for name, value in pairs.items()))
        )
        self.log.sync()
        (created,) = self.heard()
        return created

    def publish(self, request_id, *messages, producer=0, sequence=0):
        """Returns what a publish is answered at once."""
        return self.ask(
            Publish(request_id, "t", batch(*messages), producer=producer, sequence=sequence)
        )

    def filled(self, *messages):
        """Each of them stored in a batch of its own, synced."""
        for message in messages:
            assert self.publish(0, message) == []
        self.log.sync()
        assert self.heard() == []

    def pass_time(self, seconds):
        self.broker.clock.advance(seconds)


def durable_broker(logs, **settings):
    return Broker(BrokerSettings(**settings), ManualClock(1_000), logs=logs)
