"""Shared names of durable topics: what is written, and what a start knows (SHR-9)."""

import pytest
from sharing_clients import Sharing, offsets, seconds

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.core.shared_names import saving
from zaichik.core.shared_names.saved_names import saved_name
from zaichik.core.work_queue.tickets import BLOCK
from zaichik.storage.disk import DiskFull, PosixDisk
from zaichik.storage.restoring import restore
from zaichik.storage.store import TOPICS, Store
from zaichik_protocol import (
    FOREVER,
    AdvanceClock,
    CreateTopic,
    DeadAction,
    ErrorCode,
    Messages,
    Outcome,
    Overflow,
    Setting,
    Unsubscribe,
)

START_US = 1_700_000_000_000_000
DURABLE = (Setting.DURABLE, 1)


class TightDisk(PosixDisk):
    """A disk that is full when told so."""

    is_full = False

    def write(self, path, at, pieces):
        if self.is_full:
            raise DiskFull(path)
        super().write(path, at, pieces)


class Life:
    """One run of a broker on a folder. Threads work when they are told to.

    Attributes:
        broker: it.
        clock: of the broker.
    """

    def __init__(self, folder, now_us=START_US, **limits):
        (folder / TOPICS).mkdir(parents=True, exist_ok=True)
        self.disk = TightDisk(folder, reserve=0)
        self.store = Store(self.disk)
        self.store.limit = 2**40
        self.clock = ManualClock(max(now_us, self.store.clock_us))
        self.broker = Broker(BrokerSettings(**limits), self.clock, logs=self.store)
        restore(self.broker, self.store)

    def work(self):
        """Do all that threads have to do."""
        queue = self.store.work
        while queue.has_writes or queue.has_reads:
            if queue.has_writes:
                log = queue.take_write()
                log.gather()()()
                queue.finish_write(log)
            else:
                queue.take_read()()()

    def second(self, count=1):
        for _ in range(count):
            seconds(self.broker)
            self.work()

    def stop(self):
        """As a server does."""
        for manager in list(self.broker.managers.values()):
            manager.accept_no_more()
            manager.stop()
        for manager in list(self.broker.managers.values()):
            while manager.has_output:
                manager.next_output(self.clock.now_us())
        self.broker.sweep()
        self.work()
        self.store.save(self.clock.now_us())


class Working(Sharing):
    """A client whose broker's threads work whenever it waits."""

    def __init__(self, life):
        self.life = life
        super().__init__(life.broker)

    def heard(self):
        frames = super().heard()
        while self.life.store.work.has_writes or self.life.store.work.has_reads:
            self.life.work()
            frames += super().heard()
        return frames


@pytest.fixture
def begin(tmp_path):
    """Begin a run of the broker: again after a crash, unless the last one was stopped."""
    return lambda **how: Life(tmp_path, **how)


def filled(life, count, *settings):
    client = Working(life)
    client.ask(CreateTopic(client.next_id(), "t", (DURABLE, *settings)))
    for number in range(count):
        client.publish(b"%d" % number)
    return client


def ledger(life, name="n"):
    return life.broker.registry.find("t").names[name].queue.ledger


def test_nothing_is_handed_out_before_a_ticket_is_saved(begin):
    """SHR-3: not only with the next sweep; a name in memory waits for no disk."""
    life = begin()
    client = filled(life, 1)
    other = Sharing(life.broker)
    other.ask(CreateTopic(9, "memory", ((Setting.RETENTION_TTL_MS, FOREVER),)))
    other.publish(b"x", topic="memory")
    _, events = other.share("memory")
    assert offsets(events) == [0]
    _, events = other.share()
    assert events == []
    life.work()
    assert offsets(other.heard()) == [0]
    assert client.rows()


def test_an_owner_goes_on_after_a_stop(begin):
    """With its ticket, and without another delivery: a deploy does no job twice (SHR-4a)."""
    life = begin()
    client = filled(life, 3)
    subscription, (event,) = client.share(owner=7, max_deliveries=1)
    client.done(subscription, 0)
    ticket = client.tickets[1]
    life.stop()
    life = begin()
    client = Working(life)
    again, events = client.share(owner=7, attempt=9, max_deliveries=1, tickets=(ticket,))
    assert events == []
    client.tickets[1] = ticket
    reply, event = client.done(again, 1)
    assert reply.late == ()
    assert (event.base, event.number) == (2, 1)
    assert ledger(life).done == 2
    assert subscription


def test_an_owner_goes_on_after_a_crash(begin):
    """As of the last second that was written."""
    life = begin()
    client = filled(life, 3)
    subscription, _ = client.share(owner=7)
    life.second()
    client.done(subscription, 0)
    ticket = client.tickets[0]
    life = begin()
    client = Working(life)
    again, events = client.share(owner=7, attempt=2, tickets=(ticket,))
    assert events == []
    client.tickets[0] = ticket
    reply, event = client.done(again, 0)
    assert reply.late == ()
    assert (event.base, event.redelivered) == (1, True)


def test_what_is_settled_just_before_a_crash_comes_again(begin):
    """Delivered again, never lost."""
    life = begin()
    client = filled(life, 2)
    subscription, _ = client.share(max_deliveries=5)
    life.second()
    client.done(subscription, 0)
    life = begin()
    life.second(11)
    client = Working(life)
    _, (event,) = client.share(max_deliveries=5)
    assert (event.base, event.redelivered) == (0, True)


def test_what_was_settled_and_written_does_not_come_again(begin):
    life = begin()
    client = filled(life, 2)
    subscription, _ = client.share(credit=2)
    life.second()
    client.done(subscription, 0)
    client.settle(subscription, Outcome.REJECT, 1)
    life.second()
    life = begin()
    known = ledger(life)
    assert (known.done, known.open, len(known.dead)) == (1, 0, 1)


def test_a_worker_that_does_not_come_back_after_a_start_did_nothing_wrong(begin):
    """After ten seconds it is released, and neither counted nor suspect."""
    life = begin()
    client = filled(life, 1)
    client.share(owner=7, max_deliveries=1)
    life.stop()
    life = begin()
    client = Working(life)
    _, events = client.share(max_deliveries=1)
    life.second(9)
    assert events + client.heard() == []
    life.second(3)
    (event,) = client.heard()
    assert (event.base, event.number) == (0, 1)


def test_what_is_dead_delayed_or_counted_is_known_after_a_start(begin):
    life = begin()
    client = filled(life, 3)
    subscription, _ = client.share(credit=3, max_deliveries=3)
    client.settle(subscription, Outcome.REJECT, 0, reason="no such image")
    client.settle(subscription, Outcome.RETRY, 1, delay_s=3600)
    client.settle(subscription, Outcome.RETRY, 2, delay_s=0)
    client.heard()
    died_us = life.clock.now_us()
    client.ask(Unsubscribe(client.next_id(), subscription))
    life.stop()
    life = begin()
    client = Working(life)
    (row,) = client.dead()
    assert (row["offset"], row["reason"], row["died_us"]) == (0, "no such image", died_us)
    known = {message.offset: message for message in ledger(life).open_messages()}
    assert known[1].due_us == died_us + 3600 * 1_000_000
    subscription, (event,) = client.share(max_deliveries=3)
    assert (event.base, event.number) == (2, 2)
    assert client.dead(action=DeadAction.REVIVE).done == 1


def test_a_suspect_is_one_after_a_crash(begin):
    life = begin()
    filled(life, 2)
    client = Working(life)
    client.share(credit=2)
    life.broker.disconnect(client.manager, "GONE")
    life.second()
    life = begin()
    assert sorted(ledger(life).suspects) == [0, 1]


def test_keys_and_their_order_are_known_after_a_start(begin):
    life = begin()
    client = filled(life, 0)
    client.publish((b"k\xff", b"0"), (b"k\xff", b"1"))
    client.share(credit=5, by_key=True)
    life.stop()
    life = begin()
    life.second(12)
    client = Working(life)
    subscription, events = client.share(credit=5, by_key=True)
    assert offsets(events) == [0]
    assert offsets(client.done(subscription, 0)) == [1]


def test_a_name_is_forgotten_for_good(begin):
    life = begin()
    client = filled(life, 1)
    subscription, _ = client.share()
    life.second()
    client.ask(Unsubscribe(client.next_id(), subscription, forget=True))
    life.second()
    life = begin()
    assert life.broker.registry.find("t").names == {}


def test_time_does_not_forget_a_name_of_a_durable_topic(begin):
    life = begin(disk_session_ttl=5)
    client = filled(life, 1)
    subscription, _ = client.share()
    client.ask(Unsubscribe(client.next_id(), subscription))
    life.second(20)
    life = begin(disk_session_ttl=5)
    life.second(20)
    assert "n" in life.broker.registry.find("t").names


def test_tickets_grow_across_crashes_though_the_clock_is_set_back(begin):
    life = begin()
    client = filled(life, 1)
    client.share()
    ticket = client.tickets[0]
    life = begin(now_us=5)
    life.second(11)
    client = Working(life)
    client.share()
    assert client.tickets[0] >= ticket + BLOCK


def test_without_room_nothing_counts_as_written(begin):
    """DUR-3: it is written when there is room, and nothing is handed out before."""
    life = begin()
    client = filled(life, 2)
    life.disk.is_full = True
    subscription, events = client.share()
    life.second(2)
    assert events + client.heard() == []
    life.disk.is_full = False
    life.second(2)
    assert offsets(client.heard()) == [0]
    life.disk.is_full = True
    client.settle(subscription, Outcome.REJECT, 0)
    life.second()
    life.disk.is_full = False
    life.second()
    life = begin()
    assert len(ledger(life).dead) == 1


def test_nothing_is_written_while_nothing_changes(begin):
    life = begin()
    client = filled(life, 2)
    client.share()
    life.second()
    log = life.broker.registry.find("t").retained.log
    size = log.size
    life.second(5)
    assert log.size == size


def test_what_is_written_of_a_second_is_what_has_changed_in_it(begin):
    """Not all that is open."""
    life = begin()
    client = filled(life, 0)
    client.publish(*[b"%d" % number for number in range(500)])
    subscription, _ = client.share(credit=400)
    life.second()
    log = life.broker.registry.find("t").retained.log
    size = log.size
    client.done(subscription, 7)
    life.second()
    assert log.size - size < 1000


@pytest.mark.usefixtures("patchable")
def test_what_does_not_change_is_not_looked_at(begin, monkeypatch):
    """However many messages wait for their time: a sweep changes nothing of them."""
    life = begin()
    client = filled(life, 0)
    client.publish(*[b"%d" % number for number in range(500)])
    subscription, _ = client.share(credit=500)
    client.settle(subscription, Outcome.RETRY, *range(400), delay_s=3600)
    life.second()
    looked_at = []

    def save(queue, offsets):
        looked_at.extend(offsets)
        return saved_name(queue, offsets)

    monkeypatch.setattr(saving, "saved_name", save)
    life.second(5)
    assert looked_at == []
    client.done(subscription, 450)
    life.second()
    assert looked_at == [450]


def test_what_is_opened_and_done_within_a_second_is_only_counted(begin):
    life = begin()
    client = filled(life, 0)
    subscription, _ = client.share(credit=500)
    life.second()
    log = life.broker.registry.find("t").retained.log
    client.publish(*[b"%d" % number for number in range(500)])
    size = log.size
    client.done(subscription, *range(500))
    life.second()
    assert log.size - size < 200
    life = begin()
    assert ledger(life).done == 500


def test_a_name_that_is_made_again_has_nothing_of_the_old_one(begin):
    life = begin()
    client = filled(life, 3)
    subscription, _ = client.share(credit=2)
    client.settle(subscription, Outcome.REJECT, 0)
    life.second()
    client.ask(Unsubscribe(client.next_id(), subscription, forget=True))
    client.ask(CreateTopic(client.next_id(), "u"))
    subscription, _ = client.share()
    client.done(subscription, 0)
    life.second()
    life = begin()
    assert (ledger(life).done, ledger(life).open, len(ledger(life).dead)) == (1, 1, 0)


def test_without_room_a_name_that_was_forgotten_is_forgotten_later(begin):
    """DUR-3: also if it was made again meanwhile."""
    life = begin()
    client = filled(life, 3)
    subscription, _ = client.share(credit=2)
    client.settle(subscription, Outcome.REJECT, 0)
    life.second()
    life.disk.is_full = True
    client.ask(Unsubscribe(client.next_id(), subscription, forget=True))
    life.second()
    life.disk.is_full = False
    life.second()
    life = begin()
    assert life.broker.registry.find("t").names == {}


def test_files_go_by_what_was_written(begin):
    """What a start would hand out again is kept, in a lossless topic (SHR-9)."""
    life = begin()
    client = filled(life, 2, (Setting.OVERFLOW, Overflow.REJECT))
    subscription, _ = client.share(credit=2)
    life.second()
    client.done(subscription, 0, 1)
    topic = life.broker.registry.find("t")
    assert topic.needed() == 0
    life.second()
    assert topic.needed() == 2


def test_messages_are_read_from_the_disk(begin):
    life = begin()
    client = filled(life, 5)
    life.stop()
    life = begin()
    client = Working(life)
    subscription, events = client.share(credit=2)
    found = [event for event in events if isinstance(event, Messages)]
    assert offsets(found) == [0, 1]
    assert offsets(client.done(subscription, 0, 1)) == [2, 3]


def test_a_name_that_stays_sees_what_is_published_after_a_start(begin):
    life = begin()
    client = filled(life, 1)
    subscription, _ = client.share()
    client.done(subscription, 0)
    life.stop()
    life = begin()
    client = Working(life)
    _, events = client.share()
    assert events == []
    assert offsets(client.publish(b"1")) == [1]


def test_a_clock_with_durable_topics_is_not_advanced(begin):
    """TIM-4: nor are time-outs."""
    life = begin()
    client = filled(life, 1)
    (refused,) = client.ask(AdvanceClock(client.next_id(), START_US + 10**9))
    assert refused.code == ErrorCode.UNSUPPORTED
