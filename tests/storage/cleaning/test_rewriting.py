"""Files of a table's log, rewritten without what was superseded."""

import errno
import json
from functools import partial

import pytest
from made import changed
from sim_disk import SimDisk, full
from tables import FOLDER, Logged, content, keyed, positions

from zaichik.storage.cleaning import rewriting
from zaichik.storage.cleaning.rewriting import CannotRewrite
from zaichik.storage.disk import DiskFull
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.segment import HEAD_SIZE, Segment
from zaichik.storage.walk import walk


def two_files():
    """Two closed files, and a third one."""
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"))
    log.write((b"a", b"2"), (b"", b"none"))
    log.roll()
    log.write((b"a", b"3"), (b"c", b"1"), at_us=50)
    log.write((b"c", b"2"), (b"d", b"1"), at_us=60)
    log.roll()
    log.write((b"d", b"2"), at_us=70)
    return log


def shared(base, ticket, **opened):
    """A record of shared names, each with these rows, or None if it is gone."""
    names = {}
    for name, offsets in opened.items():
        rows = {str(offset): [1, 0, 0, 0, 0, ticket, 0, 10, ""] for offset in offsets or ()}
        names[name] = offsets and {"numbers": [0, base, 0, 0, 0, 0, 5, 0], "rows": rows}
    body = json.dumps({"ticket": ticket, "names": names}).encode()
    return StoredRecord(base, base, 0, body, RecordKind.NAMES)


def records(log, segment):
    return [step.record for step in walk(log.disk, segment)]


def test_what_is_superseded_is_gone_and_all_else_is_as_it_was():
    """DUR-10."""
    log = two_files()
    before = content(log.kept)
    new = log.rewrite(count=2)
    assert (new.base, new.until) == (0, 8)
    assert log.names() == [f"{0:020}.log", f"{8:020}.log"]
    assert content(log.found().kept) == before
    assert [(it.base, it.count) for it in records(log, new)] == [(0, 7), (7, 1)]


def test_a_file_of_which_nothing_is_left_covers_its_offsets():
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"))
    log.roll()
    log.write((b"a", b"2"), (b"b", b"2"))
    new = log.rewrite()
    (record,) = records(log, new)
    assert (record.base, record.count, record.kind) == (0, 2, RecordKind.KEPT)
    found = log.found()
    assert (found.damage, found.state.end) == ("", 4)


def test_it_is_read_in_steps_and_each_is_synced(monkeypatch):
    """DUR-10: publishing goes on between two of them."""
    monkeypatch.setattr(rewriting, "STEP", 1)
    log = two_files()
    writer = log.writer
    work = writer.rewriting(writer.segments[:1], 4, 9, 2**62)
    steps = 0
    while not work.step(log.kept.live_offsets(work.offset, 100), 4):
        steps += 1
        log.write((b"e", b"%d" % steps))
    assert steps == 2
    assert writer.put_in_place(work)
    assert content(log.found().kept) == content(log.kept)


def test_a_step_ends_where_it_is_not_known_what_is_live():
    log = two_files()
    work = log.writer.rewriting(log.writer.segments[:2], 8, 9, 2**62)
    live = log.kept.live_offsets(0, 1)
    assert not work.step(live, 3)
    assert work.offset == 2
    assert not work.step(log.kept.live_offsets(2, 100), 4)
    assert work.step(log.kept.live_offsets(4, 100), 8)
    assert log.writer.put_in_place(work)
    assert content(log.found().kept) == content(log.kept)


def test_positions_that_moved_in_it_are_kept():
    """DUR-5, where no checkpoint is left."""
    log = Logged()
    log.write((b"a", b"1"))
    log.writer.write([positions(1), positions(1, b'{"gone": 1, "reader": 0}')])
    log.writer.write([positions(1, b'{"gone": null}')])
    log.write((b"a", b"2"))
    log.roll()
    log.write((b"a", b"3"))
    log.rewrite()
    for name in list(log.disk.content):
        if name.endswith(".state"):
            del log.disk.content[name]
    assert log.found().state.positions == {"reader": 0}


def test_shared_names_are_kept_where_no_checkpoint_is_left():
    """SHR-7: what has changed of one is no name without what it had before."""
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"))
    log.writer.write([shared(2, 5, thumbs=[0, 1], mails=[0])])
    log.write((b"a", b"2"))
    log.roll()
    log.writer.write([shared(3, 6, thumbs=[0], gone=[1])])
    log.writer.write([shared(3, 7, mails=None, gone=[0])])
    log.write((b"a", b"3"))
    log.writer.write([shared(4, 8, mails=[3])])
    log.roll()
    log.write((b"b", b"2"))
    before = log.found().state
    assert {*before.names} == {"thumbs", "mails", "gone"}
    log.rewrite()
    log.rewrite(first=1)
    for name in list(log.disk.content):
        if name.endswith(".state"):
            del log.disk.content[name]
    found = log.found()
    assert found.damage == ""
    assert (found.state.names, found.state.ticket) == (before.names, 8)


def test_what_a_repair_has_given_up_stays_so():
    """DUR-7."""
    log = Logged()
    log.write((b"a", b"1"))
    log.writer.write([StoredRecord(1, 5, 3, bytes(40), RecordKind.LOST)])
    log.kept.next_offset = 4
    log.write((b"a", b"2"))
    log.roll()
    log.write((b"a", b"3"))
    new = log.rewrite()
    kinds = [(it.kind, it.base, it.count) for it in records(log, new)]
    assert kinds == [(RecordKind.KEPT, 0, 1), (RecordKind.LOST, 1, 3), (RecordKind.KEPT, 4, 1)]


def test_a_tombstone_stays_while_an_older_message_may_be_there():
    """TAB-5: a start would bring the key back."""
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"))
    log.roll()
    log.write((b"a", b""), (b"b", b"2"), (b"x", b"1"))
    log.roll()
    log.write((b"x", b"2"))
    log.kept.expire_tombstones(99, 10)
    new = log.rewrite(first=1, stuck_from=0)
    assert (new.stuck_below, new.stuck_bytes) == (3, 1 + 12 + 8)
    found = log.found().kept
    assert content(found) == {2: (b"a", b"", 2), 3: (b"b", b"2", 2), 5: (b"x", b"2", 5)}
    log.writer.know_deleted(log.kept.deleted_below)
    log.rewrite(first=0)
    new = log.rewrite(first=1, stuck_from=log.writer.segments[0].clean_below)
    assert new.stuck_bytes == 0
    found = log.found().kept
    assert content(found) == {3: (b"b", b"2", 2), 5: (b"x", b"2", 5)}
    assert found.deleted_below == 3


def test_that_tombstones_have_gone_is_in_what_is_written():
    """TAB-5: also where no checkpoint is left."""
    log = Logged()
    log.write((b"a", b"1"), (b"a", b""))
    log.roll()
    log.write((b"x", b"2"))
    log.kept.expire_tombstones(99, 10)
    log.writer.know_deleted(log.kept.deleted_below)
    log.rewrite()
    for name in list(log.disk.content):
        if name.endswith(".state"):
            del log.disk.content[name]
    found = log.found()
    assert content(found.kept) == {2: (b"x", b"2", 2)}
    assert found.kept.deleted_below == 2


def test_a_checkpoint_proves_what_has_superseded_before_that_goes():
    """DUR-7: damage in it is damage, and not torn."""
    log = two_files()
    log.rewrite()
    path = f"{FOLDER}/{8:020}.log"
    log.disk.content[path] = changed(log.disk.content[path], HEAD_SIZE + 70)
    found = log.found()
    assert found.torn == 0
    assert f"{8:020}.log: damaged at position 4096" in found.damage


def test_the_file_of_the_checkpoint_before_is_not_rewritten():
    """DUR-10: where no message has come since the last one, the next one takes its place."""
    log = two_files()
    log.writer.save()
    log.writer.write([positions(9)])
    log.writer.save()
    assert log.writer.rewritable_below(is_full=False) == -1
    log.write((b"a", b"1"))
    log.writer.save()
    assert log.writer.rewritable_below(is_full=False) == 8


def test_without_room_for_a_checkpoint_nothing_is_replaced():
    log = two_files()
    before = dict(log.disk.content)
    work = log.writer.rewriting(log.writer.segments[:1], 4, 9, 2**62)
    assert work.step(log.kept.live_offsets(0, 100), 4)
    log.disk.fault = lambda _: full()
    assert not log.writer.put_in_place(work)
    assert log.disk.content == before


def test_damage_is_left_as_it_is():
    """DUR-7."""
    log = two_files()
    path = f"{FOLDER}/{0:020}.log"
    log.disk.content[path] = changed(log.disk.content[path], HEAD_SIZE + 70)
    work = log.writer.rewriting(log.writer.segments[:1], 4, 9, 2**62)
    with pytest.raises(CannotRewrite, match="is damaged at position 4096"):
        work.step(log.kept.live_offsets(0, 100), 4)


def test_what_cannot_be_read_is_damage():
    """DUR-7: of a file that nobody reads, it does not end the broker."""
    for error in (OSError(errno.EIO, "bad sector"), FileNotFoundError(errno.ENOENT, "gone")):
        log = two_files()
        log.disk.under_way = partial(raised_by_reads, error)
        work = log.writer.rewriting(log.writer.segments[:1], 4, 9, 2**62)
        with pytest.raises(CannotRewrite, match=f"{0:020}.log cannot be read: .*(sector|gone)"):
            work.step(log.kept.live_offsets(0, 100), 4)


def raised_by_reads(error, method, path):
    return error if method == "read" else None


def test_files_that_were_replaced_are_left_over_wherever_the_power_is_cut():
    """DUR-10: after the new file has its place, before the last old one is removed."""
    log = two_files()
    old = dict(log.disk.content)
    log.rewrite(count=2)
    second = f"{FOLDER}/{4:020}.log"
    log.disk.content[second] = old[second]
    found = log.found()
    assert (found.damage, content(found.kept)) == ("", content(log.kept))
    assert [segment.base for segment in found.segments] == [0, 8]


def test_the_hidden_file_of_a_crash_is_begun_anew():
    log = two_files()
    hidden = f"{FOLDER}/.{0:020}.log"
    log.disk.content[hidden] = b"half of it"
    log.rewrite()
    assert hidden not in log.disk.content
    assert content(log.found().kept) == content(log.kept)


def test_the_head_says_what_it_replaces():
    log = two_files()
    new = log.rewrite(count=2)
    segment, topic = Segment.open(log.disk, FOLDER, 0, new.size)
    assert topic.fields()["format"] == 2
    assert (segment.until, segment.clean_below, segment.deleted_below) == (8, 9, 0)


def test_a_full_disk_is_reported():
    log = two_files()
    work = log.writer.rewriting(log.writer.segments[:1], 4, 9, 2**62)
    log.disk.fault = lambda _: full()
    with pytest.raises(DiskFull):
        work.step(log.kept.live_offsets(0, 100), 4)
    work.give_up()


def test_large_gaps_take_several_records(monkeypatch):
    """A record counts its offsets in 32 bits."""
    monkeypatch.setattr(rewriting, "MOST_COVERED", 3)
    log = Logged(SimDisk())
    log.write(*[(b"a", b"%d" % number) for number in range(8)], (b"b", b"1"))
    log.roll()
    log.write((b"a", b"9"))
    new = log.rewrite()
    assert [(it.base, it.count) for it in records(log, new)] == [(0, 3), (3, 3), (6, 2), (8, 1)]
    assert content(log.found().kept) == content(log.kept)


def test_a_record_holds_so_many_messages(monkeypatch):
    monkeypatch.setattr(rewriting, "RECORD_MESSAGES", 2)
    monkeypatch.setattr(rewriting, "RECORD", 4)
    log = Logged()
    log.write(*[(b"%d" % number, b"x") for number in range(4)], (b"5", b"long"), (b"6", b"x"))
    log.roll()
    log.write((b"0", b"y"))
    new = log.rewrite()
    assert [(it.base, it.count) for it in records(log, new)] == [(0, 3), (3, 2), (5, 1)]
    assert keyed(0, (b"a", b"1")).count == 1
