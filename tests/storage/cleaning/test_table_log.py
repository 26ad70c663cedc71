"""The log of a table: when it rewrites files, and what else goes on meanwhile."""

import pytest
from conversation import Conversation, batch
from made import changed
from sim_disk import SimDisk, full
from tables import content

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.storage import segment, writer
from zaichik.storage.cleaning import rewriting, table_log
from zaichik.storage.restoring import restore
from zaichik.storage.segment import HEAD_SIZE, NewerFormat
from zaichik.storage.store import Store
from zaichik_protocol import (
    DURABLE,
    TABLES,
    Commit,
    CreateTopic,
    Delete,
    Deleted,
    Error,
    ErrorCode,
    Hello,
    Publish,
    Published,
    Setting,
    Subscribe,
)

KIB = 1024
SETTINGS = {
    Setting.TABLE: 1,
    Setting.DURABLE: 1,
    Setting.MAX_BYTES: 128 * KIB,
    Setting.LOG_BYTES: 1024 * KIB,
    Setting.SEGMENT_BYTES: 64 * KIB,
}

pytestmark = pytest.mark.usefixtures("patchable")


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Look at what is worth it, and write checkpoints, for a file that is small."""
    monkeypatch.setattr(table_log, "LOOK_EVERY", 16 * KIB)
    monkeypatch.setattr(table_log, "BESIDES", 64 * KIB)
    monkeypatch.setattr(writer, "SOONEST_CHECKPOINT", 16 * KIB)
    monkeypatch.setattr(rewriting, "STEP", 16 * KIB)


class Tabled:
    """A broker with a durable table "t", on a disk in memory, and a client."""

    def __init__(self, **more):
        self.disk = SimDisk()
        self.clock = ManualClock(1_000_000)
        self.ids = 10
        self.start()
        settings = SETTINGS | {Setting[name]: value for name, value in more.items()}
        assert len(self.ask(CreateTopic(2, "t", tuple(settings.items())))) == 1

    def start(self):
        self.store = Store(self.disk)
        self.broker = Broker(BrokerSettings(), self.clock, logs=self.store)
        restore(self.broker, self.store)
        self.client = Conversation(self.broker, greeted=False)
        self.client.ask(Hello(1, client="somebody", features=DURABLE | TABLES))

    def restart(self):
        self.store.close(self.clock.now_us())
        self.disk = self.disk.copy()
        self.start()

    @property
    def retained(self):
        return self.broker.registry.durable("t").retained

    @property
    def log(self):
        return self.retained.log

    @property
    def segments(self):
        return self.log._writer.segments

    def ask(self, *requests):
        self.client.tell(*requests)
        self.work()
        return self.client.heard()

    def publish(self, *messages):
        """Publish without waiting for the disk."""
        self.ids += 1
        self.client.tell(Publish(self.ids, "t", batch(*messages), tombstones=True))

    def turn(self):
        """One job of a thread. Returns the calls of the disk that it made, without their paths."""
        queue = self.store.work
        before = len(self.disk.calls)
        if not queue.has_writes:
            return None
        log = queue.take_write()
        log.gather()()()
        queue.finish_write(log)
        return [name for name, _ in self.disk.calls[before:]]

    def work(self):
        for _ in range(5000):
            if self.turn() is None:
                return
        raise AssertionError("it never ends")

    def fill(self, files, key=b"a"):
        """Publish so much that so many files are closed, of which one message is live."""
        for _ in range(files * 7):
            self.publish((key, bytes(10 * KIB)))
            while self.log._has_writes():
                self.turn()

    def rewriting(self):
        """Publish until a file is being rewritten."""
        for _ in range(100):
            if self.log._rewriting is not None:
                return
            self.publish((b"a", bytes(10 * KIB)))
            self.turn()
        raise AssertionError


def test_what_was_superseded_leaves_the_disk():
    """DUR-10."""
    table = Tabled()
    table.publish((b"b", b"stays"))
    table.fill(12)
    table.work()
    assert table.log.size < 400 * KIB
    assert table.segments[0].until > 0
    before = content(table.retained.kept)
    table.restart()
    assert content(table.retained.kept) == before
    assert {key for key, _, _ in before.values()} == {b"a", b"b"}


def test_a_step_comes_between_two_groups():
    """DUR-10: publishing goes on."""
    table = Tabled()
    table.rewriting()
    table.log._owed = 0
    table.log.bound = 2**40
    table.log._is_step_next = False
    kinds = []
    for _ in range(4):
        table.publish((b"a", b"x"))
        offset = table.log._rewriting.offset
        answered = len(table.client.heard())
        table.turn()
        answered += len(table.client.heard())
        kinds.append("group" if answered else "step")
        if table.log._rewriting is None:
            break
        assert (table.log._rewriting.offset > offset) == (not answered)
    assert kinds[:4] == ["group", "step", "group", "step"]


def test_if_too_much_is_superseded_steps_come_first():
    """DUR-10: the log does not grow without end."""
    table = Tabled()
    table.rewriting()
    table.client.heard()
    table.log._is_step_next = False
    table.log._owed = 2 * rewriting.STEP
    table.publish((b"a", b"x"))
    while table.log._owed:
        table.turn()
        if table.log._rewriting is None:
            break
        assert table.client.heard() == []


def test_what_a_group_has_written_is_owed_if_the_log_is_too_large():
    table = Tabled()
    table.fill(1)
    table.log.bound = 0
    table.log._owed = 0
    table.log._written = table.log._writer.written
    table.publish((b"a", bytes(4 * KIB)))
    table.turn()
    assert 8 * KIB < table.log._owed < 9 * KIB


def test_a_quiet_table_is_not_looked_at_again():
    """A sweep each second costs nothing where nothing has changed."""
    table = Tabled()
    table.publish((b"a", b"1"))
    for _ in range(3):
        table.work()
        table.broker.sweep()
    table.work()
    before = len(table.disk.calls)
    table.broker.sweep()
    assert not table.store.work.has_writes
    assert len(table.disk.calls) == before


def test_a_file_is_not_rewritten_again_before_something_in_it_has_changed():
    """DUR-10: positions take most of it, and the first rewriting has freed the rest."""
    table = Tabled()
    table.publish((b"a", bytes(100)))
    for number in range(400):
        subscribed = Subscribe(1000 + number, "t", name=f"reader {number:010}", credit=1)
        table.client.tell(subscribed, Commit(2000 + number, 1000 + number, 1))
    table.broker.sweep()
    table.fill(4)
    table.work()
    first = table.segments[0]
    assert first.until
    assert first.size > 2 * (HEAD_SIZE + 64)
    table.log._wants_look = True
    assert table.log._rewriting is None
    table.log.gather()
    assert table.log._rewriting is None


def test_a_record_with_more_messages_than_a_step_is_given_is_rewritten(monkeypatch):
    """DUR-10: `max_batch` can be raised."""
    monkeypatch.setattr(table_log, "OFFSETS", 1000)
    table = Tabled()
    table.publish(*[(b"%d" % number, b"x") for number in range(1500)])
    table.publish((b"a", bytes(60 * KIB)))
    table.fill(4)
    table.work()
    assert table.segments[0].until
    before = content(table.retained.kept)
    table.restart()
    assert content(table.retained.kept) == before


def test_without_room_for_a_checkpoint_nothing_is_copied():
    """Not again and again, above all."""
    table = Tabled()
    table.rewriting()
    table.log._is_step_next = False
    table.publish((b"a", b"x"))
    table.turn()
    table.disk.under_way = lambda method, _: full() if method == "replace" else None
    before = len(table.disk.calls)
    table.work()
    assert table.log._rewriting is None
    written = [path for method, path in table.disk.calls[before:] if method == "write"]
    assert not [path for path in written if "/." in path]
    table.disk.under_way = lambda *_: None
    table.fill(2)
    table.work()
    assert table.log.size < 400 * KIB


def test_if_room_for_a_checkpoint_has_gone_meanwhile_the_copy_is_removed():
    table = Tabled()
    table.rewriting()
    while not table.log._rewriting.size:
        table.turn()
    table.publish((b"a", b"x"))
    table.disk.under_way = lambda method, _: full() if method == "replace" else None
    table.work()
    assert table.log._rewriting is None
    assert not [name for name in table.disk.content if "/." in name]
    assert table.log.size == table.log._writer.bytes


def test_a_stop_does_not_wait_for_it():
    """DUR-6: however long it would take, the disk is not to blame."""
    table = Tabled()
    table.rewriting()
    while not table.log._rewriting.size:
        table.turn()
    table.publish((b"c", b"1"))
    table.client.heard()
    table.store.stop_cleaning()
    for _ in range(2):
        table.turn()
    assert table.store.work.is_written
    (answer,) = table.client.heard()
    assert isinstance(answer, Published)
    assert not [name for name in table.disk.content if "/." in name]
    assert table.log.size == table.log._writer.bytes


def test_a_stop_begins_no_other():
    table = Tabled()
    table.rewriting()
    table.store.stop_cleaning()
    table.fill(4)
    table.broker.sweep()
    table.work()
    assert table.log._rewriting is None
    assert not any(segment.until for segment in table.segments)


def test_damage_ends_it_for_these_files_and_publishing_goes_on():
    """DUR-7."""
    table = Tabled()
    table.fill(3)
    bad = table.segments[-2]
    assert bad.size > 60 * KIB
    table.disk.content[bad.path] = changed(table.disk.content[bad.path], HEAD_SIZE + 70)
    table.fill(9)
    table.work()
    assert bad in table.segments
    assert not bad.is_rewritable
    assert not [name for name in table.disk.content if "/." in name]
    assert any(segment.until for segment in table.segments[table.segments.index(bad) :])
    *_, answer = table.ask(Publish(9, "t", batch((b"c", b"1"))))
    assert isinstance(answer, Published)


def test_without_room_it_is_given_up_for_now():
    table = Tabled()
    table.rewriting()
    table.work()
    table.rewriting()

    def no_room(method, path):
        return full() if method == "write" and "/." in path else None

    table.disk.under_way = no_room
    table.work()
    assert table.log._rewriting is None
    assert not [name for name in table.disk.content if "/." in name]
    assert table.log.size == table.log._writer.bytes
    table.disk.under_way = lambda *_: None
    table.fill(2)
    table.work()
    assert table.log.size < 400 * KIB


def test_a_table_may_be_deleted_while_it_is_rewritten():
    """TOP-6."""
    table = Tabled()
    table.rewriting()
    table.client.heard()
    *_, gone = table.ask(Delete(9, "t"))
    assert isinstance(gone, Deleted)
    assert table.disk.files("topics") == {}
    assert table.store.used == 0


def test_what_expires_while_it_is_rewritten_goes_as_a_whole():
    """TAB-8."""
    table = Tabled(RETENTION_TTL_MS=60_000)
    table.rewriting()
    table.turn()
    table.clock.advance(100)
    table.publish((b"a", b"new"))
    table.broker.sweep()
    table.work()
    table.broker.sweep()
    table.work()
    assert [segment.base for segment in table.segments] == [table.retained.kept.head]
    assert not [name for name in table.disk.content if "/." in name]
    assert table.log.size == table.log._writer.bytes


def test_its_own_copy_counts_as_bytes_on_the_disk():
    """DUR-9."""
    table = Tabled()
    for number in range(12):
        table.publish((b"%d" % number, bytes(9 * KIB)))
    table.work()
    table.rewriting()
    while table.log._rewriting is not None and not table.log._rewriting.size:
        table.turn()
    assert table.log._rewriting is not None
    assert table.log.size == table.log._writer.bytes + table.log._rewriting.size


def test_a_full_log_makes_room_although_nothing_can_be_published(monkeypatch):
    """DUR-10: otherwise TOPIC_FULL would be for ever."""
    table = Tabled()
    refused = []
    with monkeypatch.context() as patches:
        patches.setattr(table_log.TableLog, "_look", lambda log: None)
        while not refused:
            answers = table.ask(Publish(9, "t", batch((b"a", bytes(9 * KIB)))))
            refused = [frame for frame in answers if isinstance(frame, Error)]
    assert ErrorCode(refused[0].code) is ErrorCode.TOPIC_FULL
    table.broker.sweep()
    (answer,) = table.ask(Publish(9, "t", batch((b"a", bytes(9 * KIB)))))
    assert isinstance(answer, Error)
    table.work()
    (answer,) = table.ask(Publish(9, "t", batch((b"a", bytes(9 * KIB)))))
    assert isinstance(answer, Published)


def test_a_checkpoint_of_a_quiet_table_is_a_reason_to_look_again(monkeypatch):
    """DUR-10: before it, nothing could be rewritten; after it, a full log makes room."""
    monkeypatch.setattr(writer, "SOONEST_CHECKPOINT", 2**30)
    monkeypatch.setattr(writer, "CHECKPOINT_EVERY", 2**30)
    table = Tabled()
    refused = []
    while not refused:
        answers = table.ask(Publish(9, "t", batch((b"a", bytes(9 * KIB)))))
        refused = [frame for frame in answers if isinstance(frame, Error)]
    for _ in range(4):
        table.broker.sweep()
        table.work()
    (answer,) = table.ask(Publish(9, "t", batch((b"a", bytes(9 * KIB)))))
    assert isinstance(answer, Published)


def test_a_key_that_was_deleted_does_not_come_back_with_a_start():
    """TAB-5: the file with its message is not worth rewriting, and that with its tombstone is."""
    table = Tabled(TOMBSTONES_MS=1000)
    table.publish((b"deleted", b"1"))
    for number in range(6):
        table.publish((b"%d" % number, bytes(10 * KIB)))
        table.work()
    table.publish((b"deleted", b""))
    table.publish((b"a", b"1"))
    table.work()
    table.clock.advance(2)
    table.broker.sweep()
    table.fill(6)
    table.work()
    assert table.segments[0].until == 0
    assert any(segment.until for segment in table.segments)
    assert b"deleted" not in {key for key, _, _ in content(table.retained.kept).values()}
    table.restart()
    found = content(table.retained.kept).values()
    assert [payload for key, payload, _ in found if key == b"deleted"] == [b""]


def test_a_start_knows_that_tombstones_have_gone():
    """TAB-5: although nothing is left of them."""
    table = Tabled(TOMBSTONES_MS=1000)
    table.publish((b"deleted", b"1"))
    table.publish((b"deleted", b""))
    table.fill(1)
    table.clock.advance(2)
    table.broker.sweep()
    table.fill(3)
    table.work()
    assert table.segments[0].until > 0
    below = table.retained.deleted_below
    assert below == 2
    table.restart()
    assert b"deleted" not in {key for key, _, _ in content(table.retained.kept).values()}
    assert table.retained.deleted_below == below


def test_a_version_that_knows_no_tables_refuses_the_folder_and_changes_nothing(monkeypatch):
    """DUR-10: it knows only format 1."""
    table = Tabled()
    table.publish((b"a", b"1"))
    table.work()
    table.store.close(table.clock.now_us())
    disk = table.disk.copy()
    before = dict(disk.content)
    monkeypatch.setattr(segment, "TABLE_FORMAT", 1)
    with pytest.raises(NewerFormat, match="the log of 't' has format 2, and this zaichik knows 1"):
        Store(disk)
    assert disk.content == before
