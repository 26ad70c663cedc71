"""Durable tables in the core: judged when accepted, stored when on the disk (DUR-10)."""

import json
from itertools import chain
from random import Random

import pytest
from conversation import Conversation, batch
from fake_log import FakeLogs, durable_broker, written

from zaichik.core.tables.ahead import Ahead
from zaichik.core.tables.keep_last import ROW, KeepLast
from zaichik.core.write_queue import WriteQueue
from zaichik_protocol import (
    DURABLE,
    FOREVER,
    TABLES,
    CreateTopic,
    Delete,
    DeletionsMissed,
    Describe,
    EndCode,
    Error,
    ErrorCode,
    Hello,
    Kind,
    Lagged,
    Messages,
    Publish,
    Published,
    Refused,
    Setting,
    Subscribe,
    SubscriptionEnded,
)

SECOND_US = 1_000_000
KEYS = [b"", b"a", b"b", b"c", b"d"]


class Tabled(Conversation):
    """A client of a durable table "t", and its log."""

    def __init__(self, **settings):
        self.logs = FakeLogs()
        super().__init__(durable_broker(self.logs), greeted=False)
        self.ask(Hello(1, client="somebody", features=DURABLE | TABLES))
        pairs = {"TABLE": 1, "DURABLE": 1} | settings
        numbered = tuple((Setting[name], value) for name, value in pairs.items())
        self.tell(CreateTopic(2, "t", numbered))
        self.log.sync()
        self.heard()

    @property
    def log(self):
        return self.logs.known["t"]

    @property
    def topic(self):
        return self.broker.registry.durable("t")

    def publish(self, request_id, *messages, **more):
        return self.ask(Publish(request_id, "t", batch(*messages), tombstones=True, **more))

    def described(self):
        (page,) = self.ask(Describe(98, Kind.TOPICS, "t"))
        (told,) = json.loads(page.json)["topics"]
        assert set(told["left_over"].values()) == {0}, told
        return told


def payloads(frames):
    return [bytes(it) for frame in frames if isinstance(frame, Messages)
            for it in frame.batch.payloads()]  # fmt: skip


def test_nothing_is_answered_or_delivered_or_superseded_before_it_is_on_the_disk():
    """DUR-1, DUR-10."""
    client = Tabled()
    assert client.publish(3, (b"a", b"1")) == []
    client.log.sync()
    assert client.heard() == [Published(3, 0, 1, 0, 0, durable=True)]
    client.tell(Subscribe(4, "t", credit=100))
    assert payloads(client.publish(5, (b"a", b"2"))) == [b"1"]
    assert client.publish(6, (b"b", b"3")) == []
    late = Conversation(client.broker, greeted=False)
    late.ask(Hello(1, client="late", features=TABLES))
    assert payloads(late.ask(Subscribe(2, "t", credit=100))) == [b"1"]
    client.log.sync()
    frames = client.heard()
    assert [frame.id for frame in frames if isinstance(frame, Published)] == [5, 6]
    assert payloads(frames) == [b"2", b"3"]
    later = Conversation(client.broker, greeted=False)
    later.ask(Hello(1, client="later", features=TABLES))
    assert payloads(later.ask(Subscribe(2, "t", credit=100))) == [b"2", b"3"]
    assert client.described()["superseded"] == 1


def test_a_batch_is_judged_by_what_there_will_be_when_all_that_waits_is_written():
    """TAB-1, DUR-10."""
    client = Tabled(CAPACITY=2)
    assert client.publish(3, (b"a", b"1"), (b"b", b"1")) == []
    (refused,) = client.publish(4, (b"c", b"1"))
    assert ErrorCode(refused.code) is ErrorCode.TABLE_FULL
    assert client.publish(5, (b"a", b"")) == []
    assert client.publish(6, (b"c", b"1")) == []
    (refused,) = client.publish(7, (b"a", b"1"))
    assert ErrorCode(refused.code) is ErrorCode.TABLE_FULL
    client.log.sync()
    assert [frame.id for frame in client.heard()] == [3, 5, 6]
    assert client.described()["keys"] == 2


def test_without_room_all_that_waits_is_taken_back_and_judged_anew():
    """DUR-3."""
    client = Tabled(CAPACITY=1)
    client.publish(3, (b"a", b"1"))
    client.publish(4, (b"a", b"2"))
    client.log.refuse_all()
    codes = [ErrorCode(frame.code) for frame in client.heard()]
    assert codes == [ErrorCode.STORAGE_FULL] * 2
    assert client.topic.retained.waiting_memory == 0
    assert client.publish(5, (b"b", b"1")) == []
    client.log.sync()
    assert client.heard() == [Published(5, 0, 1, 0, 0, durable=True)]


def test_a_refusal_that_uses_a_number_up_is_on_the_disk():
    """PUB-4, DUR-3."""
    client = Tabled(CAPACITY=1)
    assert client.publish(3, (b"a", b"1"), (b"b", b"1"), producer=7) == []
    (record,) = written(client.log.owner.waiting)
    assert (record.kind, record.producer, record.sequence) == ("refuse", 7, 0)
    client.log.sync()
    (refused,) = client.heard()
    assert ErrorCode(refused.code) is ErrorCode.TABLE_FULL


def test_a_full_log_is_waited_for():
    """DUR-10: cleaning makes room, so TOPIC_FULL may be retried."""
    client = Tabled(MAX_BYTES=131_072, LOG_BYTES=1_048_576)
    client.publish(3, (b"a", bytes(100_000)))
    client.log.sync()
    for number in range(9):
        client.publish(4, (b"a", b"%d" % number + bytes(100_000)))
        client.log.sync()
    client.heard()
    (refused,) = client.publish(5, (b"a", bytes(100_000)))
    assert ErrorCode(refused.code) is ErrorCode.TOPIC_FULL
    assert refused.retryable
    del client.log.disk[:-1]
    assert client.publish(6, (b"a", bytes(100_000))) == []


def test_what_waits_is_counted_and_released():
    """RET-10: keys that wait, too."""
    client = Tabled()
    before = client.topic.memory
    client.publish(3, *[(b"%d" % number, b"x") for number in range(200)])
    assert client.topic.memory > before + 200 * 400
    client.log.sync()
    client.heard()
    assert client.topic.retained.waiting_memory == 0
    assert client.topic.retained.waiting_bytes == 0


def test_a_damaged_log_ends_readers_and_takes_nothing():
    """DUR-7."""
    client = Tabled()
    client.publish(3, (b"a", b"1"))
    client.log.sync()
    client.tell(Subscribe(4, "t", credit=10))
    client.heard()
    client.publish(5, (b"a", b"2"))
    client.log.fail("somebody has changed it")
    ended = [frame for frame in client.heard() if isinstance(frame, SubscriptionEnded)]
    assert [EndCode(frame.code) for frame in ended] == [EndCode.DAMAGED]
    (refused,) = client.publish(6, (b"a", b"3"))
    assert ErrorCode(refused.code) is ErrorCode.DAMAGED


def test_a_deleted_table_refuses_what_waits():
    """TOP-6."""
    client = Tabled()
    client.publish(3, (b"a", b"1"))
    client.tell(Delete(4, "t"))
    client.log.sync()
    frames = client.heard()
    assert [frame.id for frame in frames] == [3, 4]
    assert ErrorCode(frames[0].code) is ErrorCode.NO_SUCH_TOPIC
    assert isinstance(frames[0], Error)


def found_on_the_disk(client, lost, *messages, deleted_below=0):
    """Restores a table "r" that a start has found; the offsets in `lost` are damaged."""
    kept = KeepLast()
    for message in messages:
        kept.append(kept.judge(batch(message)), 1)
    kept.deleted_below = deleted_below
    kept.superseded = kept.next_offset - kept.live - sum(end - begin for begin, end in lost)
    log = client.logs.create("r", 1, {})
    log.end = kept.next_offset
    settings = {"table": 1, "durable": 1, "retention_ttl_ms": FOREVER}
    topic = client.broker.registry.restore("r", 1, settings, log, lost, {}, kept)
    topic.published = kept.next_offset
    return topic


def test_offsets_that_a_repair_has_given_up_are_lag_and_other_holes_are_not():
    """DUR-7, TAB-2."""
    client = Tabled()
    messages = [(b"a", b"1"), (b"b", b"2"), (b"x", b"3"), (b"x", b"4"), (b"b", b"5")]
    topic = found_on_the_disk(client, [(2, 4)], *messages)
    topic.retained.kept.forget(b"x")
    topic.retained.kept.superseded = 1
    frames = client.ask(Subscribe(7, "r", credit=100))[1:]
    assert [frame for frame in frames if isinstance(frame, Lagged)] == [Lagged(7, 2, 4)]
    assert payloads(frames) == [b"1", b"5"]
    (page,) = client.ask(Describe(98, Kind.TOPICS, "r"))
    (told,) = json.loads(page.json)["topics"]
    assert set(told["left_over"].values()) == {0}, told
    (page,) = client.ask(Describe(98, Kind.SUBSCRIPTIONS, "r"))
    (told,) = json.loads(page.json)["subscriptions"]
    assert (told["skipped"], told["passed"], told["delivered"]) == (2, 1, 2)
    # Offset 1 was superseded.
    assert [topic.retained.holes_between(*given) for given in ((0, 5), (1, 3), (2, 4))] == [1, 1, 0]


def test_a_frame_does_not_go_over_what_a_repair_has_given_up():
    """DUR-7: messages of one time on both sides of it come in two frames, with lag in between."""
    client = Tabled()
    topic = found_on_the_disk(client, [(1, 2)], (b"a", b"1"))
    kept = topic.retained.kept
    kept.append(kept.judge(batch((b"x", b"2"), (b"c", b"3"))), 1)
    kept.forget(b"x")
    kept.deleted_below = 0
    frames = client.ask(Subscribe(7, "r", credit=100))[1:]
    kinds = [type(frame) for frame in frames]
    assert kinds == [Messages, Lagged, Messages]


def test_a_reader_that_returns_is_told_of_deletions_before_the_start():
    """TAB-5."""
    client = Tabled()
    found_on_the_disk(client, [], (b"a", b"1"), (b"b", b"2"), deleted_below=2)
    frames = client.ask(Subscribe(7, "r", start=2, value=1, credit=100))[1:]
    assert frames[0] == DeletionsMissed(7, 2)


# -- beside a naive table ------------------------------------------------------------------------


class Naive:
    """A table as a list of all messages; what waits is a list of batches."""

    def __init__(self):
        self.stored = []
        self.waiting = []
        self.head = 0

    def result(self, *more):
        """Messages, bytes, and messages without a key, when these are stored as well."""
        newest = {}
        batches = [*self.waiting, *more]
        alive = [(at, *it) for at, it in enumerate(self.stored) if at >= self.head]
        alive += [(len(self.stored) + at, *it) for at, it in enumerate(chain(*batches))]
        for at, key, payload in alive:
            newest[key or at] = key, payload
        counted = [it for it in newest.values() if it[1] or not it[0]]
        size = sum(len(key) + len(payload) + ROW for key, payload in counted)
        return len(counted), size, sum(not key for key, _ in counted)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_ahead_is_the_fold_over_all_that_was_accepted(seed):
    """TAB-1, DUR-10: whatever is synced, taken back or expires meanwhile."""
    random = Random(seed)
    kept = KeepLast()
    ahead = Ahead(kept, expires=True)
    naive = Naive()
    now = 0
    for _ in range(400):
        match random.choice("aaaasssre"):
            case "a":
                messages = [
                    (random.choice(KEYS), random.choice([b"", b"x", b"long"]))
                    for _ in range(random.randint(1, 4))
                ]
                change = ahead.judge(kept.judge(batch(*messages)))
                assert (change.messages, change.size) == naive.result(messages)[:2]
                if random.random() < 0.8:
                    ahead.add(change, len(naive.stored) + sum(map(len, naive.waiting)))
                    naive.waiting.append(messages)
            case "s" if naive.waiting:
                messages = naive.waiting.pop(0)
                ahead.take_synced()
                now += random.randint(0, 1)
                kept.append(kept.judge(batch(*messages)), now)
                naive.stored += messages
            case "r" if random.random() < 0.2:
                ahead.take_all_back()
                naive.waiting = []
            case "e":
                kept.expire_accepted_until(now - 2)
                naive.head = kept.head
                ahead.expire_below(kept.head)
        assert (ahead.messages, ahead.size, ahead.keyless) == naive.result()


def test_an_iterator_that_takes_back_refuses_each_after_it_was_undone():
    """DUR-3: the newest first."""
    client = Tabled()
    client.publish(3, (b"a", b"1"))
    client.publish(4, (b"a", b"2"))
    queue = client.topic.retained.queue
    assert isinstance(queue, WriteQueue)
    refusal = Refused(ErrorCode.STORAGE_FULL, "no room", "topic")
    undone = [write.base for write in queue.take_back(refusal)]
    assert undone == [1, 0]
    assert queue.next == 0
