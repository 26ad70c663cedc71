"""At a start: the table again, from the files of its log."""

from random import Random

import pytest
from made import changed, topic
from sim_disk import SimDisk
from tables import FOLDER, TABLE, Logged, content, keyed

from zaichik.core.tables import keep_last, key_index
from zaichik.core.tables.keep_last import KeepLast
from zaichik.storage.cleaning.loading import load
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.recovery import Recovered, new_state, recover
from zaichik.storage.segment import HEAD_SIZE
from zaichik.storage.writer import Writer
from zaichik_protocol import Batch

KEYS = [b"", b"a", b"b", b"c", b"d"]


def told(kept):
    """All that the table says of itself."""
    names = ["next_offset", "messages", "size", "keyless", "tombstone_bytes", "live", "head"]
    numbers = [getattr(kept, name) for name in names]
    return content(kept), dict(kept.tombstones), numbers


@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize("seed", range(10))
def test_the_table_is_what_it_was(seed, monkeypatch):
    """DUR-10: whatever was published, and whatever was rewritten."""
    monkeypatch.setattr(keep_last, "ROWS", 4)
    monkeypatch.setattr(key_index, "MANY_KEYS", 3)
    random = Random(seed)
    log = Logged()
    for _ in range(120):
        pairs = [
            (random.choice(KEYS), random.choice([b"", b"x", b"yy"]))
            for _ in range(random.randint(1, 6))
        ]
        log.write(*pairs)
        if random.random() < 0.1:
            log.roll()
        count = len(log.writer.segments) - 1
        if count and random.random() < 0.1:
            first = random.randrange(count)
            log.rewrite(first, random.randint(1, count - first))
    found = log.found().kept
    assert told(found) == told(log.kept)
    assert found.superseded == found.next_offset - found.live
    assert found.keyless == sum(not key for key, _, _ in content(found).values())


def test_it_goes_on_where_it_was():
    """The rows and the index are those of a table that was never away."""
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"), (b"c", b""))
    found = log.found().kept
    for kept in (found, log.kept):
        kept.append(kept.judge(Batch.of([(b"a", b"2"), (b"c", b"3")])), 9)
    assert told(found) == told(log.kept)
    assert found.memory == log.kept.memory


def test_another_topic_is_not_read():
    disk = SimDisk()
    of = topic()
    Writer(disk, FOLDER, of, Recovered(of, new_state(of))).write([keyed(0, (b"a", b"1"))])
    recovered = recover(disk, FOLDER)
    reads = len(disk.calls)
    load(disk, recovered)
    assert recovered.kept is None
    assert len(disk.calls) == reads


def test_a_new_table_is_empty():
    recovered = Recovered(TABLE, new_state(TABLE))
    load(SimDisk(), recovered)
    assert isinstance(recovered.kept, KeepLast)
    assert told(recovered.kept) == told(KeepLast())


def test_damage_before_the_checkpoint_is_found():
    """DUR-7: a table that lacks a message could have an older one in its place."""
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"))
    log.write((b"a", b"2"))
    log.write((b"b", b"2"))
    log.writer.save()
    path = f"{FOLDER}/{0:020}.log"
    second = HEAD_SIZE + keyed(0, (b"a", b"1"), (b"b", b"1")).size
    log.disk.content[path] = changed(log.disk.content[path], second + 70)
    found = log.found()
    assert f"{path}: damaged at position {second}, from offset 2 on" in found.damage
    assert (found.kept.next_offset, found.state.end) == (2, 2)
    assert content(found.kept) == {0: (b"a", b"1", 0), 1: (b"b", b"1", 0)}


def test_a_file_that_is_missing_is_damage():
    log = Logged()
    for number in range(3):
        log.write((b"a", b"%d" % number))
        log.roll()
    log.writer.save()
    del log.disk.content[f"{FOLDER}/{1:020}.log"]
    found = log.found()
    assert "what comes before it is missing, from offset 1 on" in found.damage


def test_what_begins_later_begins_with_what_has_expired():
    """TAB-8: files of which all has expired are gone."""
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"))
    log.roll()
    log.write((b"a", b"2"))
    log.writer.drop_below(2)
    kept = log.found().kept
    assert (kept.head, kept.expired, kept.superseded) == (2, 2, 0)
    assert content(kept) == {2: (b"a", b"2", 2)}


def test_what_a_repair_has_given_up_may_have_been_deletions():
    """TAB-5, DUR-7."""
    log = Logged()
    log.write((b"a", b"1"))
    log.writer.write([StoredRecord(1, 5, 3, bytes(40), RecordKind.LOST)])
    recovered = recover(log.disk, FOLDER)
    recovered.topic = recovered.topic._replace(lost=((1, 4),))
    load(log.disk, recovered)
    kept = recovered.kept
    assert (kept.deleted_below, kept.superseded, kept.next_offset) == (4, 0, 4)
    assert recovered.state.deleted_below == 4
