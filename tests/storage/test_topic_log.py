"""One topic's log, with worker threads that work when they are told to."""

import itertools
from collections import deque

import pytest
from made import FOLDER, KIB, MIB, as_told, changed, path_of, start, topic
from sim_disk import SimDisk, eio, failing, full

from zaichik.core.durable import NOTHING
from zaichik.core.log import Write
from zaichik.storage.disk import StorageFailed
from zaichik.storage.record import RecordKind
from zaichik.storage.recovery import Recovered, new_state, recover
from zaichik.storage.resources import LogResources, Shortage, SyncTimes
from zaichik.storage.segment import HEAD_SIZE
from zaichik.storage.topic_log import GROUP, TopicLog
from zaichik_protocol import FOREVER, Batch, ErrorCode, Refused


class Hands:
    """Workers that do one thing at a time, when told; and the owner, who notes what becomes of what
    waits.
    """

    def __init__(self):
        self.writing = self.busy = False
        self.reads, self.told, self.needed = {}, [], 10**9
        self.waiting = deque()
        times = SyncTimes(itertools.count(step=0.25).__next__)
        self.resources = LogResources(self, sync_times=times)
        self.budget, self.chunks = self.resources.budget, self.resources.chunks
        self.syncs = times.latest

    def write(self, log):
        self.writing = (
            self.writing or not self.busy
        )  # when it is done, it is asked whether it has work

    def read(self, waiter, read):
        self.reads.setdefault(waiter, read)

    def take(self, log):
        """Begins what a thread does.

        Returns what goes on then: the thread's part, and what follows on the loop.
        """
        assert self.writing
        self.writing, self.busy = False, True
        work = log.gather()

        def end():
            work()()
            self.writing, self.busy = log.has_work, False

        return end

    def run(self, log):
        while self.writing:
            self.take(log)()
        return self.told_since()

    def run_reads(self):
        while self.reads:
            self.reads.pop(next(iter(self.reads)))()()

    def told_since(self):
        told, self.told = self.told, []
        return told

    def on_synced(self, count):
        done = [self.waiting.popleft() for _ in range(count)]
        if publishes := sum(isinstance(write.what, Batch | Refused) for write in done):
            self.told.append(("synced", publishes))
        for write in done:
            write.answer.settle(True)

    def on_refused(self, refusal):
        self.told.append(("refused", refusal.code))
        while self.waiting:
            self.waiting.pop().answer.settle(refusal)

    def gone(self):
        self.waiting.clear()
        self.told.append("gone")

    def on_head_moved(self, head, own):
        self.told.append(("head", head))
        self.own = own


class Bench:
    """A log, its workers and its disk. `publish` makes one message of that size."""

    def __init__(self, disk=None, found=None, **settings):
        self.disk, self.hands = disk or SimDisk(), Hands()
        of = topic(**settings)
        self.log = TopicLog(
            self.disk, FOLDER, of, found or Recovered(of, new_state(of)), self.hands.resources
        )
        self.log.owner = self.hands
        self.end = self.log.end

    def write(self, what, **more):
        """Has that wait for the log, accepted when its offset says. Returns it."""
        self.hands.waiting.append(Write(self.end, self.end, what, **more))
        self.log.write()
        return self.hands.waiting[-1]

    def publish(self, size=10):
        self.write(Batch.of([(b"", b"%d" % self.end + bytes(size))]))
        self.end += 1

    def after_all(self, name):
        """Waits for everything before; what comes of that is noted under a name."""
        told = self.hands.told
        self.write(None).answer.then(
            lambda answer: told.append((name, getattr(answer, "code", None)))
        )

    def written(self, count, size=10):
        """Publishes so many, each a group of its own."""
        for _ in range(count):
            self.publish(size)
            self.run()
        return self

    def run(self):
        return self.hands.run(self.log)

    def bases(self):
        return [record.base for record in start(self.disk.copy())[1]]


def reader():
    """A reader's wake, which counts."""
    calls = []

    def wake():
        calls.append(1)

    wake.calls = calls
    return wake


# -- writing ---------------------------------------------------------------------------------------


def test_nothing_is_told_before_it_is_on_the_disk():
    bench = Bench()
    bench.publish()
    assert (bench.hands.told, bench.disk.content) == ([], {})
    assert bench.run() == [("synced", 1), ("head", 0)]
    assert (bench.log.size, bench.bases()) == (len(bench.disk.content[path_of(0)]), [0])


def test_what_gathers_while_a_group_is_written_is_the_next_group():
    bench = Bench()
    bench.publish()
    end = bench.hands.take(bench.log)
    bench.publish()
    bench.publish()
    end()
    assert bench.hands.told_since() == [("synced", 1), ("head", 0)]
    writes = len(bench.disk.calls)
    assert bench.run() == [("synced", 2), ("head", 0)]
    assert len(bench.disk.calls) == writes + 1


def test_a_group_is_four_mib_and_a_record_at_most():
    bench = Bench()
    for _ in range(9):
        bench.publish(MIB)
    assert [count for name, count in bench.run() if name == "synced"] == [4, 4, 1]
    for _ in range(3):
        bench.publish(GROUP - 200)
    assert [count for name, count in bench.run() if name == "synced"] == [2, 1]


def test_positions_are_no_publishes_and_refusals_are():
    bench = Bench()
    bench.write({"a": 3, "b": None})
    bench.write(Refused(ErrorCode.BATCH_TOO_LARGE, "too large", "batch"), producer=9, sequence=4)
    bench.write(NOTHING, dropped=b"\1", producer=9, sequence=5)
    assert bench.run() == [("synced", 2), ("head", 0)]
    found, records = start(bench.disk)
    assert [record.kind for record in records] == [
        RecordKind.POSITIONS,
        RecordKind.REFUSED,
        RecordKind.MESSAGES,
    ]
    assert found.state.positions == {"a": 3}
    assert list(found.state.producers[9].answers) == [
        (ErrorCode.BATCH_TOO_LARGE, "too large", "batch"), (0, 0, 1, 0, b"\1"),
    ]  # fmt: skip


def test_without_room_everything_that_was_gathered_is_refused_together():
    bench = Bench().written(2)
    bench.publish()
    bench.write({"a": 1})
    bench.disk.fault = lambda _: full()
    end = bench.hands.take(bench.log)
    bench.publish()
    end()
    assert bench.hands.told_since() == [("refused", ErrorCode.STORAGE_FULL), ("head", 0)]
    assert (bench.hands.writing, bench.bases()) == (False, [0, 1])
    bench.disk.fault, bench.end = lambda _: None, 2
    bench.publish()
    assert bench.run() == [("synced", 1), ("head", 0)]
    assert (bench.bases(), start(bench.disk)[0].state.positions) == ([0, 1, 2], {})


def test_the_log_says_that_there_is_no_room_at_most_once_a_minute(caplog):
    now = [100.0]
    shortage = Shortage(lambda: now[0])
    for now[0], reason in ((100.0, "first"), (159.0, "second"), (160.0, "third")):
        shortage.refused("orders", reason)
    told = "there is no room for messages of durable topics in orders: "
    assert caplog.messages == [f"{told}first", f"{told}third"]


def test_refusing_for_lack_of_room_is_logged_with_the_folder_and_the_reason(caplog):
    bench = Bench().written(2)
    bench.disk.fault = lambda _: full()
    bench.publish()
    bench.run()
    (message,) = caplog.messages
    assert message.startswith(f"there is no room for messages of durable topics in {FOLDER}: ")


def test_a_topic_is_not_created_without_room_and_is_later():
    bench = Bench()
    bench.disk.fault = lambda _: full()
    bench.after_all("created")
    assert bench.run() == [
        ("refused", ErrorCode.STORAGE_FULL),
        ("created", ErrorCode.STORAGE_FULL),
        ("head", 0),
    ]
    bench.disk.fault = lambda _: None
    bench.after_all("created")
    assert bench.run() == [("created", None), ("head", 0)]
    assert recover(bench.disk, FOLDER).topic == topic()


def test_who_waits_for_all_is_called_after_all_that_was_asked_for_before():
    bench = Bench()
    bench.publish(GROUP)
    bench.publish(GROUP)
    bench.after_all("one")
    bench.after_all("two")
    assert bench.run() == [("synced", 1), ("head", 0)] * 2 + [
        ("one", None),
        ("two", None),
        ("head", 0),
    ]


def test_who_waits_for_all_does_not_wait_for_what_comes_later():
    """However much more comes all the time."""
    bench = Bench()
    bench.publish()
    bench.after_all("done")
    for _ in range(6):
        bench.publish(MIB)
    bench.hands.take(bench.log)()
    assert bench.log.has_work
    assert ("done", None) in bench.hands.told_since()


def test_who_waits_for_what_was_refused_is_told_so():
    bench = Bench()
    bench.publish()
    bench.disk.fault = lambda _: full()
    end = bench.hands.take(bench.log)
    bench.publish()
    bench.after_all("waits")
    end()
    assert bench.hands.told_since() == [
        ("refused", ErrorCode.STORAGE_FULL),
        ("waits", ErrorCode.STORAGE_FULL),
        ("head", 0),
    ]
    assert bench.run() == []


def test_a_disk_that_fails_ends_in_an_exception_and_nothing_is_told():
    bench = Bench().written(1)
    bench.disk.fault = lambda _: eio()
    bench.publish()
    with pytest.raises(StorageFailed):
        bench.hands.take(bench.log)()
    assert bench.hands.told_since() == []


def test_a_checkpoint_is_written_when_asked_if_there_is_anything_new():
    bench = Bench()
    bench.log.save()
    assert not bench.hands.writing
    bench.written(1)
    bench.log.save()
    bench.run()
    assert path_of(1, "state") in bench.disk.content
    bench.log.save()
    assert not bench.hands.writing
    found = recover(bench.disk, FOLDER)
    again = Bench(bench.disk, found)
    again.log.save()
    assert not again.hands.writing


def test_a_checkpoint_that_is_asked_for_while_a_group_is_written_is_written_next():
    """Not lost: the group that is being written may have begun too early to be in it."""
    bench = Bench().written(1)
    bench.publish()
    work = bench.log.gather()
    bench.log.save()
    work()()
    assert bench.log.has_work
    assert path_of(2, "state") not in bench.disk.content
    bench.run()
    assert path_of(2, "state") in bench.disk.content
    assert not bench.log.has_work


def test_a_log_that_a_start_had_to_read_gets_a_checkpoint_soon():
    """From then on a bad byte in its last group is known to be damage."""
    bench = Bench().written(2)
    again = Bench(bench.disk, recover(bench.disk, FOLDER))
    assert again.end == 2
    again.log.save()
    again.run()
    assert recover(bench.disk, FOLDER).saved == 0
    bench.disk.content[path_of(0)] = bench.disk.content[path_of(0)][:-1]
    assert recover(bench.disk, FOLDER).damage


# -- what goes -------------------------------------------------------------------------------------


SMALL = {"log_bytes": 64 * KIB}


def test_log_bytes_is_kept_by_removing_the_oldest_files():
    bench = Bench(**SMALL).written(200, 1000)
    assert 50 * KIB < bench.log.size <= 64 * KIB
    assert bench.log.head > 100
    assert bench.bases() == list(range(bench.log.head, 200))


def test_what_the_owner_needs_is_not_removed_to_make_room():
    bench = Bench(**SMALL)
    bench.hands.needed = 20
    bench.written(200, 1000)
    assert 10 < bench.log.head <= 20
    assert bench.log.size > 150 * KIB
    bench.hands.needed = 10**9
    bench.written(1, 1000)
    assert bench.log.size <= 64 * KIB


def test_what_goes_is_decided_before_a_thread_begins_and_known_while_it_works():
    """RET-9: who attaches then begins after it, and so loses nothing."""
    bench = Bench(**SMALL).written(60, 1000)
    before = bench.log.head
    while True:
        bench.publish(1000)
        end = bench.hands.take(bench.log)
        if bench.log.head > before:
            break
        end()
    head = bench.hands.needed = bench.log.head  # of a reader that comes now
    assert bench.bases()[0] == before
    end()
    bench.written(40, 1000)
    assert bench.bases()[0] == head == bench.log.head


def test_what_is_needed_of_a_file_keeps_all_of_it():
    bench = Bench(**SMALL)
    bench.hands.needed = 3
    for _ in range(100):
        bench.publish(1000)
        end = bench.hands.take(bench.log)
        assert bench.log.head == 0
        end()
    assert bench.log.head == 0


# -- what all logs have together -------------------------------------------------------------------


def test_the_bytes_of_a_log_are_counted_from_a_start_until_it_is_gone():
    bench = Bench().written(9, 1000)
    assert bench.hands.budget.used == bench.log.size == len(bench.disk.content[path_of(0)])
    again = Bench(bench.disk, recover(bench.disk, FOLDER))
    assert again.hands.budget.used == again.log.size == bench.log.size
    again.publish()
    end = again.hands.take(again.log)
    again.log.delete(again.hands.gone)
    end()
    again.run()
    assert again.hands.budget.used == 0


def test_what_is_being_written_counts_already():
    """DUR-9: two threads that write at the same time do not exceed the limit together."""
    bench = Bench()
    bench.publish(1000)
    end = bench.hands.take(bench.log)
    assert bench.hands.budget.used > 1000
    end()
    assert bench.hands.budget.used == bench.log.size
    bench.disk.fault = lambda _: full()
    bench.publish(1000)
    bench.run()
    assert bench.hands.budget.used == bench.log.size


def test_beyond_the_limit_of_all_logs_a_topic_drops_its_own_oldest_files():
    """DUR-9."""
    bench = Bench(**SMALL)
    bench.hands.budget.limit, others = 100 * KIB, 60 * KIB
    bench.hands.budget.used += others
    for _ in range(200):
        bench.publish(1000)
        end = bench.hands.take(bench.log)
        assert bench.hands.budget.used <= bench.hands.budget.limit
        end()
    assert [name for name, _ in bench.hands.told_since() if name == "refused"] == []
    assert 20 * KIB < bench.log.size == bench.hands.budget.used - others <= 40 * KIB


def test_what_goes_for_the_limit_of_all_logs_is_told_from_what_goes_for_the_log_s_own():
    """EXP-2: also where both go at once."""
    alone, pressed = (Bench(**SMALL).written(200, 1000) for _ in range(2))
    pressed.hands.budget.limit, begun = 40 * KIB, pressed.log.head
    for bench in (alone, pressed):
        for _ in range(9):
            bench.publish(1000)
        bench.run()
    assert alone.hands.own >= alone.log.head
    assert begun < pressed.hands.own == alone.log.head < pressed.log.head
    pressed.hands.budget.limit = FOREVER
    pressed.written(100, 1000)
    assert pressed.hands.own >= pressed.log.head


def test_what_cannot_drop_anything_is_refused_until_there_is_room():
    """DUR-9: nothing of it goes for a group that has no room all the same, and no other topic loses
    anything.
    """
    bench = Bench(**SMALL)
    bench.written(10, 1000)
    head, size = bench.log.head, bench.log.size
    bench.hands.budget.limit, bench.hands.needed = (
        size + KIB,
        5,
    )  # its first file could go, which is too little
    for _ in range(8):
        bench.publish(1000)
    bench.write({"a": 1})
    (refused, _) = bench.run()
    assert refused == ("refused", ErrorCode.STORAGE_FULL)
    assert (bench.log.head, bench.log.size, bench.hands.budget.used) == (head, size, size)
    bench.after_all("done")
    assert ("done", None) in bench.run(), "that takes no room"
    bench.end, bench.hands.budget.limit = 10, 64 * KIB
    bench.written(8, 1000)
    assert bench.bases() == [*range(18)]


def test_a_quiet_topic_drops_nothing_for_others():
    bench = Bench(**SMALL).written(40, 1000)
    head, bench.hands.budget.limit = bench.log.head, 1
    bench.log.save()
    bench.after_all("done")
    bench.run()
    assert bench.log.head == head


def test_the_time_that_each_group_takes_is_noted():
    bench = Bench().written(2)
    bench.after_all("nothing is written")
    bench.run()
    assert list(bench.hands.syncs) == [0.25, 0.25]


def test_what_retention_allows_is_removed_also_if_asked_while_busy():
    bench = Bench(**SMALL).written(40, 1000)
    bench.publish()
    end = bench.hands.take(bench.log)
    bench.log.drop_below(30)
    end()
    assert bench.log.head < 20
    assert bench.hands.told_since() == [("synced", 1), ("head", bench.log.head)]
    assert bench.hands.writing
    assert bench.run()[-1] == ("head", bench.log.head)
    assert 20 < bench.log.head <= 30
    bench.log.drop_below(30)
    assert not bench.hands.writing


def test_retention_goes_on_without_room():
    bench = Bench(**SMALL).written(40, 1000)
    bench.log.save()
    bench.run()
    bench.disk.fault = lambda _: full()
    bench.log.drop_below(30)
    bench.run()
    assert 20 < bench.log.head <= 30


def test_a_damaged_log_is_read_up_to_there_and_never_written():
    bench = Bench(**SMALL).written(60, 1000)
    bench.disk.content = {
        path: data for path, data in bench.disk.content.items() if not path.endswith(".state")
    }
    del bench.disk.content[path_of(bench.log._writer.segments[3].base)]
    found = recover(bench.disk, FOLDER)
    before, again = dict(bench.disk.content), Bench(bench.disk, found, **SMALL)
    assert "but the one before ends at" in again.log.damage
    again.log.save()
    again.log.drop_below(again.end)
    assert again.log.head < again.end
    again.after_all("done")
    assert ("done", None) in again.run()
    again.log.close()
    assert bench.disk.content == before
    wake = reader()
    offset = again.log.head + 1
    assert again.log.entry(offset, wake) is None
    again.hands.run_reads()
    assert again.log.entry(offset, wake).base == offset


# -- deletion --------------------------------------------------------------------------------------


def test_a_log_is_deleted_and_what_waits_is_not_written():
    bench = Bench().written(3)
    bench.log.save()
    bench.publish()
    bench.log.delete(bench.hands.gone)
    assert bench.run() == ["gone"]
    assert (bench.disk.content, bench.log.is_deleted) == ({}, True)
    bench.log.save()
    bench.log.drop_below(3)
    bench.run()
    bench.log.close()
    assert bench.disk.content == {}


@pytest.mark.parametrize("error", [None, full()], ids=["written", "full"])
def test_a_log_that_is_deleted_while_it_writes_tells_its_owner_nothing_more(error):
    """Until it is gone: then everything that waited is refused, whatever has become of it."""
    bench = Bench().written(1)
    bench.publish()
    bench.disk.fault = lambda _: error
    end = bench.hands.take(bench.log)
    bench.log.delete(bench.hands.gone)
    end()
    assert bench.hands.told_since() == []
    assert bench.run() == ["gone"]
    assert bench.disk.content == {}


def test_a_log_that_was_never_written_is_deleted_without_the_disk():
    bench = Bench()
    bench.log.delete(bench.hands.gone)
    assert bench.run() == ["gone"]
    assert bench.disk.calls == []


# -- the end ---------------------------------------------------------------------------------------


def test_after_an_orderly_end_a_start_reads_no_record():
    bench = Bench(**SMALL).written(60, 1000)
    bench.log.close()
    found = recover(bench.disk, FOLDER)
    assert (found.unsaved, found.state.end) == (0, 60)
    assert as_told(found.state) == as_told(bench.log._writer._state)


# -- reading ---------------------------------------------------------------------------------------


def test_an_entry_is_read_in_a_thread_and_the_reader_is_woken_once():
    bench, wake = Bench().written(5), reader()
    assert bench.log.entry(2, wake) is None
    assert bench.log.entry(2, wake) is None  # asked again, it is one read
    assert len(bench.hands.reads) == 1
    bench.hands.run_reads()
    assert len(wake.calls) == 1
    assert [bench.log.entry(offset, wake).base for offset in (2, 3, 4)] == [2, 3, 4]
    assert not bench.hands.reads


def test_a_reader_that_asks_again_while_a_thread_reads_for_it_waits_for_that_thread():
    """It commits meanwhile, or its files go: whatever it asks for, one chunk is read at a time."""
    bench, wake = Bench(segment_bytes=2**31).written(40, 50_000), reader()
    assert bench.log.entry(0, wake) is None
    (begun,) = bench.hands.reads.values()
    bench.hands.reads.clear()
    for offset in (0, 0, 30):
        assert bench.log.entry(offset, wake) is None
        assert not bench.hands.reads
        assert bench.log.is_reading(wake)
    begun()()
    assert len(wake.calls) == 1
    assert bench.log.entry(30, wake) is None  # not in that chunk: now another one is read
    bench.hands.run_reads()
    assert (len(wake.calls), bench.log.entry(30, wake).base) == (2, 30)


def test_behind_its_chunk_a_reader_gets_the_next_one():
    bench, wake, entries = Bench(segment_bytes=2**31).written(40, 50_000), reader(), []
    while len(entries) < 40:
        entry = bench.log.entry(len(entries), wake)
        if entry is None:
            bench.hands.run_reads()
        else:
            entries.append(entry.base)
    assert entries == list(range(40))
    assert 7 <= len(wake.calls) <= 9
    assert sum(len(entry.batch.data) for entry in bench.hands.chunks.get(wake)) < 400_000


def test_each_reader_has_a_chunk_of_its_own_and_lets_go_of_it():
    bench, one, two = Bench().written(5), reader(), reader()
    assert bench.log.entry(0, one) is bench.log.entry(3, two) is None
    bench.hands.run_reads()
    assert (bench.log.entry(0, one).base, bench.log.entry(3, two).base) == (0, 3)
    bench.log.release(one)
    bench.log.release(one)
    assert (bench.hands.chunks.get(one), len(bench.hands.chunks)) == (None, 1)
    assert bench.log.entry(0, one) is None


def test_a_reader_that_has_left_keeps_nothing_and_is_not_woken():
    bench, wake = Bench().written(5), reader()
    bench.log.entry(0, wake)
    (read,) = bench.hands.reads.values()
    then = read()
    bench.log.release(wake)
    then()
    assert (len(bench.hands.chunks), wake.calls) == (0, [])


def test_damage_is_told_once_and_other_offsets_are_read():
    bench, wake = Bench().written(5), reader()
    size = (len(bench.disk.content[path_of(0)]) - HEAD_SIZE) // 5
    bench.disk.content[path_of(0)] = changed(
        bench.disk.content[path_of(0)], HEAD_SIZE + 2 * size + 70
    )
    assert bench.log.entry(2, wake) is None
    bench.hands.run_reads()
    with pytest.raises(Refused, match="the log is damaged at offset 2") as told:
        bench.log.entry(2, wake)
    assert told.value.code == ErrorCode.DAMAGED
    for offset in (3, 1):
        assert bench.log.entry(offset, wake) is None
        bench.hands.run_reads()
        assert bench.log.entry(offset, wake).base == offset


def test_the_first_offset_since_a_time_is_told_when_it_was_read():
    bench, found = Bench().written(5), []
    bench.log.first_since(3, found.append)
    bench.log.first_since(9, lambda offset: found.append(offset))
    assert found == []
    bench.hands.run_reads()
    assert found == [3, None]


def test_size_and_expiry_are_the_writers():
    bench = Bench(**SMALL).written(60, 1000)
    assert bench.log.size_from(59) < 10 * KIB < bench.log.size_from(0) == bench.log.size
    assert bench.log.head < bench.log.expired_until(50) <= 51


@pytest.mark.parametrize("number", range(12))
def test_whatever_fails_what_was_told_is_there(number):
    """With groups of several publishes, and a checkpoint between."""
    bench, acknowledged, attempt = Bench(**SMALL), 0, 0
    bench.disk.fault = failing(number, full())
    while attempt < 20:
        bench.end = acknowledged
        for _ in range(attempt % 3 + 1):
            bench.publish(1000)
        for name, count in bench.run():
            acknowledged += count if name == "synced" else 0
        bench.log.save()
        bench.run()
        attempt += 1
    assert bench.bases() == list(range(bench.log.head, acknowledged))
    assert acknowledged > 30
