"""Rebuilding: a topic appears whole or not at all, and no offset is given again."""

import pytest
from made import KIB, MIB, as_told, found_records, topic
from sim_disk import Crash, SimDisk, failing, full

from zaichik.storage import rebuilding as module
from zaichik.storage.disk import DiskFull
from zaichik.storage.rebuilding import Rebuilding, folder_with
from zaichik.storage.record import RecordKind
from zaichik.storage.recovery import recover
from zaichik.storage.repair.checking import check
from zaichik.storage.store import own_folder

GAP = 2**40


def rebuilt(disk, of=None, count=10, skip=GAP):
    """A topic of `count` messages of one time each, and a gap behind them."""
    rebuilding = Rebuilding(disk, of or topic())
    for number in range(count):
        rebuilding.add(1000 + number, [b"k"], [b"%d" % number])
    rebuilding.give_up(count + skip, 1000 + count)
    rebuilding.finish()
    return rebuilding


def start(disk, of=None):
    """What a start finds."""
    return recover(disk, f"topics/{own_folder(of or topic())}")


def test_offsets_times_keys_and_payloads_are_those_that_were_added():
    disk = SimDisk()
    rebuilding = Rebuilding(disk, topic())
    rebuilding.add(5, [b"a", b""], [b"one", b""])
    rebuilding.add(7, [b""], [b"three"])
    rebuilding.finish()
    found = start(disk)
    records = found_records(disk, found)
    assert [(it.base, it.accepted_us, it.count, it.kind) for it in records] == [
        (0, 5, 2, RecordKind.MESSAGES),
        (2, 7, 1, RecordKind.MESSAGES),
    ]
    assert (found.topic, found.damage, found.torn) == (topic(), "", 0)
    assert (found.state.end, found.state.accepted_us) == (3, 7)


def test_a_gap_is_one_range_however_many_records_tell_of_it():
    """RS-3: a record covers 2^32 offsets at most."""
    disk = SimDisk()
    rebuilding = rebuilt(disk)
    found = start(disk)
    assert found.topic.lost == ((10, 10 + GAP),)
    assert found.state.end == rebuilding.end == 10 + GAP
    (checked,) = check(disk)
    assert (checked.problems, checked.hopeless, checked.messages) == ([], [], 10)
    assert sum(end - begin for begin, end in checked.lost) == GAP


def test_gaps_may_come_anywhere_also_first_and_next_to_each_other():
    disk = SimDisk()
    rebuilding = Rebuilding(disk, topic())
    rebuilding.give_up(4, 0)
    rebuilding.add(1, [b""], [b"four"])
    rebuilding.give_up(7, 1)
    rebuilding.give_up(9, 1)
    rebuilding.finish()
    found = start(disk)
    assert (found.topic.lost, found.state.end) == (((0, 4), (5, 9)), 9)
    (checked,) = check(disk)
    assert (checked.problems, checked.messages) == ([], 1)


def test_windows_follow_from_the_messages():
    """RS-1: as a start makes them from the records."""
    of = topic(compaction_window_ms=1)
    disk = SimDisk()
    rebuilding = Rebuilding(disk, of)
    rebuilding.add(100, [b"old"], [b"1"])
    rebuilding.add(2000, [b"new"], [b"2"])
    rebuilding.finish()
    found = start(disk, of)
    assert [*found.state.window.opening_times()] == [(b"new", 2000)]
    saved = as_told(found.state)
    for path in [path for path in disk.content if path.endswith(".state")]:
        del disk.content[path]
    assert as_told(start(disk, of).state) == saved


def test_the_oldest_messages_go_where_the_log_would_be_too_long(monkeypatch):
    """DUR-4, as at a broker."""
    monkeypatch.setattr(module, "GROUP", KIB)
    of = topic(log_bytes=MIB, segment_bytes=64 * KIB)
    disk = SimDisk()
    rebuilding = Rebuilding(disk, of)
    rebuilding.give_up(5, 1)
    for number in range(2000):
        rebuilding.add(number, [b""], [bytes(1000)])
    rebuilding.finish()
    assert rebuilding.size <= MIB + 3 * KIB
    assert rebuilding.head > 900
    found = start(disk, of)
    assert (found.segments[0].base, found.state.end) == (rebuilding.head, 2005)
    assert found.topic.lost == ()
    (checked,) = check(disk)
    assert (checked.problems, checked.messages) == ([], 2005 - rebuilding.head)


CALLS = 10  # that a rebuilding makes of the disk: the test below says if there are more


@pytest.mark.parametrize("call", range(CALLS))
def test_wherever_it_is_interrupted_the_topic_is_whole_or_not_there(call, monkeypatch):
    monkeypatch.setattr(module, "GROUP", 512)
    disk = SimDisk()
    disk.fault = failing(call, Crash())
    with pytest.raises(Crash):
        rebuilt(disk, count=20, skip=2**33)
    after = disk.copy()
    if folder_with(after, "orders"):
        # Only its name came last.
        assert disk.calls[-1][0] == "rename"
    else:
        assert check(after) == []
        rebuilt(after, count=20, skip=2**33)
    whole = SimDisk()
    rebuilt(whole, count=20, skip=2**33)
    assert len(whole.calls) == CALLS
    assert as_told(start(after).state) == as_told(start(whole).state)
    assert after.folders == whole.folders
    (checked,) = check(after)
    assert (checked.problems, checked.hopeless, checked.messages) == ([], [], 20)


def test_without_room_nothing_is_left():
    disk = SimDisk()
    rebuilding = Rebuilding(disk, topic())
    rebuilding.add(1, [b""], [b"one"])
    disk.fault = lambda call: full() if disk.calls else None
    disk.calls.append(("", ""))
    with pytest.raises(DiskFull):
        rebuilding.finish()
    disk.fault = lambda call: None
    rebuilding.undo()
    assert (disk.content, folder_with(disk, "orders")) == ({}, "")
    rebuilding.undo()


def test_a_topic_of_that_name_is_found_whatever_its_epoch_and_nothing_else_is():
    disk = SimDisk()
    assert folder_with(disk, "orders") == ""
    rebuilt(disk, topic(epoch=9))
    assert folder_with(disk, "orders") == "topics/orders.d5acebe867b47f4d.9"
    assert folder_with(disk, "order") == ""
    disk.rename("topics/orders.d5acebe867b47f4d.9", "topics/orders.d5acebe867b47f4d.9.deleted")
    assert folder_with(disk, "orders") == ""
