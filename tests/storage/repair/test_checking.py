"""A check: everything is counted, everything that is wrong is told, and nothing is changed."""

import errno

import pytest
from made import FOLDER, changed, message, path_of, positions, topic, written
from sim_disk import SimDisk

from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.repair.checking import check, check_folder
from zaichik.storage.segment import HEAD_SIZE, NewerFormat, seal

SIZE = message(0, 100).size


def ten(*, is_saved=False):
    """A disk with ten messages in two groups, and positions between them."""
    disk, log = written([[message(base, 100) for base in range(5)], [positions(5)]])
    log.write([message(base, 100) for base in range(5, 10)])
    if is_saved:
        log.save()
    return disk


SECOND = HEAD_SIZE + 5 * SIZE + positions(5).size


def test_what_is_whole_is_counted():
    disk = ten(is_saved=True)
    (checked,) = check(disk)
    assert (checked.folder, checked.topic, checked.is_kept) == (FOLDER, topic(), True)
    assert (checked.messages, checked.problems, checked.hopeless) == (10, [], [])
    assert [(part.segment.base, part.end, part.lost) for part in checked.parts] == [(0, 10, [])]


def test_what_is_being_removed_is_not_looked_at():
    disk = ten()
    disk.rename(FOLDER, f"{FOLDER}.deleted")
    assert list(check(disk)) == []


def test_what_is_not_a_topics_is_not_looked_at_nor_a_creation_that_was_interrupted():
    """A start leaves the first two alone, and removes the last."""
    disk = ten()
    disk.content |= {"topics/README": b"whose topics these are", "topics/lost+found/1": b"1"}
    disk.folders |= {"topics/lost+found", "topics/new.0123456789abcdef.8"}
    disk.content["topics/new.0123456789abcdef.8/.topic"] = b"zai"
    assert [it.folder for it in check(disk)] == [FOLDER]


def test_of_two_topics_of_one_name_the_older_is_told():
    """A start sets it aside, so nobody must think that all is well."""
    disk = ten()
    newer, _ = written([[message(0, 100)]], topic(epoch=8))
    disk.content |= {
        path.replace(FOLDER, "topics/orders.d5acebe867b47f4d.8"): data
        for path, data in newer.content.items()
    }
    disk.folders.add("topics/orders.d5acebe867b47f4d.8")
    told = {it.topic.epoch: it.hopeless for it in check(disk)}
    assert told == {
        7: ["a newer topic of the same name is here, too: a start sets this one aside"],
        8: [],
    }


def test_a_topic_that_cannot_be_read_hinders_no_other():
    disk, other = ten(), "topics/other.d650ce50380593af.8"
    whole, _ = written([[message(0, 100)]], topic("other", epoch=8))
    disk.content |= {path.replace(FOLDER, other): data for path, data in whole.content.items()}
    disk.folders.add(other)
    denied = PermissionError(errno.EACCES, "Permission denied")
    disk.under_way = lambda _, path: denied if path.startswith(FOLDER) else None
    assert [(it.folder, it.hopeless) for it in check(disk)] == [
        (FOLDER, ["it cannot be read: Permission denied"]), (other, [])
    ]  # fmt: skip


def test_nothing_is_changed():
    for spoil in (20, HEAD_SIZE + 10, SECOND + 10):
        disk = ten()
        disk.content[path_of(0)] = changed(disk.content[path_of(0)], spoil)
        before, calls = dict(disk.content), len(disk.calls)
        assert check_folder(disk, FOLDER).problems
        assert (disk.content, len(disk.calls)) == (before, calls)


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("record", range(5))
def test_damage_in_the_last_group_is_torn_unless_a_checkpoint_proves_it_synced(record, is_saved):
    disk, at = ten(is_saved=is_saved), SECOND + record * SIZE
    disk.content[path_of(0)] = changed(disk.content[path_of(0)], at + 90)
    checked = check_folder(disk, FOLDER)
    if is_saved:
        assert checked.problems == [
            (
                f"{path_of(0)}: bytes {at} to {at + SIZE} are damaged; offsets {5 + record} to "
                f"{5 + record}"
            )
        ]
        assert (checked.messages, checked.parts[0].end) == (9, 10)
    else:
        assert checked.problems == [
            f"{path_of(0)}: from position {at} on, a torn end, which a start cuts off"
        ]
        assert (checked.messages, checked.parts[0].end) == (5 + record, 5 + record)


def test_damage_without_messages_is_told_as_such():
    disk, at = ten(), HEAD_SIZE + 5 * SIZE
    disk.content[path_of(0)] = changed(disk.content[path_of(0)], at)
    checked = check_folder(disk, FOLDER)
    assert checked.problems == [f"{path_of(0)}: bytes {at} to {SECOND} are damaged; no messages"]
    assert (checked.messages, checked.damaged) == (10, [])


def test_a_header_tells_what_the_end_held():
    """If its body alone is damaged, and what follows, too."""
    disk, _ = written([[message(0, 100)], [message(1, 100, 7)], [positions(8)]])
    at = HEAD_SIZE + SIZE
    data = disk.content[path_of(0)]
    disk.content[path_of(0)] = changed(changed(data, at + 100), len(data) - 1)
    checked = check_folder(disk, FOLDER)
    assert checked.problems == [
        f"{path_of(0)}: bytes {at} to {len(data)} are damaged; offsets 1 to 7"
    ]


def test_what_a_repair_has_given_up_is_counted_apart():
    disk, log = written([[message(0), message(1)]])
    log.write([StoredRecord(2, 0, 3, bytes(10), RecordKind.LOST), message(5)])
    checked = check_folder(disk, FOLDER)
    assert (checked.messages, checked.lost) == (3, [(2, 5)])
    assert checked.problems == [
        "topic lists other offsets as lost than those that repairs have given up"
    ]


def test_a_file_that_was_only_begun_is_torn():
    disk = ten()
    disk.content[path_of(10)] = bytes(100)
    checked = check_folder(disk, FOLDER)
    assert checked.problems == [
        f"{path_of(10)}: only begun, and nothing was ever in it; a start removes it"
    ]
    assert checked.messages == 10


def test_offsets_that_are_missing_without_a_bad_byte_cannot_be_repaired():
    disk, log = written([[message(0), message(3)]])
    log.write([message(4)])
    assert check_folder(disk, FOLDER).hopeless == [
        f"{path_of(0)}: there is no room for a record at position {HEAD_SIZE + message(0).size}"
    ]


def test_a_newer_format_is_refused():
    disk = SimDisk({f"{FOLDER}/topic": seal(b"zaichik topic 1\n", b'{"format": 3, "name": "new"}')})
    with pytest.raises(NewerFormat):
        list(check(disk))
