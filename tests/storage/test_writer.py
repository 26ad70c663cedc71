"""Writing: what is acknowledged stays, what is refused never was, whichever call fails."""

from functools import cache
from random import Random

import pytest
from made import (
    FOLDER,
    KIB,
    MIB,
    as_told,
    found_records,
    message,
    path_of,
    positions,
    start,
    topic,
    writer,
    written,
)  # fmt: skip
from sim_disk import Crash, SimDisk, eio, failing, full

from zaichik.storage import writer as module
from zaichik.storage.disk import DiskFull, FileTooLong, StorageFailed
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.recovery import new_state, recover
from zaichik.storage.segment import HEAD_SIZE

SMALL = {"log_bytes": 64 * KIB, "segment_bytes": 64 * KIB}  # so segments are of 8 KiB


def names(disk, suffix):
    return [path for path in sorted(disk.content) if path.endswith(suffix)]


def several(count=60, **settings):
    return written([[message(base, 1000)] for base in range(count)], topic(**{**SMALL, **settings}))


def until_full():
    """A log whose next group begins a new segment."""
    disk, log = several(0)
    while not log.segments or log.segments[0].size < 8 * KIB:
        log.write([message(log._state.end, 1000)])
    return disk, log


# -- segments --------------------------------------------------------------------------------------


def test_nothing_is_on_the_disk_before_the_first_record():
    disk = SimDisk()
    log = writer(disk)
    log.save()
    log.close()
    log.drop_below(10)
    assert (disk.content, disk.calls, log.head, log.bytes) == ({}, [], 0, 0)
    log.create()
    log.create()
    assert disk.calls == [("replace", f"{FOLDER}/topic")]


def test_a_group_is_one_write_in_one_segment_after_its_head():
    disk, _ = written([[message(0), message(1)], [message(2)]])
    log = path_of(0)
    assert disk.calls == [
        ("replace", f"{FOLDER}/topic"),
        ("write", log),
        ("write", log),
        ("write", log),
    ]


def test_a_new_segment_begins_with_the_group_after_the_last_one_is_full():
    disk, log = several()
    assert [segment.path for segment in log.segments] == names(disk, ".log")
    assert all(8 * KIB <= segment.size < 8 * KIB + 1100 for segment in log.segments[:-1])
    assert log.bytes == sum(len(disk.content[segment.path]) for segment in log.segments)


def test_each_segment_has_a_salt_of_its_own():
    _, log = several()
    assert len({segment.salt for segment in log.segments}) == len(log.segments)


def test_a_segment_is_an_eighth_of_the_log_at_most():
    _, log = several(log_bytes=1 * MIB, segment_bytes=2**31)
    assert log.segment_bytes == 128 * KIB


def test_a_segment_whose_first_record_has_expired_does_not_go_on():
    """Files are removed as wholes: a topic with few messages would keep all of them."""
    minute = 60_000_000
    for ttl_ms, least in ((3_600_000, 60 * minute), (1, minute)):
        _, log = written([], topic(retention_ttl_ms=ttl_ms))
        for base, at in enumerate((0, least - 1, least, least + 1, 2 * least)):
            log.write([message(base, at_us=at)])
        assert [segment.base for segment in log.segments] == [0, 2, 4]


def test_records_without_messages_never_ask_for_a_second_file_of_the_same_name():
    """A file is named by the offset of its first message."""
    disk, log = written(
        [
            [positions(0)],
            [StoredRecord(0, 1, 0, b"x" * 9 * KIB, RecordKind.MESSAGES, 5)],
            [positions(0)],
        ],
        topic(**SMALL),
    )
    assert len(log.segments) == 1
    for _ in range(3):
        found = recover(disk, FOLDER)
        log = writer(disk, found.topic, found)
        log.write([positions(0, body=b'{"again": 1}')])
    log.write([message(0)])
    log.write([message(1)])
    found, records = start(disk)
    assert (found.damage, [record.base for record in records if record.count]) == ("", [0, 1])
    assert found.state.positions == {"reader": 1, "again": 1}


def nothing(number):
    """A record of 1 KiB without messages."""
    return StoredRecord(
        1, number, body=b'{"a": %d}' % number + b" " * 1000, kind=RecordKind.POSITIONS
    )


def test_records_without_messages_never_fill_the_disk():
    """Clients may send such batches for ever: only what they amount to is kept."""
    disk, log = written([[message(0), positions(1)]], topic(**SMALL))
    for number in range(500):
        log.write([nothing(number)])
        assert log.bytes < 2 * 9 * KIB
    found, _ = start(disk)
    assert (found.damage, found.state.end, found.state.positions) == (
        "",
        1,
        {"reader": 1, "a": 499},
    )
    log.write([message(1)])
    log.write([message(2)])
    found, records = start(disk)
    assert (found.damage, [it.base for it in records if it.count]) == ("", [0, 1, 2])


def test_a_crash_while_they_begin_again_loses_none_of_it():
    disk, log = written([[message(0)]], topic(**SMALL))
    log.write([positions(1)])
    for number in range(3, 600):
        calls = len(disk.calls)
        log.write([nothing(number)])
        if len(disk.calls) - calls < 4:
            continue
        break
    assert [name for name, _ in disk.calls[calls:]] == ["replace", "replace", "replace", "write"]
    for call in range(calls, calls + 4):
        for seed in range(10):
            again, log = written([[message(0)]], topic(**SMALL))
            again.random, again.fault = Random(seed), failing(call, Crash())
            with pytest.raises(Crash):  # noqa: PT012
                log.write([positions(1)])
                for sequence in range(3, 600):
                    log.write([nothing(sequence)])
            found = recover(again.copy(), FOLDER)
            assert (found.damage, found.state.positions["reader"]) == ("", 1)
            assert found.state.positions["a"] in (number - 1, number)


@pytest.mark.parametrize("suffix", [".log", "2.state", ".state"])
def test_without_room_they_go_on_where_they_are(suffix, monkeypatch):
    disk, log = written([[message(0)]], topic(**SMALL))
    replace = disk.replace

    def has_no_room(path, data):
        if path.endswith(suffix):
            raise full()
        replace(path, data)

    monkeypatch.setattr(disk, "replace", has_no_room)
    for number in range(30):
        log.write([nothing(number)])
    assert log.bytes > 30 * KIB
    assert recover(disk.copy(), FOLDER).state.positions == {"a": 29}
    monkeypatch.undo()
    log.write([nothing(30)])
    assert log.bytes < 18 * KIB
    assert recover(disk, FOLDER).state.positions == {"a": 30}


# -- checkpoints -----------------------------------------------------------------------------------


def test_checkpoints_are_made_every_four_mib_and_two_are_kept():
    disk, log = written([], topic(segment_bytes=64 * MIB, log_bytes=1024 * MIB))
    seen = []
    for base in range(18):
        log.write([message(base, MIB)])
        seen.append([int(name[-26:-6]) for name in names(disk, ".state")])
    assert seen[2:5] == [[], [4], [4]]
    assert seen[7:9] == [[4, 8], [4, 8]]
    assert seen[-1] == [12, 16]


def test_a_large_checkpoint_is_made_less_often(monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 1000)
    disk, log = written([[positions(0, body=b'{"%s": 1}' % (b"x" * 5000))]])
    size = len(disk.content[names(disk, ".state")[0]])
    assert size > 5000
    log.write([message(0, 4 * size - 200)])
    assert [len(names(disk, ".state")), log.segments[0].size > 4 * size] == [1, True]
    log.write([message(1, 200)])
    assert len(names(disk, ".state")) == 2


def test_a_checkpoint_that_replaces_the_last_one_leaves_the_one_before():
    """DUR-10: without a message between them they have one name, and so the older one counts on."""
    disk, log = written([[message(0)]])
    log.save()
    log._active = None
    log.write([message(1)])
    log.save()
    assert log.rewritable_below(is_full=False) == 0
    log.write([positions(2)])
    log.save()
    assert log.rewritable_below(is_full=False) == 0
    found = recover(disk, FOLDER)
    again = writer(disk, found.topic, found)
    again.write([positions(2)])
    again.save()
    assert len(names(disk, ".state")) == 2
    assert again.rewritable_below(is_full=False) == 0
    again.write([message(2)])
    again.save()
    assert again.rewritable_below(is_full=False) == 2


def test_nothing_new_needs_no_checkpoint_and_a_start_knows_how_much_is_new():
    disk, log = written([[message(0)]])
    log.save()
    calls = len(disk.calls)
    log.save()
    assert len(disk.calls) == calls
    found = recover(disk, FOLDER)
    assert (found.saved, found.unsaved) == (0, 0)
    log.write([message(1, 100)])
    found = recover(disk, FOLDER)
    assert (found.saved, found.unsaved) == (0, message(1, 100).size)
    writer(disk, found.topic, found).save()
    assert recover(disk, FOLDER).unsaved == 0


def test_without_room_for_a_checkpoint_the_last_one_has_to_do(caplog):
    disk, log = several(30)
    log.save()
    log.write([message(30, 1000)])
    caplog.set_level("INFO")
    disk.fault = lambda _: full()
    log.close()
    assert "the next start will take longer" in caplog.text
    disk.fault = lambda _: None
    log.save()
    assert recover(disk, FOLDER).unsaved == 0


def test_a_checkpoint_of_others_is_never_removed():
    disk, log = written([[message(0)]])
    disk.content[f"{FOLDER}/0.state"] = disk.content[f"{FOLDER}/mine.state"] = b"mine"
    for base in range(1, 5):
        log.write([message(base)])
        log.save()
    assert len(names(disk, ".state")) == 4


# -- what goes -------------------------------------------------------------------------------------


def test_what_is_below_an_offset_goes_in_whole_segments_but_the_last():
    disk, log = several()
    bases = [segment.base for segment in log.segments]
    log.drop_below(bases[2] - 1)
    assert [segment.base for segment in log.segments] == bases[1:]
    log.drop_below(bases[3])
    assert (log.head, [segment.base for segment in log.segments]) == (bases[3], bases[3:])
    log.drop_below(10**6)
    assert [segment.base for segment in log.segments] == bases[-1:]
    assert [path[-24:-4] for path in names(disk, ".log")] == [f"{bases[-1]:020}"]
    assert not log.can_drop(10**6)


def test_no_reader_looks_for_a_file_that_is_being_removed(monkeypatch):
    """It would take it for missing."""
    disk, log = several()
    log.save()
    remove, left = disk.remove, []
    monkeypatch.setattr(
        disk, "remove", lambda paths: (left.append(log.segments[0].base), remove(paths))
    )
    log.drop_below(30)
    assert left[0] == log.head > 0


def test_what_goes_is_told_by_a_checkpoint_first():
    """Windows, producers' numbers and positions do not go with the file they were written in."""
    disk, log = written(
        [[positions(0)], [StoredRecord(0, 1, producer=9, sequence=41)]], topic(**SMALL)
    )
    for base in range(60):
        log.write([message(base, 1000)])
    log.drop_below(log.excess())
    found = recover(disk, FOLDER)
    assert found.segments[0].base > 0
    assert (found.state.positions, found.state.producers[9].next) == ({"reader": 1}, 42)


def test_without_room_for_that_checkpoint_it_stays():
    disk, log = several()
    disk.fault = lambda _: full()
    log.drop_below(30)
    assert log.head == 0
    disk.fault = lambda _: None
    log.drop_below(30)
    assert log.head > 0


def test_log_bytes_bounds_the_log_and_the_oldest_goes_first():
    disk, log = several(30)
    assert (log.bytes < 64 * KIB, log.excess()) == (True, 0)
    for base in range(30, 200):
        log.write([message(base, 1000)])
        log.drop_below(log.excess())
        assert 64 * KIB - 9 * KIB - 1100 < log.bytes <= 64 * KIB or base < 60
    assert recover(disk, FOLDER).segments[0].base == log.head > 100


def test_a_restart_after_that_has_the_same_head():
    disk, log = several(100)
    log.drop_below(log.excess())
    found = recover(disk, FOLDER)
    again = writer(disk, found.topic, found)
    assert (again.head, again.bytes, found.damage, found.state.end) == (
        log.head,
        log.bytes,
        "",
        100,
    )
    again.drop_below(90)
    assert start(disk)[0].damage == ""


def test_a_damaged_log_is_kept_as_it_is():
    disk, log = several()
    del disk.content[log.segments[3].path]
    found = recover(disk, FOLDER)
    calls = len(disk.calls)
    again = writer(disk, found.topic, found)
    again.drop_below(10**6)
    again.close()
    assert not again.can_drop(10**6)
    assert len(disk.calls) == calls


@pytest.mark.parametrize("time", range(-1, 65, 3))
def test_what_has_expired_by_a_time_is_known_to_an_index_entry(time):
    _, log = written(
        [[message(base, 40 * KIB)] for base in range(60)],
        topic(segment_bytes=2**20, log_bytes=2**23),
    )
    found = log.expired_until(time)
    assert found <= time + 1 or time < 0
    assert found >= min(time, 59) - 2 or time < 0
    assert time >= 0 or found == 0


def test_when_the_latest_has_expired_all_has():
    _, log = written([[message(0, 100)], [message(1, 100)]], topic())
    assert (log.expired_until(0), log.expired_until(1)) == (0, 2)


def test_bytes_from_an_offset_are_those_of_whole_segments():
    _, log = several()
    assert log.bytes_from(0) == log.bytes
    assert log.bytes_from(log.segments[2].base) == sum(it.size for it in log.segments[2:])
    assert log.bytes_from(10**6) == log.segments[-1].size


# -- deletion --------------------------------------------------------------------------------------


def test_a_deleted_log_leaves_nothing():
    disk, log = several()
    log.close()
    log.delete()
    log.delete()
    assert (disk.content, disk.files("topics")) == ({}, {})
    unborn = writer(SimDisk())
    unborn.delete()


def test_a_deletion_leaves_folders_that_are_not_ours(caplog):
    disk, log = several(3)
    disk.folders.add(f"{FOLDER}/mine")
    log.delete()
    assert disk.files(f"{FOLDER}.deleted") == {"mine": -1}
    assert "there are folders in it that are not zaichik's" in caplog.text


# -- every call of the disk fails ------------------------------------------------------------------


class Workload:
    """Writes groups of everything, saves and drops in between, as a topic's log does; and notes
    what became of it.
    """

    def __init__(self, disk, found=None, end=0, seed=5):
        self.log, self.random = writer(disk, topic(**SMALL), found), Random(seed)
        self.end, self.seed, self.written = end, seed, list[StoredRecord]()
        self.refused, self.uncertain, self.below = list[StoredRecord](), list[StoredRecord](), 0

    def group(self, number):
        base, made = self.end, list[StoredRecord]()
        for part in range(self.random.randint(1, 4)):
            kind, tag = (
                self.random.choice(["message"] * 4 + ["positions", "dropped"]),
                f"{self.seed}.{number}.{part}",
            )
            if kind == "message":
                batch = message(
                    base, self.random.randint(10, 2500), producer=1 + part, sequence=number
                )
                made.append(
                    StoredRecord(base, number, 1, batch.body + tag.encode(), 0, 1 + part, number)
                )
            elif kind == "positions":
                made.append(
                    positions(
                        base, number, b'{"%s": %d}' % (b"abc"[part % 3 : part % 3 + 1], number)
                    )
                )
            else:
                made.append(StoredRecord(base, number, producer=7, sequence=number, dropped=b"\1"))
            base += made[-1].count
        return made

    def run(self, count=40):
        for number in range(count):
            group = self.uncertain = self.group(number)
            try:
                self.log.create()
                self.log.write(group)
            except DiskFull:
                self.refused += group
            else:
                self.written += group
                self.end = group[-1].base + group[-1].count
            self.uncertain = []
            if number % 9 == 8:
                self.log.save()
            if number % 5 == 4:
                self.below = max(self.below, min(self.log.excess(), self.end))
                self.log.drop_below(self.below)
        self.log.close()
        return self


@cache
def calls_of_the_workload():
    disk = SimDisk()
    work = Workload(disk).run()
    assert work.log.head > 0
    assert len(work.log.segments) > 3
    return len(disk.calls)


def check(disk, work, earlier=()):
    """A start finds what was acknowledged, once, and perhaps the beginning of the group that was
    under way.
    """
    found = recover(disk, FOLDER)
    assert found.damage == ""
    if found.topic is None:
        assert work.written == []
        return found, []
    records = found_records(disk, found)
    known = [*earlier, *work.written]
    late = [record for record in records if record in work.uncertain]
    known += work.uncertain[: len(late)]
    head = found.segments[0].base if found.segments else 0
    assert head <= work.below
    assert records == known[len(known) - len(records) :]
    gone = known[: len(known) - len(records)]
    assert all(record.base + record.count <= max(head, 0) for record in gone)
    state = new_state(topic(**SMALL))
    for record in known:
        state.add(record)
    assert as_told(found.state) == as_told(state)
    return found, known


def survive(number, error, *, for_ever, seed, power_cut):
    disk = SimDisk()
    disk.random, disk.fault = Random(seed), failing(number, error, for_ever=for_ever)
    work = Workload(disk)
    try:
        work.run()
    except (StorageFailed, Crash):
        assert not isinstance(error, DiskFull)
    disk.fault = lambda _: None
    disk = disk.copy() if power_cut else disk
    if not disk.content:
        return
    found = recover(disk, FOLDER)
    if found.topic is None:
        assert not work.written
        return
    found, known = check(disk, work)
    again = Workload(disk, found, found.state.end, seed=6)
    again.below = work.below
    again.run(12)
    check(disk.copy(), again, known)


@pytest.mark.unmeasured  # each way to fail has a test of its own
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("error", [full, eio], ids=["full", "broken"])
def test_every_call_fails(error, for_ever):
    for number in range(calls_of_the_workload()):
        for power_cut in (False, True):
            survive(number, error(), for_ever=for_ever, seed=number, power_cut=power_cut)


@pytest.mark.unmeasured  # each way to fail has a test of its own
@pytest.mark.parametrize("seed", range(3))
def test_the_power_is_cut_in_every_call(seed):
    for number in range(calls_of_the_workload()):
        survive(number, Crash(), for_ever=False, seed=1000 * seed + number, power_cut=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200))
def test_the_power_is_cut_in_every_call_many_times(seed):
    for number in range(calls_of_the_workload()):
        survive(
            number, Crash(), for_ever=False, seed=1_000_000 + 1000 * seed + number, power_cut=True
        )
        survive(
            number,
            eio(),
            for_ever=False,
            seed=1_000_000 + 1000 * seed + number,
            power_cut=bool(seed % 2),
        )


@pytest.mark.parametrize("seed", range(40))
def test_a_second_crash_while_a_start_recovers_changes_nothing(seed):
    random = Random(seed)
    disk = SimDisk()
    disk.random, disk.fault = random, failing(random.randrange(3, calls_of_the_workload()), Crash())
    work = Workload(disk)
    with pytest.raises(Crash):
        work.run()
    for number in range(6):
        disk = disk.copy()
        disk.random, disk.fault = random, failing(number, Crash())
        try:
            recover(disk, FOLDER)
        except Crash:
            continue
    check(disk.copy(), work)


def test_a_full_disk_after_a_roll_leaves_an_empty_segment_that_goes_on():
    disk, log = until_full()
    end = log._state.end
    disk.fault = failing(len(disk.calls) + 1, full())  # after the head
    with pytest.raises(DiskFull):
        log.write([message(end, 50)])
    assert (log.segments[-1].base, log.segments[-1].size) == (end, HEAD_SIZE)
    log.save()
    for _ in range(2):  # a start now, and one after it
        found, records = start(disk)
        assert (found.damage, len(records), found.state.end) == ("", end, end)
    again = writer(disk, found.topic, found)
    again.write([message(end, 60)])
    again.write([message(end + 1)])
    found, records = start(disk)
    assert (found.damage, records[end:]) == ("", [message(end, 60), message(end + 1)])


def limit_files(disk, limit):
    """Let no file grow beyond so many bytes."""
    write = disk.write

    def limited(path, at, pieces):
        if at + sum(map(len, pieces)) > limit:
            raise FileTooLong("it has reached the limit")
        write(path, at, pieces)

    disk.write = limited


def test_where_files_may_not_grow_the_log_goes_on_in_the_next_one():
    """A limit of a file's size is one of each file; what no file has room for is refused."""
    disk, log = written([[message(0)]], topic(segment_bytes=2**31, log_bytes=2**31))
    limit_files(disk, HEAD_SIZE + 3 * message(0).size)
    for base in range(1, 10):
        log.write([message(base)])
    assert [it.base for it in log.segments] == [0, 3, 6, 9]
    with pytest.raises(FileTooLong):
        log.write([message(10, 1000)])
    log.write([message(10)])
    found, records = start(disk.copy())
    assert (found.damage, [it.base for it in records]) == ("", [*range(11)])


@pytest.mark.parametrize("count", [0, 1])
def test_where_files_may_not_grow_records_without_messages_go_on_as_well(count):
    """Those that begin where the file does can only go on in one that takes its place."""
    disk, log = written([[message(0)]][:count], topic(segment_bytes=2**31, log_bytes=2**31))
    limit_files(disk, HEAD_SIZE + 5 * positions(count).size)
    for number in range(20):
        log.write([positions(count, body=b'{"reader": %d}' % (number % 10))])
    log.write([message(count)])
    found, records = start(disk.copy())
    assert (found.damage, records[-1].base, found.state.end) == ("", count, count + 1)
    assert found.state.positions["reader"] == 9
