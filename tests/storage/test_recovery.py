"""A start: everything that was acknowledged is there, what is torn is cut off, and damage is
neither.
"""

import json
from functools import cache
from random import Random

import pytest
from made import (
    FOLDER,
    KIB,
    changed,
    found_records,
    groups,
    message,
    path_of,
    positions,
    start,
    topic,
    writer,
    written,
)  # fmt: skip
from sim_disk import SECTOR, SimDisk

from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.recovery import new_state, read_topic, recover, topic_file
from zaichik.storage.repair.checking import check
from zaichik.storage.repair.repairing import repair
from zaichik.storage.segment import HEAD_SIZE, NewerFormat, Segment, seal, unseal

LOG = path_of(0)
TOPIC = f"{FOLDER}/topic"


@cache
def two_hundred():
    """Groups of 200 records, the bytes of their segment, and where each group and record ends."""
    parts = groups(200)
    disk, log = written(parts, topic(segment_bytes=2**31))
    ends, at = [], HEAD_SIZE
    ends += [[at := at + record.size for record in group] for group in parts]
    assert log.segments[0].size == ends[-1][-1] == len(disk.content[LOG])
    return parts, dict(disk.content), ends


def with_log(data, **others):
    """A disk with the 200 records, of which the segment holds this instead."""
    return SimDisk({**two_hundred()[1], LOG: data, **others})


def flat(parts):
    return [record for group in parts for record in group]


def test_a_log_that_is_whole_is_found_so_and_not_changed():
    parts, content, _ = two_hundred()
    disk = SimDisk(content)
    found, records = start(disk)
    assert (found.damage, found.torn, found.topic, found.state.end) == (
        "",
        0,
        topic(segment_bytes=2**31),
        200,
    )
    assert records == flat(parts)
    assert disk.content == content


def prefixes(sizes):
    parts, content, ends = two_hundred()
    records, whole = flat(parts), [HEAD_SIZE, *flat(ends)]
    for size in sizes:
        disk = with_log(content[LOG][:size])
        found, kept = start(disk)
        count = sum(end <= size for end in whole) - 1
        assert (found.damage, kept) == ("", records[:count]), f"{size} bytes"
        assert found.torn == size - whole[count]
        assert len(disk.content[LOG]) == whole[count]


@pytest.mark.unmeasured  # hundreds of times what the other tests run
def test_every_prefix_is_exactly_its_whole_records():
    _, content, ends = two_hundred()
    size = len(content[LOG])
    edges = {end + by for end in flat(ends) for by in (-1, 0, 1, 63, 64, 65)}
    prefixes(
        sorted(
            {
                HEAD_SIZE,
                *range(HEAD_SIZE, size, 307),
                *(edge for edge in edges if HEAD_SIZE <= edge <= size),
            }
        )
    )


@pytest.mark.soak
def test_every_prefix_is_exactly_its_whole_records_to_the_last_byte():
    _, content, _ = two_hundred()
    prefixes(range(HEAD_SIZE, len(content[LOG]) + 1))


@pytest.mark.parametrize("size", [0, 1, 511, HEAD_SIZE - 1])
def test_a_segment_that_has_only_a_part_of_its_head_was_never_used_and_goes(size):
    _, content, _ = two_hundred()
    disk = with_log(
        content[LOG], **{path_of(200): Segment(FOLDER, 200, 5, 200).head(topic())[:size]}
    )
    found, records = start(disk)
    assert (found.damage, len(records), len(found.segments)) == ("", 200, 1)
    assert path_of(200) not in disk.content


def test_a_prefix_is_damage_if_a_checkpoint_proves_more():
    parts, _, ends = two_hundred()
    disk, log = written(parts, topic(segment_bytes=2**31))
    log.save()
    disk.content[LOG] = disk.content[LOG][: ends[-1][-1] - 1]
    before = dict(disk.content)
    found, records = start(disk)
    assert "a checkpoint was made after it was written" in found.damage
    assert records == flat(parts)[:-1]
    assert disk.content == before


def flips(places):
    parts, content, ends = two_hundred()
    records, begin = flat(parts), ends[-2][-1]
    for at in places:
        mask = Random(at).randint(1, 255)
        found, kept = start(
            with_log(changed(content[LOG], at, lambda byte, mask=mask: byte ^ mask))
        )
        first = sum(end <= at for end in flat(ends))
        assert kept == records[:first], f"byte {at}"
        assert bool(found.damage) == (at < begin), f"byte {at}"
        assert bool(found.torn) == (at >= begin), f"byte {at}"


@pytest.mark.unmeasured  # hundreds of times what the other tests run
def test_a_flipped_byte_is_damage_and_in_the_last_group_torn_and_never_delivered():
    _, content, ends = two_hundred()
    size, random = len(content[LOG]), Random(1)
    flips(
        [
            HEAD_SIZE,
            *sorted(random.sample(range(HEAD_SIZE, size), 150)),
            *range(ends[-2][-1] - 3, size),
        ]
    )


@pytest.mark.soak
def test_every_flipped_byte():
    flips(range(HEAD_SIZE, len(two_hundred()[1][LOG])))


def test_a_flipped_byte_under_a_checkpoint_is_damage_wherever_it_is():
    """It is found by a start that has to read it: one whose checkpoint is older.

    The newest tells how far it was.
    """
    parts, _, ends = two_hundred()
    disk, log = written(parts[:-1], topic(segment_bytes=2**31))
    log.save()
    log.write(parts[-1])
    log.save()
    content, names = disk.content, [path for path in disk.content if path.endswith(".state")]
    assert len(names) == 2
    for at in range(ends[-2][-1], ends[-1][-1]):
        spoiled = SimDisk({**content, LOG: changed(content[LOG], at)})
        spoiled.content[LOG] = spoiled.content[LOG][:-1] if at % 2 else spoiled.content[LOG]
        found = recover(spoiled, FOLDER)
        if at % 2:
            assert "a checkpoint was made" in found.damage
        else:
            assert (found.damage, found.state.end) == ("", 200)  # not read: who reads it is told


def test_a_flipped_byte_in_the_only_head_leaves_nothing_to_read_and_nothing_changed():
    _, content, _ = two_hundred()
    for at in (0, 17, 30, 100):
        disk = with_log(changed(content[LOG], at))
        before = dict(disk.content)
        found, records = start(disk)
        assert (found.topic is not None, records) == (True, [])
        assert "the head of the file is damaged" in found.damage
        assert disk.content == before


@pytest.mark.parametrize("seed", range(150))
def test_of_a_group_that_was_never_synced_any_sectors_may_be_lost(seed):
    parts, content, ends = two_hundred()
    random, begin = Random(seed), ends[-2][-1]
    data = bytearray(
        content[LOG][: random.choice([len(content[LOG]), random.randint(begin, len(content[LOG]))])]
    )
    for at in range(begin // SECTOR * SECTOR, len(data), SECTOR):
        if random.random() < 0.5:
            lost = range(max(at, begin), min(at + SECTOR, len(data)))
            data[lost.start : lost.stop] = (
                bytes(len(lost)) if random.random() < 0.7 else random.randbytes(len(lost))
            )
    found, records = start(with_log(bytes(data)))
    assert found.damage == ""
    acknowledged = flat(parts[:-1])
    assert records[: len(acknowledged)] == acknowledged
    assert records == flat(parts)[: len(records)]


def test_the_disk_is_asked_before_it_is_believed():
    """After a sync that failed the system has in memory what the disk has not."""
    parts, content, ends = two_hundred()
    disk = with_log(content[LOG][: ends[-2][-1]])
    disk._cache[LOG] = content[LOG]
    found, records = start(disk)
    assert (found.damage, records) == ("", flat(parts[:-1]))
    assert disk.dropped == [LOG]


def test_the_disk_is_asked_of_each_file_that_is_read():
    """Not only of the last one: a sync may fail, and a newer file have been begun before."""
    disk, log = written(groups(200), topic(segment_bytes=8 * KIB))
    first, *_ = paths = [segment.path for segment in log.segments]
    assert len(paths) > 2
    whole = disk.content[first]
    disk.content[first] = changed(whole, len(whole) - 1)
    disk._cache[first] = whole
    found, _ = start(disk)
    assert found.damage.startswith(first)
    assert first in disk.dropped


def test_the_disk_is_asked_before_a_head_is_believed():
    """Else the log would go on in a file that has none."""
    parts, content, _ = two_hundred()
    head = Segment(FOLDER, 200, 5, 200).head(topic(segment_bytes=2**31))
    disk = with_log(content[LOG], **{path_of(200): bytes(HEAD_SIZE)})
    disk._cache |= {path_of(200): head}
    found, records = start(disk)
    assert (found.damage, records) == ("", flat(parts))
    assert path_of(200) not in disk.content


@pytest.mark.parametrize(
    "begun", [b"", b"zaichik", bytes(HEAD_SIZE)], ids=["empty", "short", "zeros"]
)
def test_a_file_that_was_only_begun_proves_what_comes_before_it(begun):
    """DUR-7: a file is begun after all before was synced. Else its offsets would be given again."""
    parts, content, ends = two_hundred()
    for size in (ends[-1][-1] - 1, ends[-2][-1], HEAD_SIZE):
        disk = with_log(content[LOG][:size], **{path_of(200): begun})
        before = dict(disk.content)
        found, records = start(disk)
        assert found.damage
        assert records == flat(parts)[: len(records)]
        assert disk.content == before, "nothing is cut off or removed"


def test_a_file_that_was_only_begun_is_alone():
    """If nothing else is there, it says which offsets were given."""
    _, content, _ = two_hundred()
    disk = SimDisk({TOPIC: content[TOPIC], path_of(200): bytes(HEAD_SIZE)})
    found, _ = start(disk)
    assert found.damage == (f"{path_of(200)}: begins at offset 200, but the one before ends at 0")
    assert path_of(200) in disk.content


def test_the_first_file_was_only_begun():
    _, content, _ = two_hundred()
    disk = SimDisk({TOPIC: content[TOPIC], path_of(0): bytes(100)})
    found, records = start(disk)
    assert (found.damage, found.state.end, records) == ("", 0, [])
    assert path_of(0) not in disk.content


def test_files_below_the_recorded_head_are_removed_and_not_believed():
    """Removals come back after a power cut in any order; a log has no gaps."""
    _, disk, log = several()
    before = dict(disk.content)
    gone = [segment.base for segment in log.segments[:3]]
    log.drop_below(log.segments[3].base)
    log.write([message(400)])
    log.save()
    now = dict(disk.content)
    for back in ([0], [1], [2], [0, 2], [0, 1, 2]):
        again = SimDisk(now | {path_of(gone[it]): before[path_of(gone[it])] for it in back})
        (checked,) = check(again)
        assert (checked.problems, checked.hopeless) == ([], [])
        found, records = start(again)
        assert (found.damage, found.segments[0].base) == ("", log.head)
        assert records[0].base == log.head
        assert again.content == now


def test_a_damaged_log_keeps_files_below_its_recorded_head():
    """Nothing is removed from what has to be repaired."""
    _, disk, log = several()
    before = dict(disk.content)
    log.drop_below(log.segments[3].base)
    log.save()
    kept = {path_of(0): before[path_of(0)]}
    again = SimDisk(disk.content | kept | {log.segments[1].path: b"damaged"})
    assert start(again)[0].damage
    assert kept.items() <= again.content.items()


# -- several segments ------------------------------------------------------------------------------


def several(of=None):
    """A log of 5 segments and more, of records of 1 KiB in pairs; no checkpoint."""
    parts = [[message(base, 1000), message(base + 1, 1000)] for base in range(0, 400, 2)]
    disk, log = written(parts, of)
    assert len(log.segments) > 5
    return parts, disk, log


def test_several_segments_are_one_log():
    parts, disk, log = several()
    found, records = start(disk)
    assert (found.damage, records) == ("", flat(parts))
    assert [it.path for it in found.segments] == [it.path for it in log.segments]


def test_a_bad_byte_before_the_last_segment_is_damage_and_all_before_it_can_be_read():
    parts, disk, log = several()
    third = log.segments[2]
    disk.content[third.path] = changed(disk.content[third.path], third.size - 1)
    found, records = start(disk)
    assert "another segment follows" in found.damage
    assert records == flat(parts)[: log.segments[3].base - 1]
    assert found.state.end == len(records)
    assert len(found.segments) == 3


@pytest.mark.parametrize("size", [0, 100, HEAD_SIZE, None])
def test_a_head_in_the_middle_that_is_damaged_leaves_what_is_before_it(size):
    parts, disk, log = several()
    third = log.segments[2]
    data = disk.content[third.path]
    disk.content[third.path] = changed(data, 20) if size is None else changed(data, 20)[:size]
    before = dict(disk.content)
    found, records = start(disk)
    assert "the head of the file is damaged" in found.damage
    assert records == flat(parts)[: third.base]
    assert found.state.end == third.base
    assert disk.content == before


def test_a_torn_end_before_a_head_that_is_damaged_is_not_cut_off():
    _, disk, log = several()
    second, third = log.segments[1], log.segments[2]
    for path in list(disk.content):
        if path > third.path and path.endswith(".log"):
            del disk.content[path]
    disk.content[third.path] = changed(disk.content[third.path], 20)
    disk.content[second.path] = disk.content[second.path][:-1]
    before = dict(disk.content)
    assert recover(disk, FOLDER).damage
    assert disk.content == before


def test_a_segment_that_is_missing_is_damage():
    parts, disk, log = several()
    third = log.segments[2]
    del disk.content[third.path]
    found, records = start(disk)
    assert (
        f"begins at offset {log.segments[3].base}, but the one before ends at {third.base}"
        in found.damage
    )
    assert records == flat(parts)[: third.base]


@pytest.mark.parametrize("left", [0, 1])
def test_a_last_segment_that_is_missing_is_damage_if_a_checkpoint_tells_of_it(left):
    _, disk, log = several()
    log.save()
    for segment in log.segments[left:]:
        del disk.content[segment.path]
    assert "checkpoint" in recover(disk, FOLDER).damage


def test_bytes_of_another_segment_never_pass():
    """Two topics with the same records, in files of the same size: only the salt differs."""
    parts = groups(50)
    (one, _), (other, _) = written(parts), written(parts)
    cut = HEAD_SIZE + sum(record.size for record in flat(parts[:-2]))
    one.content[LOG] = one.content[LOG][:cut] + other.content[LOG][cut:]
    found, records = start(one)
    assert (found.damage, records) == ("", flat(parts[:-2]))


def test_a_segment_of_another_topic_is_damage():
    parts, disk, _ = several()
    strange = Segment(FOLDER, 400, 1, 0).head(topic("other"))
    disk.content[path_of(400)] = strange
    found, records = start(disk)
    assert f"{path_of(400)}: the head of the file is damaged" in found.damage
    assert records == flat(parts)
    assert disk.content[path_of(400)] == strange


# -- caches ----------------------------------------------------------------------------------------


def facts(found):
    state = found.state
    return (
        found.damage,
        found.torn,
        found.topic,
        [it.path for it in found.segments],
        state.end,
        state.accepted_us,
        state.published,
        state.compacted,
        [*state.positions.items()],
        [*state.producers],
    )


def spoiled(data):
    yield "gone", None
    yield "empty", b""
    yield "short", data[:-1]
    yield "flipped", changed(data, len(data) // 2)
    yield "zeros", bytes(len(data))


def test_checkpoints_are_caches():
    """Missing, short, flipped, of another topic, or old: a start finds the same."""
    _, disk, log = several()
    log.write([positions(400, 400)])
    log.save()
    log.write([message(400, producer=9, sequence=3)])
    log.close()
    expected = facts(recover(disk.copy(), FOLDER))
    assert expected[0] == ""
    assert expected[8:] == ([("reader", 1)], [9])
    caches = sorted(path for path in disk.content if path.endswith(".state"))
    assert len(caches) == 2
    _, strange, other = several(topic("other", epoch=8))
    other.write([message(400)])
    other.close()
    for path in caches:
        kinds = dict(spoiled(disk.content[path]))
        kinds["foreign"] = next(
            data for name, data in sorted(strange.content.items()) if name[-6:] == path[-6:]
        )
        for kind, data in kinds.items():
            changed_disk = disk.copy()
            changed_disk.content.pop(path)
            if data is not None:
                changed_disk.content[path] = data
            assert facts(recover(changed_disk, FOLDER)) == expected, (path, kind)


def test_a_checkpoint_of_another_topic_proves_nothing():
    _, content, _ = two_hundred()
    _, strange, other = several(topic(epoch=8))
    other.save()
    found = recover(
        with_log(content[LOG], **{path_of(400, "state"): strange.content[path_of(400, "state")]}),
        FOLDER,
    )
    assert (found.damage, found.state.end) == ("", 200)


def test_without_any_checkpoint_the_records_tell_everything():
    _, disk, log = several()
    log.write([positions(400, 400)])
    log.close()
    for path in [path for path in disk.content if path.endswith(".state")]:
        del disk.content[path]
    found = recover(disk, FOLDER)
    assert (found.damage, found.state.end, found.state.positions) == ("", 400, {"reader": 1})
    assert (found.saved, found.unsaved > 400_000) == (-1, True)


def test_if_the_beginning_and_all_checkpoints_are_gone_offsets_go_on_and_it_is_told(caplog):
    parts, disk, log = several()
    del disk.content[log.segments[0].path]
    found, records = start(disk)
    assert (found.damage, records, found.state.end) == (
        "",
        flat(parts)[log.segments[1].base :],
        400,
    )
    assert f"what came before offset {log.segments[1].base} is unknown" in caplog.text


def test_a_checkpoint_that_stands_in_a_removed_segment_is_no_proof_and_no_help():
    parts, disk, log = several()
    disk, log = written(parts[:10])
    log.save()
    for group in parts[10:]:
        log.write(group)
    for segment in log.segments[:2]:
        del disk.content[segment.path]
    found, records = start(disk)
    assert (found.damage, records) == ("", flat(parts)[log.segments[2].base :])


# -- topic.json, and what else may lie there -------------------------------------------------------


def test_a_topic_is_taken_from_the_segment_if_its_file_is_broken():
    _, content, _ = two_hundred()
    whole = content[TOPIC]
    assert read_topic(whole) == topic(segment_bytes=2**31)
    for _, data in spoiled(whole):
        disk = with_log(content[LOG])
        disk.content.pop(TOPIC)
        if data is not None:
            disk.content[TOPIC] = data
        found = recover(disk, FOLDER)
        assert (found.topic, found.damage, found.state.end) == (topic(segment_bytes=2**31), "", 200)


def test_no_changed_byte_makes_another_topic():
    data = topic_file(topic())
    found = [read_topic(changed(data, at)) for at in range(len(data))]
    assert set(map(repr, found)) <= {repr(None), repr(topic())}
    assert not [size for size in range(len(data) - 1) if read_topic(data[:size])]


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"zaichik topic 1\n", b"zaichik topic 1\n00000000", b"\xff\xfe"]
)
def test_what_is_no_topic_file_is_none(data):
    assert read_topic(data) is None


def test_a_topic_file_may_be_long():
    """A repair may have given up any number of offsets, here and there."""
    lost = tuple((at, at + 1) for at in range(0, 60_000, 2))
    disk = SimDisk({f"{FOLDER}/topic": topic_file(topic()._replace(lost=lost))})
    assert recover(disk, FOLDER).topic.lost == lost


def test_a_topic_file_without_a_segment_is_a_new_topic():
    disk = SimDisk({TOPIC: topic_file(topic())})
    found = recover(disk, FOLDER)
    assert (found.topic, found.damage, found.state.end, found.segments, found.is_kept) == (
        topic(),
        "",
        0,
        [],
        True,
    )


def test_a_folder_that_says_nothing_is_damaged():
    found = recover(SimDisk({f"{FOLDER}/notes": b"x"}), FOLDER)
    assert found.topic is None
    assert found.damage == "neither topic nor a segment tells which topic it is"


def newer(data):
    """A topic file that a later version has written."""
    mark = b"zaichik topic 1\n"
    return seal(
        mark,
        json.dumps({**json.loads(unseal(mark, data)), "format": 3, "new": "something"}).encode(),
    )


def test_a_newer_format_is_refused_and_nothing_touched():
    _, content, _ = two_hundred()
    disk = with_log(content[LOG][:-1], **{TOPIC: newer(content[TOPIC])})
    before = dict(disk.content)
    with pytest.raises(
        NewerFormat, match="the log of 'orders' has format 3, and this zaichik knows 2"
    ):
        recover(disk, FOLDER)
    assert (disk.content, disk.calls) == (before, [("sync_names", FOLDER), ("drop_cache", LOG)])


def test_files_that_are_not_ours_are_not_touched():
    _, content, _ = two_hundred()
    strange = {
        f"{FOLDER}/{name}": b"mine"
        for name in ("notes.log", "x.state", ".keep", "1.index", "0" * 20 + ".logs")
    }
    disk = with_log(content[LOG], **strange)
    found = recover(disk, FOLDER)
    assert (found.damage, found.state.end) == ("", 200)
    assert strange.items() <= disk.content.items()


def test_what_a_crash_has_left_is_removed():
    """Files that were not finished."""
    _, content, _ = two_hundred()
    left = [f"{FOLDER}/.topic", f"{FOLDER}/.{0:020}.log", f"{FOLDER}/.{9:020}.state"]
    disk = with_log(content[LOG], **dict.fromkeys(left, b"half"))
    recover(disk, FOLDER)
    assert disk.content == content


def test_a_start_after_a_start_finds_the_same():
    parts, content, _ = two_hundred()
    disk = with_log(content[LOG][:-5])
    first = facts(recover(disk, FOLDER))
    again, records = start(disk)
    assert (again.torn, facts(again)[2:]) == (0, first[2:])
    assert records == flat(parts)[:-1]


def test_after_a_torn_end_was_cut_off_the_log_goes_on_behind_it():
    parts, content, _ = two_hundred()
    disk = with_log(content[LOG][:-5])
    found = recover(disk, FOLDER)
    log = writer(disk, found.topic, found)
    more = [message(199, 300, at_us=1000), message(200, at_us=1000)]
    log.write(more)
    again, records = start(disk)
    assert (again.damage, records) == ("", [*flat(parts)[:-1], *more])
    assert len(again.segments) == 2


def test_a_first_group_that_was_torn_leaves_an_empty_segment_that_goes_on():
    disk, _ = written([[message(0)]])
    disk.content[LOG] = disk.content[LOG][:-1]
    for _ in range(2):
        found = recover(disk, FOLDER)
        assert (found.damage, found.state.end, found_records(disk, found)) == ("", 0, [])
    writer(disk, found.topic, found).write([message(0, 30)])
    assert start(disk)[1] == [message(0, 30)]


def test_a_new_state_has_a_window_only_with_compaction():
    assert new_state(topic()).window is None
    assert new_state(topic(compaction_window_ms=1)).window is not None


DEEP = b"[" * 50_000


def sealed_like(data, change):
    """The data of a sealed file, whose JSON object was changed by somebody who can seal it."""
    mark = data[: data.index(b"\n") + 1]
    told = unseal(mark, data.rstrip(b"\0"))
    line, end, rest = told.partition(b"\n")
    return seal(mark, change(line) + end + rest)


def with_value(name, value):
    """Changes one value of a JSON object."""
    return lambda line: json.dumps({**json.loads(line), name: value}).encode()


CHANGES = {
    "too deep": lambda _: DEEP,
    "deep inside": with_value("name", json.loads("[" * 500 + "]" * 500)),
    "a list": lambda _: b"[]",
    "digits": lambda _: b'{"epoch": ' + b"9" * 5000 + b"}",
    "no format": with_value("format", None),
    "a name that is none": with_value("name", "\ud800"),
    "an epoch below 0": with_value("epoch", -1),
    "settings of none": with_value("settings", {}),
    "settings that are text": with_value("settings", {**topic().settings, "max_keys": "many"}),
    "settings of others": with_value("settings", {**topic().settings, "colour": 1}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_no_broker_writes_is_damage_although_its_checksum_is_right(change):
    """In `topic` the head of a segment serves; in that, nothing does."""
    of_topic = written([[message(0)]])[0]
    path = f"{FOLDER}/topic"
    of_topic.content[path] = sealed_like(of_topic.content[path], CHANGES[change])
    assert start(of_topic)[0].topic == topic()
    disk = written([[message(0)]])[0]
    head = sealed_like(disk.content[path_of(0)][:HEAD_SIZE], CHANGES[change])[:HEAD_SIZE]
    disk.content[path_of(0)] = head.ljust(HEAD_SIZE, b"\0") + disk.content[path_of(0)][HEAD_SIZE:]
    found, _ = start(disk)
    assert found.damage == f"{path_of(0)}: the head of the file is damaged"


def test_a_setting_that_was_given_as_true_or_a_float_is_one():
    """`zaichik serve --durable` gives the first so, and programs may give the other."""
    of = topic(durable=True, retention_ttl_ms=5e3)
    disk, _ = written([[message(0)]], of)
    assert b'"durable": true' in disk.content[f"{FOLDER}/topic"]
    found, records = start(disk)
    assert (found.damage, found.topic, len(records)) == ("", of, 1)


OF_CHECKPOINT = {
    **{name: CHANGES[name] for name in ("too deep", "a list", "digits", "an epoch below 0")},
    "a position that is text": with_value("position", "4096"),
    "positions that are a list": with_value("positions", []),
    "a position of a name that is none": with_value("positions", {"a": 1.5}),
    "producers without end": with_value("producers", [[1, 2]]),
    "an answer that is none": with_value("producers", [[1, 2, 3, [[1]]]]),
    "a refusal of no code": with_value("producers", [[1, 2, 3, [[9999, "a", "b"]]]]),
    "windows that are not there": with_value("windows", 5),
}


@pytest.mark.parametrize("change", OF_CHECKPOINT)
def test_a_checkpoint_that_no_broker_writes_is_not_needed(change):
    disk, log = written([[message(0)], [message(1)]])
    log.save()
    (path,) = [path for path in disk.content if path.endswith(".state")]
    disk.content[path] = sealed_like(disk.content[path], OF_CHECKPOINT[change])
    found, _ = start(disk)
    assert (found.damage, found.state.end, found.saved) == ("", 2, -1)


def names_with(rows):
    """The body of a record of shared names, with these rows of one."""
    numbers = b"[0, 4, 1, 0, 0, 0, 5, 0]"
    return b'{"ticket": 1, "names": {"n": {"numbers": %b, "rows": %b}}}' % (numbers, rows)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (RecordKind.POSITIONS, DEEP),
        (RecordKind.POSITIONS, b"[]"),
        (RecordKind.POSITIONS, b'{"a": "1"}'),
        (RecordKind.REFUSED, DEEP),
        (RecordKind.REFUSED, b"{}"),
        (RecordKind.REFUSED, b'[9999, "why", "field"]'),
        (RecordKind.NAMES, b"[]"),
        (RecordKind.NAMES, b'{"ticket": -1, "names": {}}'),
        (RecordKind.NAMES, b'{"ticket": 1, "names": {"n": {}}}'),
        (RecordKind.NAMES, b'{"ticket": 1, "names": {"n": {"numbers": [1], "rows": {}}}}'),
        (RecordKind.NAMES, names_with(b'{"01": null}')),
        (RecordKind.NAMES, names_with(b'{"1": [9, 1, 0, 0, 0, 1, 0, 0, ""]}')),
        (RecordKind.NAMES, names_with(b'{"1": [0, 1, 0, 0, 0, 1, 0, 0, "k"]}')),
        (RecordKind.NAMES, names_with(b'{"1": [1, 1, "", 5]}')),
        (RecordKind.NAMES, names_with(b'{"1": [1]}')),
    ],
    ids=range(15),
)
def test_a_record_that_says_what_its_kind_cannot_say_is_damaged(kind, body):
    """A start finds it, and a repair gives it up, and nothing else."""
    disk, log = written([[message(0)]])
    salt = log.segments[0].salt
    for record in (StoredRecord(1, 1, 0, body, kind, 5), message(1), message(2)):
        data = disk.content[path_of(0)]
        disk.content[path_of(0)] = data + record.pack(salt, len(data))
    found, _ = start(disk.copy())
    assert found.state.end == 1
    assert "records that were written later follow" in found.damage
    (checked,) = check(disk)
    repair(disk, checked)
    assert start(disk)[0].damage == ""
    assert start(disk)[0].state.end == 3
