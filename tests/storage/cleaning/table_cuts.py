"""A broker with durable tables on a file system that keeps no more than POSIX promises, killed and
cut off at any system call, and what must be true whenever it starts again.

The world is that of `power_cuts`, with tables: their files are so small, and the steps of rewriting
so short, that a short history rewrites, merges and removes files, and is cut off in all of it.

What must be true is a fold over all messages that were ever acknowledged, or found by a start: the
newest of each key is there, and nothing else but messages that nobody was told of yet.
"""

from power_cuts import NEVER, READER, SMALL, TTL_MS, Known, Stage, World

from zaichik.core.tables.keep_last import KeepLast
from zaichik.storage import writer
from zaichik.storage.cleaning import choice, rewriting, table_log
from zaichik.storage.recovery import Recovered
from zaichik_protocol import (
    DURABLE,
    TABLES,
    CreateTopic,
    Hello,
    Messages,
    Publish,
    Published,
    Setting,
    Subscribe,
)

KIB = 1024
TOMBSTONES_MS = 20_000
KEYS = [b"", b"a", b"b", b"c", b"d", b"e"]
LOG_BYTES = 1 << 20


def small_steps(monkeypatch):
    """Rewrite a few records at a time, and a checkpoint for each few."""
    monkeypatch.setattr(rewriting, "STEP", 1500)
    monkeypatch.setattr(rewriting, "RECORD_MESSAGES", 3)
    monkeypatch.setattr(table_log, "OFFSETS", 6)
    monkeypatch.setattr(table_log, "LOOK_EVERY", 2 * KIB)
    monkeypatch.setattr(table_log, "BESIDES", 8 * KIB)
    monkeypatch.setattr(choice, "MOST_SMALL", 3)
    monkeypatch.setattr(writer, "SOONEST_CHECKPOINT", KIB)
    monkeypatch.setattr(writer, "CHECKPOINT_EVERY", 4 * KIB)


class TableWorld(World):
    """See above.

    Attributes:
        stored: of each topic, by its epoch: the messages by offset, with their times.
        gone: of each topic, tombstones that had gone from memory.
        rewritten: how many files were rewritten in all lives.
    """

    def __init__(self, random):
        self.stored = {}
        self.gone = {}
        self.times = {}
        self.rewritten = 0
        self.keyed = {}
        super().__init__(random)

    def forked(self, root):
        other = super().forked(root)
        other.stored = {epoch: dict(known) for epoch, known in self.stored.items()}
        other.gone = {epoch: set(known) for epoch, known in self.gone.items()}
        return other

    def start(self):
        super().start()
        self.talk = self.client()
        self.talks = [self.talk]
        for topic in self._topics():
            topic.expire(self.clock.now_us())
            self._check_laws(topic)

    def client(self):
        from conversation import Conversation

        talk = Conversation(self.broker, greeted=False)
        talk.ask(Hello(1, client="somebody", features=DURABLE | TABLES))
        return talk

    def _tell_alone(self, request):
        talk = self.client()
        self.talks.append(talk)
        talk.tell(request)

    def _check_laws(self, topic):
        retained = topic.retained
        gone = retained.expired + retained.evicted + retained.superseded
        assert retained.resident + gone == topic.published == topic.end

    # -- what a start has to find --------------------------------------------------------------

    def _compare(self, known: Known, found: Recovered | None) -> None:
        if found is None:
            assert known.stage is not Stage.THERE, "a topic is gone"
            known.stage = Stage.GONE
            return
        assert known.stage is not Stage.GONE, "a deleted topic is back"
        assert found.damage == ""
        known.stage = Stage.THERE
        kept = found.kept
        assert isinstance(kept, KeepLast)
        epoch = found.topic.epoch
        stored = self.stored.setdefault(epoch, {})
        end = found.state.end
        assert end == kept.next_offset
        assert all(offset < end for offset in stored), "what was acknowledged is gone"
        found_now = content(kept)
        for offset in range(max(stored, default=-1) + 1, end):
            # It was not acknowledged before; what it was is known by its payload.
            if offset in found_now:
                stored[offset] = found_now[offset]
        for offset, message in found_now.items():
            assert stored[offset] == message, f"offset {offset} is another message by now"
        self._compare_content(epoch, found_now, kept)
        position = found.state.positions.get(READER, 0)
        assert known.kept <= position <= known.committed
        assert position <= end
        known.kept = known.committed = position

    def _compare_content(self, epoch, found, kept):
        newest = {}
        for offset, (key, payload, at_us) in sorted(self.stored[epoch].items()):
            newest[key or offset] = offset, key, payload, at_us
        must = {it[0]: it[1:] for it in newest.values()}
        ttl_us = TTL_MS * 1000 if self.ttl.get(epoch) else 10**18
        now_us = self.clock.now_us()
        for offset, message in must.items():
            _, payload, at_us = message
            if at_us + ttl_us <= now_us:
                continue
            if message[0] and not payload and offset not in found:
                is_over = at_us + TOMBSTONES_MS * 1000 <= now_us
                assert is_over or offset in self.gone.get(epoch, ()), "a tombstone is gone early"
                assert kept.deleted_below > offset, "nobody is told of a deletion"
                continue
            assert found.get(offset) == message, f"offset {offset} is gone"
        for offset, message in found.items():
            at_us = message[2]
            if at_us + ttl_us > now_us:
                assert offset in must, f"offset {offset} was superseded, and is back"

    # -- what clients do -----------------------------------------------------------------------

    @property
    def ttl(self):
        return self.times

    def create(self, name):
        settings = [
            (Setting.TABLE, 1),
            (Setting.DURABLE, 1),
            (Setting.CAPACITY, 100),
            (Setting.MAX_BYTES, 16 * KIB),
            (Setting.LOG_BYTES, LOG_BYTES),
            (Setting.TOMBSTONES_MS, TOMBSTONES_MS),
        ]
        if name == "b":
            settings.append((Setting.RETENTION_TTL_MS, TTL_MS))
        self.ids += 1
        self.clock.advance(0.001)  # an epoch is a time
        self._tell_alone(CreateTopic(self.ids, name, tuple(settings)))
        topic = self.broker.registry.durable(name)
        assert topic is not None
        self.names[name] = topic.epoch
        self.times[topic.epoch] = name == "b"
        self.known[topic.epoch] = Known()
        self.creating[self.ids] = name

    def publish(self, name):
        messages = []
        for _ in range(self.random.randint(1, 3)):
            self.payloads += 1
            size = self.random.choice([5, 50, 900])
            key = self.random.choice(KEYS[self.random.random() < 0.95 :])
            payload = (b"%d " % self.payloads).ljust(size, b".")
            if key and self.random.random() < 0.2:
                payload = b""
            messages.append((key, payload))
        self._publish(name, messages)

    def publish_big(self, name):
        """Publish as much as fills a file."""
        messages = []
        for key in KEYS[1:5]:
            self.payloads += 1
            messages.append((key, (b"%d " % self.payloads).ljust(900, b".")))
        self._publish(name, messages)
        self.work()

    def _publish(self, name, messages):
        from conversation import batch

        self.ids += 1
        self.asked[self.ids] = self.names[name], [(*it, self.clock.now_us()) for it in messages]
        self._tell_alone(Publish(self.ids, name, batch(*messages), tombstones=True))

    def read(self, name):
        if name not in self.readers:
            self.ids += 1
            self.readers[name] = self.ids
            self.talk.tell(Subscribe(self.ids, name, name=READER, credit=50))
        super().read(name)

    def script(self):
        """Do everything once that changes files, in few calls."""
        for name in "ab":
            self.create(name)
            self.work()
        for _ in range(4):
            self.publish_big("a")
        self._publish("a", [(b"a", b""), (b"b", b"1"), (b"x", b"2")])
        self.read("a")
        self.sweep()  # a position is written
        for _ in range(6):  # files are rewritten
            self.publish_big("a")
        self.clock.advance(TOMBSTONES_MS / 1000)
        self.sweep()
        for _ in range(3):  # files that expire
            self.publish_big("b")
            self.clock.advance(61)
        self.clock.advance(TTL_MS / 1000)
        self.publish_big("b")
        self.sweep()
        self.sweep()  # nothing is new: checkpoints
        self.delete("b")
        self.work()
        self.stop()
        for _ in range(3):
            self.publish_big("a")
        self.sweep()

    # -- what happens then ---------------------------------------------------------------------

    def work(self, most=1000):
        before = {topic.epoch: set(topic.retained.kept.tombstones) for topic in self._topics()}
        segments = [self._segments(topic) for topic in self._topics()]
        super().work(most)
        after = [self._segments(topic) for topic in self._topics()]
        self.rewritten += sum(
            segment.until > 0 and not any(segment in them for them in segments)
            for those in after
            for segment in those
        )
        for topic in self._topics():
            there = set(topic.retained.kept.tombstones)
            gone = self.gone.setdefault(topic.epoch, set())
            gone |= before.get(topic.epoch, set()) - there
            self._check_laws(topic)

    def _segments(self, topic):
        return list(topic.retained.log._writer.segments)

    def _listen(self):
        """What was acknowledged, or delivered, is known with its time."""
        by_id = {number: name for name, number in self.readers.items()}
        for talk in self.talks:
            for frame in talk.heard():
                self._hear(frame, by_id)

    def _hear(self, frame, by_id):
        match frame:
            case Published():
                epoch, messages = self.asked.pop(frame.id)
                for offset, message in enumerate(messages, frame.first_offset):
                    self._note(epoch, offset, message)
            case Messages() if frame.id in by_id:
                name = by_id[frame.id]
                deltas = frame.deltas or range(frame.batch.count)
                pairs = zip(frame.batch.keys(), frame.batch.payloads(), strict=True)
                for delta, (key, payload) in zip(deltas, pairs, strict=True):
                    message = bytes(key), bytes(payload), frame.accepted_us
                    self._note(self.names[name], frame.base + delta, message)
                    self.next[name] = frame.base + delta + 1
            case _:
                self._hear_other(frame, by_id)

    def _note(self, epoch, offset, message):
        known = self.stored.setdefault(epoch, {}).setdefault(offset, message)
        assert known == message, f"offset {offset} was {known}, and is {message}"

    def _hear_other(self, frame, by_id):
        from zaichik_protocol import Deleted, Error, ErrorCode, Subscribed, TopicCreated

        match frame:
            case TopicCreated():
                name = self.creating.pop(frame.id)
                if self.names.get(name) == frame.epoch:
                    self.known[frame.epoch].stage = Stage.THERE
            case Deleted():
                self.known[self.deleting.pop(frame.id)].stage = Stage.GONE
            case Error() if frame.id in self.asked:
                assert ErrorCode(frame.code) in (ErrorCode.NO_SUCH_TOPIC, ErrorCode.TOPIC_FULL)
                del self.asked[frame.id]
            case Subscribed() if frame.id in by_id:
                known = self.known[self.names[by_id[frame.id]]]
                known.committed = max(known.committed, frame.start)


def content(kept):
    """Returns the messages of a table by offset: key, payload, time."""
    found = {}
    offset = kept.readable_from(0)
    while offset < kept.next_offset:
        some = kept.together(offset)
        pairs = zip(some.offsets, some.batch.keys(), some.batch.payloads(), strict=True)
        for at, key, payload in pairs:
            found[at] = bytes(key), bytes(payload), some.accepted_us
        offset = kept.readable_from(some.offsets[-1] + 1)
    return found


__all__ = ["NEVER", "SMALL", "TableWorld", "content", "small_steps"]
