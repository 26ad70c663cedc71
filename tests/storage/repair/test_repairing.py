"""A repair: what can be read before can be read after, what cannot is written down, and nothing is
gone.
"""

import errno
import json
import os
from contextlib import suppress
from functools import cache
from random import Random

import pytest
from conversation import Conversation
from made import FOLDER, changed, message, path_of, positions, start, topic, writer, written
from sim_disk import Crash, SimDisk, failing, full

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.storage.disk import DiskFull, PosixDisk
from zaichik.storage.reading import DamagedLog, first_since, read_chunk
from zaichik.storage.record import HEADER, RecordKind, StoredRecord
from zaichik.storage.recovery import read_topic, recover, topic_file
from zaichik.storage.repair.checking import check_folder
from zaichik.storage.repair.repairing import AT_ONCE, repair
from zaichik.storage.repair.salvage import MOST_FOREIGN_RECORDS, PatientDisk
from zaichik.storage.restoring import restore
from zaichik.storage.segment import HEAD_SIZE, Segment, seal
from zaichik.storage.state import read_checkpoint
from zaichik.storage.store import Store
from zaichik.storage.walk import walk
from zaichik_protocol import Batch, Describe, Lagged, Messages, Publish, Start, Subscribe
from zaichik_protocol import Kind as DescribeKind

TOPIC = f"{FOLDER}/topic"
SIZE = message(0, 1000).size
EARLY = [StoredRecord(0, 0, producer=5, sequence=6), positions(0, 0, b'{"early": 3}')]
SMALL = {"log_bytes": 512 * 1024, "segment_bytes": 64 * 1024}


@cache
def made(is_saved):
    """The content of a disk with 200 messages, in 4 segments; perhaps with checkpoints, one of them
    of all.
    """
    disk, log = written([], topic(**SMALL))
    log.write(EARLY)
    for base in range(0, 200, 2):
        log.write([message(base, 1000), message(base + 1, 1000)])
        if is_saved and base == 150:
            log.save()
    log.write([positions(200, 200, b'{"late": 4}')])
    if is_saved:
        log.save()
    assert [it.base for it in log.segments] == [0, 58, 116, 174]
    return dict(disk.content)


def log_of(*, is_saved=False):
    return SimDisk(made(is_saved))


def repaired(disk):
    """Repairs the log. Returns what was found, and what a start finds then."""
    checked = check_folder(disk, FOLDER)
    repair(disk, checked)
    assert checked.hopeless == []
    again = check_folder(disk, FOLDER)
    assert (again.problems, again.hopeless) == ([], [])
    content = all_of(disk)
    repair(disk, again)
    assert all_of(disk) == content
    found = recover(disk, FOLDER)
    assert found.damage == ""
    assert (
        again.messages + lost_of(found, found.segments[0].base)
        == found.state.end - found.segments[0].base
    )
    return checked, found


def all_of(disk):
    """Everything in the log's folder."""
    return {
        name: disk.read(f"{FOLDER}/{name}", 0, size) for name, size in disk.files(FOLDER).items()
    }


def lost_of(found, head=0):
    return sum(to - base for base, to in found.topic.lost if base >= head)


def readable(disk, found):
    """The offsets that can be read."""
    offsets = set()
    for offset in range(found.segments[0].base, found.state.end):
        try:
            chunk = read_chunk(disk, found.segments, offset)
        except DamagedLog:
            continue
        assert chunk[0].base == offset
        assert chunk[0].batch.payloads()[0].rstrip(b".") == b"%d" % offset
        offsets.add(offset)
    return offsets


def lost_offsets(found):
    return {offset for base, to in found.topic.lost for offset in range(base, to)}


def goes_on(disk, found):
    """The log takes messages, and they are there after a restart."""
    end, lost = found.state.end, found.topic.lost
    log = writer(disk, found.topic, found)
    log.write([message(end, 10, at_us=1000)])
    log.write([message(end + 1, 10, at_us=1000)])
    log.save()
    again, records = start(disk.copy())
    assert (again.damage, again.state.end, again.topic.lost) == ("", end + 2, lost)
    assert [it.base for it in records if it.kind == RecordKind.MESSAGES][-2:] == [end, end + 1]


def flip(disk, path, at):
    disk.content[path] = changed(disk.content[path], at)


@pytest.mark.parametrize("is_saved", [False, True], ids=["no checkpoint", "saved"])
@pytest.mark.parametrize("at", [3, 30, HEADER.size + 20])
@pytest.mark.parametrize(("base", "record"), [(0, 10), (58, 0), (58, 57), (116, 30), (174, 3)])
def test_a_record_that_is_damaged_is_lost_and_no_other(base, record, at, is_saved):
    disk = log_of(is_saved=is_saved)
    before, lost = disk.content[path_of(base)], base + record
    beginning = HEAD_SIZE + record * SIZE + (base == 0) * sum(it.size for it in EARLY)
    flip(disk, path_of(base), beginning + at)
    spoiled = disk.content[path_of(base)]
    checked, found = repaired(disk)
    assert checked.problems == [
        (
            f"{path_of(base)}: bytes {beginning} to {beginning + SIZE} are damaged; offsets {lost} "
            "to "
            f"{lost}"
        )
    ]
    assert found.topic.lost == ((lost, lost + 1),)
    assert readable(disk, found) == set(range(200)) - {lost}
    assert found.state.positions == {"early": 3, "late": 4}
    assert found.state.producers[5].next == 7
    assert disk.content[f"{path_of(base)}.damaged"] == spoiled
    after = disk.content[path_of(base)]
    assert (
        after[:beginning] + before[beginning : beginning + SIZE] + after[beginning + SIZE :]
        == before
    )
    goes_on(disk, found)


def test_a_stretch_with_a_checkpoint_in_it_is_two_so_that_a_start_can_begin_there():
    disk = log_of(is_saved=True)
    data, begin = disk.content[path_of(116)], HEAD_SIZE + 34 * SIZE
    disk.content[path_of(116)] = data[:begin] + bytes(4 * SIZE) + data[begin + 4 * SIZE :]
    (newest,) = [path for path in disk.content if path.endswith(f"{200:020}.state")]
    flip(disk, newest, 50)
    _, found = repaired(disk)
    assert found.topic.lost == ((150, 154),)
    assert readable(disk, found) == set(range(200)) - {150, 151, 152, 153}
    assert found.state.positions == {"early": 3, "late": 4}
    assert f"{newest}.damaged" in disk.content


@pytest.mark.parametrize("is_saved", [False, True], ids=["no checkpoint", "saved"])
@pytest.mark.parametrize("base", [0, 58, 174])
@pytest.mark.parametrize("at", [0, 20, 100])
def test_a_head_is_made_again_and_no_message_is_lost(base, at, is_saved):
    disk = log_of(is_saved=is_saved)
    before = disk.content[path_of(base)]
    flip(disk, path_of(base), at)
    checked, found = repaired(disk)
    assert checked.problems == [f"{path_of(base)}: the head of the file is damaged"]
    assert disk.content[path_of(base)] == before
    assert (found.topic.lost, readable(disk, found)) == ((), set(range(200)))
    goes_on(disk, found)


def test_a_head_may_be_gone_of_a_file_that_has_taken_the_place_of_another():
    """Then there are checkpoints of both, and they tell two salts.

    It has too few records to decide alone, and the disk has put some of the other file behind them.
    """
    disk, log = written([], topic(**SMALL))
    other = b""
    for at_us in range(830):  # positions alone, which fill a file that goes on without messages
        other = max(other, disk.content.get(path_of(0), b""), key=len)
        log.write([positions(0, at_us)])
    for base in range(3):
        log.write([message(base, 10, at_us=900)])
    states = [
        read_checkpoint(data)[0] for path, data in disk.content.items() if path.endswith(".state")
    ]
    assert len({(told["segment"], told["salt"]) for told in states}) == 2
    data, size = disk.content[path_of(0)], positions(0, 0).size
    records = (len(data) - HEAD_SIZE) // size
    assert 5 < records < MOST_FOREIGN_RECORDS
    begin = HEAD_SIZE + (records + 1) * size
    strange = other[begin : begin + 3 * size]
    assert len(strange) == 3 * size
    disk.content[path_of(0)] = (bytes(HEAD_SIZE) + data[HEAD_SIZE:]).ljust(begin, b"\0") + strange
    checked, found = repaired(disk)
    assert checked.problems[0] == f"{path_of(0)}: the head of the file is damaged"
    assert (readable(disk, found), found.state.positions) == ({0, 1, 2}, {"reader": 1})


def test_a_head_and_the_first_record_may_be_gone():
    disk = log_of()
    data = disk.content[path_of(58)]
    disk.content[path_of(58)] = bytes(HEAD_SIZE + 100) + data[HEAD_SIZE + 100 :]
    _, found = repaired(disk)
    assert found.topic.lost == ((58, 59),)
    assert readable(disk, found) == set(range(200)) - {58}


@pytest.mark.parametrize("size", [0, 100, None], ids=["empty", "short", "zeros"])
@pytest.mark.parametrize("base", [0, 58, 116])
def test_of_a_file_without_anything_all_offsets_are_lost(base, size):
    disk = log_of(is_saved=True)
    disk.content[path_of(base)] = bytes(len(disk.content[path_of(base)]) if size is None else size)
    _, found = repaired(disk)
    end = {0: 58, 58: 116, 116: 174}[base]
    assert lost_offsets(found) == set(range(base, end))
    assert readable(disk, found) == set(range(200)) - lost_offsets(found)
    assert found.state.positions == {"early": 3, "late": 4}
    goes_on(disk, found)


def test_a_large_stretch_is_more_records_than_one_so_that_none_needs_much_memory():
    of = topic(segment_bytes=2**31, log_bytes=2**31)
    disk, _ = written([[message(base, 100_000)] for base in range(120)], of)
    data = disk.content[path_of(0)]
    disk.content = {
        path: data for path, data in disk.content.items() if not path.endswith(".state")
    }
    beginning, size = HEAD_SIZE + message(0, 100_000).size, 100 * message(50, 100_000).size
    disk.content[path_of(0)] = data[:beginning] + bytes(size) + data[beginning + size :]
    checked, found = repaired(disk)
    assert checked.damaged == [(1, 101)]
    assert readable(disk, found) == {0, *range(101, 120)}
    assert max(step.end - step.position for step in walk(disk, found.segments[0])) < 2 * AT_ONCE


def test_a_file_that_is_missing_leaves_a_gap():
    disk = log_of()
    del disk.content[path_of(58)]
    checked, found = repaired(disk)
    assert checked.problems == [f"{path_of(0)}: records are missing; offsets 58 to 115"]
    assert found.topic.lost == ((58, 116),)
    assert readable(disk, found) == set(range(200)) - set(range(58, 116))
    goes_on(disk, found)


def test_without_its_first_files_the_log_begins_later():
    disk = log_of()
    del disk.content[path_of(0)]
    _, found = repaired(disk)
    assert (found.topic.lost, found.segments[0].base) == ((), 58)
    assert readable(disk, found) == set(range(58, 200))


@pytest.mark.parametrize("left", [[0, 58], []], ids=["some", "none"])
def test_last_files_that_are_missing_are_made_again_if_a_checkpoint_tells_of_them(left):
    """Else offsets would be given again."""
    disk = log_of(is_saved=True)
    for base in {0, 58, 116, 174} - set(left):
        del disk.content[path_of(base)]
    _, found = repaired(disk)
    begin = 116 if left else found.segments[0].base
    assert found.state.end == 200
    assert lost_offsets(found) == set(range(begin, 200))
    assert readable(disk, found) == (set(range(116)) if left else set())
    assert found.state.positions == {"early": 3, "late": 4}
    goes_on(disk, found)


def test_a_torn_end_is_cut_off_and_no_loss():
    disk = log_of()
    size = len(disk.content[path_of(174)])
    disk.content[path_of(174)] = disk.content[path_of(174)][:-1]
    checked, found = repaired(disk)
    assert checked.problems == [
        f"{path_of(174)}: from position {size - 75} on, a torn end, which a start cuts off"
    ]
    assert (found.topic.lost, found.state.end, found.state.positions) == ((), 200, {"early": 3})
    goes_on(disk, found)


def test_an_end_that_a_checkpoint_proves_is_a_loss():
    disk = log_of(is_saved=True)
    disk.content[path_of(174)] = disk.content[path_of(174)][: HEAD_SIZE + 5 * SIZE + 10]
    _, found = repaired(disk)
    assert lost_offsets(found) == set(range(179, 200))
    assert found.state.positions == {"early": 3, "late": 4}
    goes_on(disk, found)


@pytest.mark.parametrize("size", [None, 0, 10])
def test_the_file_that_names_the_topic_is_made_again(size):
    disk = log_of()
    whole = disk.content.pop(TOPIC)
    if size is not None:
        disk.content[TOPIC] = whole[:size]
    checked, found = repaired(disk)
    assert checked.problems == [
        "topic is damaged or missing; the head of a segment has the same contents"
    ]
    assert (disk.content[TOPIC], found.topic) == (whole, topic(**SMALL))
    assert (f"{TOPIC}.damaged" in disk.content) == bool(size)


def test_what_is_lost_is_known_again_if_that_file_is_damaged_later():
    disk = log_of()
    flip(disk, path_of(58), HEAD_SIZE + 10)
    _, found = repaired(disk)
    flip(disk, TOPIC, 60)
    assert repaired(disk)[1].topic.lost == found.topic.lost == ((58, 59),)
    disk.content[TOPIC] = topic_file(topic(**SMALL))
    checked, found = repaired(disk)
    assert checked.problems == [
        "topic lists other offsets as lost than those that repairs have given up"
    ]
    assert found.topic.lost == ((58, 59),)


def test_what_is_there_again_is_not_lost_any_more():
    """Of a segment, a copy was found after the repair."""
    disk = log_of()
    whole = disk.content[path_of(58)]
    flip(disk, path_of(58), HEAD_SIZE + SIZE + 100)
    repaired(disk)
    disk.content[path_of(58)] = whole
    checked, found = repaired(disk)
    assert checked.problems == [
        "topic lists other offsets as lost than those that repairs have given up"
    ]
    assert (found.topic.lost, readable(disk, found)) == ((), set(range(200)))


def test_what_was_lost_before_the_log_begins_is_no_concern():
    disk = log_of()
    flip(disk, path_of(0), HEAD_SIZE + 10 * SIZE)
    repaired(disk)
    del disk.content[path_of(0)]
    assert check_folder(disk, FOLDER).problems == []


def test_a_second_damage_is_repaired_beside_the_first():
    disk = log_of()
    for record in (1, 7):
        flip(disk, path_of(58), HEAD_SIZE + record * SIZE + 100)
        _, found = repaired(disk)
    assert found.topic.lost == ((59, 60), (65, 66))
    assert {f"{path_of(58)}.damaged", f"{path_of(58)}.damaged.2"} <= disk.content.keys()


@pytest.mark.long
@pytest.mark.unmeasured  # what other tests do with a few of them
def test_any_number_of_records_may_be_lost_here_and_there():
    """Then the file that lists them is longer than what a log reads at once."""
    disk, log = written([[message(base, 0) for base in range(40_000)]], topic(segment_bytes=2**31))
    log.write([positions(40_000)])
    data, at = bytearray(disk.content[path_of(0)]), HEAD_SIZE
    for base in range(40_000):
        data[at + HEADER.size] ^= base & 1
        at += message(base, 0).size
    disk.content[path_of(0)] = bytes(data)
    _, found = repaired(disk)
    assert found.topic.lost == tuple((base, base + 1) for base in range(1, 40_000, 2))


def test_files_of_another_topic_are_set_aside():
    disk = log_of()
    strange = Segment(FOLDER, 300, 1, 0).head(topic("other"))
    disk.content[path_of(300)] = strange
    _, found = repaired(disk)
    assert (found.state.end, disk.content[f"{path_of(300)}.damaged"]) == (200, strange)


@pytest.mark.parametrize("of", [topic("other"), topic(epoch=6, **SMALL)], ids=["name", "epoch"])
def test_all_segments_are_not_set_aside_for_a_topic_file_of_another_topic(of):
    disk = log_of(is_saved=True)
    before = dict(disk.content)
    disk.content[TOPIC] = topic_file(of)
    foreign, checked = dict(disk.content), check_folder(disk, FOLDER)
    repair(disk, checked)
    assert checked.hopeless == [
        "topic names another topic than every segment. Remove it: the segments suffice"
    ]
    assert disk.content == foreign
    del disk.content[TOPIC]
    repaired(disk)
    assert disk.content == before


def test_what_nothing_tells_of_cannot_be_repaired():
    disk = log_of()
    disk.content = {path: bytes(len(data)) for path, data in disk.content.items()}
    before, checked = dict(disk.content), check_folder(disk, FOLDER)
    repair(disk, checked)
    assert checked.hopeless == ["neither topic nor a segment tells which topic it is"]
    assert disk.content == before


def test_files_that_overlap_cannot_be_repaired():
    disk = log_of()
    size = len(disk.content[path_of(58)])
    more = message(116, 10).pack(recover(log_of(), FOLDER).segments[1].salt, size)
    disk.content[path_of(58)] += more
    before, checked = dict(disk.content), check_folder(disk, FOLDER)
    repair(disk, checked)
    assert checked.hopeless == [
        f"{path_of(116)} begins at offset 116, but the one before ends at 117"
    ]
    assert disk.content == before


def test_a_reader_of_a_time_that_may_be_lost_begins_at_the_loss():
    disk = log_of()
    flip(disk, path_of(58), HEAD_SIZE + 10 * SIZE)
    _, found = repaired(disk)
    assert [first_since(disk, found.segments, time) for time in (67, 68, 69, 70)] == [
        67,
        68,
        68,
        70,
    ]


@pytest.mark.parametrize("is_saved", [False, True], ids=["no checkpoint", "saved"])
@pytest.mark.parametrize("bases", [[116], [174], [58, 116], [116, 174]])
def test_what_comes_before_a_file_without_anything_does_not_expire_with_it(bases, is_saved):
    """Nor is it passed over by a reader that wants what was accepted from a time on."""
    disk = log_of(is_saved=is_saved)
    for base in bases:
        disk.content[path_of(base)] = bytes(len(disk.content[path_of(base)]))
    _, found = repaired(disk)
    log, offsets = writer(disk, found.topic, found), readable(disk, found)
    for time in range(200):  # at which the message of that offset was accepted
        assert log.expired_until(time) <= min(
            (offset for offset in offsets if offset > time), default=200
        )
        since = first_since(disk, found.segments, time)
        assert since is None or since <= min(
            (offset for offset in offsets if offset >= time), default=200
        )
        if is_saved or 174 not in bases:  # else nothing tells until when the last were accepted
            assert since is not None or not [
                it for it in offsets | lost_offsets(found) if it >= time
            ]


def frames_from(store, broker, offset):
    """What a reader is sent from an offset on."""
    talk = Conversation(broker)
    frames = talk.ask(Subscribe(3, "orders", start=Start.OFFSET, value=offset, credit=1000))
    while store.work.has_reads:
        store.work.take_read()()()
        frames += talk.heard()
    return frames[1:]


def test_a_start_serves_everything_before_and_after_what_is_lost():
    disk = log_of()
    for record in (1, 2, 3):
        flip(disk, path_of(58), HEAD_SIZE + record * SIZE + 10)
    repaired(disk)
    store = Store(disk)
    broker = Broker(BrokerSettings(), ManualClock(store.clock_us), logs=store)
    restore(broker, store)
    frames = frames_from(store, broker, 0)
    assert [frame.base for frame in frames if isinstance(frame, Messages)] == [
        *range(59),
        *range(62, 200),
    ]
    assert [it for it in frames if not isinstance(it, Messages)] == [Lagged(3, 59, 62)]
    assert frames_from(store, broker, 60)[0] == Lagged(3, 60, 62)
    (page,) = Conversation(broker).ask(Describe(9, DescribeKind.TOPICS, "orders"))
    (told,) = json.loads(page.json)["topics"]
    assert (told["damaged"], told["resident"], set(told["left_over"].values())) == (3, 197, {0})
    topic = broker.registry.durable("orders")
    for head, damaged in ((59, 3), (60, 2), (62, 0), (70, 0)):
        topic.retained.on_head_moved(head)
        assert (topic.head, topic.retained.damaged, topic.retained.evicted) == (head, damaged, head)
    talk = Conversation(broker)
    talk.tell(Publish(4, "orders", Batch.of([(b"", b"new")])))
    store.work.take_write().gather()()()
    assert [(frame.first_offset, frame.stored) for frame in talk.heard()] == [(200, 1)]


def test_what_has_expired_may_end_where_something_is_lost():
    disk = log_of()
    disk.content[TOPIC] = topic_file(topic(**SMALL, retention_ttl_ms=1))
    for record in (1, 2, 3):
        flip(disk, path_of(58), HEAD_SIZE + record * SIZE + 10)
    repaired(disk)
    store = Store(disk)
    broker = Broker(
        BrokerSettings(), ManualClock(1058), logs=store
    )  # what was accepted up to 58 has expired
    restore(broker, store)
    frames = frames_from(store, broker, 50)
    assert [it for it in frames if not isinstance(it, Messages)] == [
        Lagged(3, 50, 58), Lagged(3, 58, 59), Lagged(3, 59, 62)
    ]  # fmt: skip
    assert [frame.base for frame in frames if isinstance(frame, Messages)] == [*range(62, 200)]


def test_without_room_nothing_is_changed_and_a_later_repair_does_it():
    disk = log_of()
    flip(disk, path_of(58), HEAD_SIZE + 10)
    spoiled = disk.content[path_of(58)]
    for call in range(6):
        disk.fault = failing(len(disk.calls) + call, full())
        try:
            repair(disk, check_folder(disk, FOLDER))
        except DiskFull:
            assert disk.content[path_of(58)] == spoiled
    disk.fault = lambda _: None
    assert repaired(disk)[1].topic.lost == ((58, 59),)


def spoil(disk, random):
    """Damages one file."""
    paths = sorted(disk.content)
    path = random.choice(paths)
    data = disk.content[path]
    match random.choice("ffffzzzrt"):
        case "f":
            flip(disk, path, random.randrange(len(data)))
        case "z":
            at = random.randrange(len(data))
            size = random.choice([100, 1000, 10_000])
            disk.content[path] = data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]
        case "r":
            del disk.content[path]
        case "t":
            disk.content[path] = data[: random.randrange(len(data))]


def survive(seed, *, is_saved):
    """Damages some files, and repairs them twice: at once, and after a power cut in the repair."""
    random, disk = Random(seed), log_of(is_saved=is_saved)
    for _ in range(random.choice([1, 1, 2, 4])):
        spoil(disk, random)
    checked = check_folder(disk, FOLDER)
    if checked.topic is None or not checked.parts:
        return
    before = dict(disk.content)
    could_read = {
        it.base
        for part in checked.parts
        if part.segment.path in before and not part.problem
        for it in messages(disk, part)
    }
    cut = disk.copy()
    cut.random, cut.fault = random, failing(random.randrange(12), Crash())
    with suppress(Crash):
        repair(cut, check_folder(cut, FOLDER))
    for each in (disk, cut.copy()):
        _, found = repaired(each)
        can_read, lost = readable(each, found), lost_offsets(found)
        assert can_read | lost == set(range(found.segments[0].base, found.state.end))
        assert not can_read & lost
        assert could_read <= can_read
        assert found.state.end == 200 or not read_checkpoint(before.get(path_of(200, "state"), b""))
        kept = {*each.content.values(), made(is_saved)[TOPIC], b""}
        torn = {part.segment.path for part in checked.parts if part.torn >= 0}
        assert not [path for path, data in before.items() if data not in kept and path not in torn]
        assert read_topic(each.content[TOPIC]) == found.topic
        goes_on(each, found)


def messages(disk, part):
    end = part.torn if part.torn >= 0 else part.segment.size
    return [
        it.record
        for it in walk(disk, part.segment)
        if it.record and it.record.count and it.end <= end
    ]


@pytest.mark.unmeasured  # chance brings nothing that other tests do not run on purpose
@pytest.mark.parametrize("is_saved", [False, True], ids=["no checkpoint", "saved"])
@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_damaged_each_offset_can_be_read_or_is_lost(seed, is_saved):
    """And nothing is deleted."""
    survive(seed, is_saved=is_saved)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(15, 600))
def test_whatever_is_damaged_many_times(seed):
    survive(seed, is_saved=bool(seed % 3))


@pytest.mark.usefixtures("patchable")
def test_a_sector_that_cannot_be_read_is_given_up(tmp_path, monkeypatch):
    """On a real disk, of which one file has a bad place; the new files lie elsewhere."""
    (tmp_path / FOLDER).mkdir(parents=True)
    for path, data in made(is_saved=False).items():
        (tmp_path / path).write_bytes(data)
    real, bad, at = os.pread, (tmp_path / path_of(58)).stat().st_ino, HEAD_SIZE + 3 * SIZE + 100

    def pread(file, size, begin):
        if os.fstat(file).st_ino == bad and begin <= at < begin + size:
            raise OSError(errno.EIO, "bad sector")
        return real(file, size, begin)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(OSError, match="bad sector"):
        recover(PosixDisk(tmp_path), FOLDER)
    repaired(PatientDisk(tmp_path, reserve=0))
    disk = PosixDisk(tmp_path)
    found = recover(disk, FOLDER)
    assert (found.damage, found.topic.lost) == ("", ((60, 62),)), (
        "the sector has the end of one and the begin of another"
    )
    assert readable(disk, found) == set(range(200)) - lost_offsets(found)


@pytest.mark.parametrize("is_saved", [False, True], ids=["no checkpoint", "saved"])
@pytest.mark.parametrize("begun", [b"", bytes(3000), bytes(HEAD_SIZE)], ids=len)
@pytest.mark.parametrize("missing", [(58,), (0, 58), (0, 58, 116), (116,), ()], ids=str)
def test_the_name_of_a_file_that_was_only_begun_is_the_end_of_the_log(missing, begun, is_saved):
    """No offset below is given again, and a second repair has nothing to do."""
    disk = log_of(is_saved=is_saved)
    disk.content[path_of(174)] = begun
    for base in missing:
        del disk.content[path_of(base)]
    for name in disk.files(FOLDER):
        if name > f"{174:020}" and name.endswith("state"):
            del disk.content[f"{FOLDER}/{name}"]
    _, found = repaired(disk)
    assert found.state.end == 174
    goes_on(disk, found)


def few():
    """The content of a disk with nine messages in three segments, and two checkpoints."""
    disk = SimDisk()
    for at in (0, 3, 6):
        found = recover(disk, FOLDER) if at else None
        log = writer(disk, topic(), found)
        for base in range(at, at + 3):
            log.write([message(base, 40)])
        log.save()
    assert [it.base for it in log.segments] == [0, 3, 6]
    return disk.content


def without_head(data):
    return bytes(100) + data[100:]


ENDS = {
    "whole": lambda data: data,
    "empty": lambda _: b"",
    "begun": lambda data: data[:3000],
    "without a head": without_head,
    "cut in a record": lambda data: data[:-10],
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("has_topic", [True, False], ids=["topic", "no topic"])
def test_a_second_repair_has_nothing_to_do_whichever_files_are_left(end, has_topic):
    """And no offset is given again that the name of a file, or a checkpoint, proves to be given."""
    content = few()
    logs = [path for path in content if path.endswith(".log")]
    others = [path for path in content if path.endswith(".state")]
    assert (len(logs), len(others)) == (3, 2)
    for chosen in range(2 ** (len(logs) + len(others))):
        left = [path for bit, path in enumerate(logs + others) if chosen >> bit & 1]
        disk = SimDisk({path: content[path] for path in left}, ("", "topics", FOLDER))
        if has_topic:
            disk.content[TOPIC] = content[TOPIC]
        own = [path for path in left if path in logs]
        if own:
            disk.content[own[-1]] = ENDS[end](content[own[-1]])
        given = [int(path[-24:-4]) for path in own]
        given += [read_checkpoint(content[path])[0]["end"] for path in left if path in others]
        repaired_once_for_all(disk, max(given, default=0), str(left))


def repaired_once_for_all(disk, given, which):
    """Repairs it, and looks at what a second repair would do."""
    before = all_of(disk)
    checked = check_folder(disk, FOLDER)
    is_hopeless = bool(checked.hopeless)
    repair(disk, checked)
    once = all_of(disk)
    again = check_folder(disk, FOLDER)
    repair(disk, again)
    assert all_of(disk) == once, which
    if is_hopeless:
        assert once == before, which
        return
    assert (checked.hopeless, again.hopeless, again.problems) == ([], [], []), which
    found = recover(disk, FOLDER)
    assert found.damage == "", which
    assert found.state.end >= given, which
    goes_on(disk, found)


SECTOR = 512


def forty():
    """A disk with forty messages, each in a group of its own, and a checkpoint in the middle; and
    where each message is.
    """
    disk, log = written([[positions(0)]])
    places = []
    for base in range(40):
        at = log.segments[0].size
        log.write([message(base, 120)])
        places.append((at, log.segments[0].size))
        if base == 20:
            log.save()
    return disk, places


@pytest.mark.parametrize("is_head_damaged", [False, True], ids=["head", "damaged head"])
@pytest.mark.parametrize("distance", [1, 2, 3, 5, 10])
def test_a_sector_in_the_place_of_another_is_damage_and_nothing_else_is(distance, is_head_damaged):
    """Its records are whole, and of this file; but they tell that their groups begin elsewhere."""
    whole, places = forty()
    data = whole.content[path_of(0)]
    ends = range(HEAD_SIZE, len(data) - SECTOR, SECTOR)
    pairs = [(to, to + step) for to in ends for step in (-distance * SECTOR, distance * SECTOR)]
    for to, origin in pairs:
        if origin not in ends:
            continue
        moved = data[:to] + data[origin : origin + SECTOR] + data[to + SECTOR :]
        disk = whole.copy()
        disk.content[path_of(0)] = moved
        if is_head_damaged:
            flip(disk, path_of(0), 20)
        undamaged = {base for base, (at, end) in enumerate(places) if moved[at:end] == data[at:end]}
        _, found = repaired(disk)
        assert readable(disk, found) == undamaged, f"{origin} at {to}"
        assert lost_offsets(found) == set(range(found.state.end)) - undamaged
        goes_on(disk, found)


@pytest.mark.parametrize("origin", [1, 5, 12])
def test_what_follows_a_sector_in_the_place_of_another_can_be_read(origin):
    """Before a repair, too: a reader that wants it passes over what is not in its place."""
    disk, places = forty()
    data = disk.content[path_of(0)]
    to, begin = HEAD_SIZE + 3 * SECTOR, HEAD_SIZE + origin * SECTOR
    moved = data[:to] + data[begin : begin + SECTOR] + data[to + SECTOR :]
    disk.content[path_of(0)] = moved
    found = recover(disk, FOLDER)
    undamaged = {base for base, (at, end) in enumerate(places) if moved[at:end] == data[at:end]}
    assert readable(disk, found) == undamaged


def test_what_contradicts_itself_is_left_as_it_is():
    """A checkpoint tells an offset that the records before it have passed."""
    disk = log_of(is_saved=True)
    (path,) = [path for path in disk.content if path.endswith(f"{152:020}.state")]
    told, keys = read_checkpoint(disk.content[path])
    told["end"] = 120
    disk.content[path] = seal(b"zaichik state 1\n", json.dumps(told).encode() + b"\n" + keys)
    begin = HEAD_SIZE + 34 * SIZE
    for record in range(3):
        flip(disk, path_of(116), begin + record * SIZE + 10)
    before = dict(disk.content)
    checked = check_folder(disk, FOLDER)
    repair(disk, checked)
    assert checked.hopeless == [
        f"{path_of(116)}: before position {begin}, offset 150 is reached, and 120 after it"
    ]
    assert disk.content == before


@pytest.mark.parametrize("base", [0, 58])
def test_nothing_is_written_before_all_is_computed(base):
    disk = log_of()
    flip(disk, path_of(base), HEAD_SIZE + 10)
    flip(disk, path_of(116), HEAD_SIZE + 10)
    checked = check_folder(disk, FOLDER)
    last = checked.parts[2].stretches
    last[0] = last[0]._replace(accepted_us=2**63)
    before = dict(disk.content)
    with pytest.raises(Exception, match="argument out of range"):
        repair(disk, checked)
    assert disk.content == before
