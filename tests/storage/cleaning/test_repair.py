"""The log of a table that is damaged: checked, and repaired."""

import pytest
from made import changed
from tables import FOLDER, Logged, content

from zaichik.storage.record import HEADER
from zaichik.storage.repair.checking import check_folder
from zaichik.storage.repair.repairing import repair
from zaichik.storage.segment import HEAD_SIZE


def rewritten():
    """A file that was rewritten, with a message at offset 2 and one at 5; and one more file."""
    log = Logged()
    log.write((b"a", b"1"), (b"b", b"1"), (b"b", b"2"))
    log.write((b"c", b"1"), (b"c", b"2"), (b"d", b"1"))
    log.roll()
    log.write((b"a", b"2"), (b"c", b"3"))
    log.writer.close()
    log.rewrite()
    return log


def test_a_check_counts_messages_and_not_holes():
    log = rewritten()
    found = check_folder(log.disk, FOLDER)
    assert (found.problems, found.hopeless, found.messages) == ([], [], 4)


@pytest.mark.parametrize(
    "at",
    [10, HEADER.size + 5, HEADER.size + 30],
    ids=["head", "columns", "batch"],
)
def test_damage_in_what_was_kept_is_found_and_given_up(at):
    """DUR-7, DUR-10: with all offsets that the record covers."""
    log = rewritten()
    path = f"{FOLDER}/{0:020}.log"
    log.disk.content[path] = changed(log.disk.content[path], HEAD_SIZE + at)
    assert "damaged at position 4096, from offset 0 on" in log.found().damage
    checked = check_folder(log.disk, FOLDER)
    assert checked.damaged == [(0, 6)]
    repair(log.disk, checked)
    assert checked.hopeless == []
    found = log.found()
    assert found.damage == ""
    assert found.topic.lost == ((0, 6),)
    assert content(found.kept) == {6: (b"a", b"2", 6), 7: (b"c", b"3", 6)}
    assert found.kept.deleted_below == 6
    assert check_folder(log.disk, FOLDER).problems == []
    assert f"{path}.damaged" in log.disk.content


def test_the_head_of_a_rewritten_file_is_rebuilt():
    """DUR-7: its messages are all there; what only the head knew is known to checkpoints."""
    log = rewritten()
    path = f"{FOLDER}/{0:020}.log"
    log.disk.content[path] = changed(log.disk.content[path], 40)
    checked = check_folder(log.disk, FOLDER)
    assert "the head of the file is damaged" in checked.problems[0]
    repair(log.disk, checked)
    found = log.found()
    assert (found.damage, content(found.kept)) == ("", content(log.kept))


def test_what_is_left_over_is_not_damage():
    """DUR-10: a power cut may bring back what was replaced."""
    log = rewritten()
    log.roll()
    log.write((b"d", b"2"))
    old = dict(log.disk.content)
    log.rewrite(count=2)
    log.disk.content[f"{FOLDER}/{6:020}.log"] = old[f"{FOLDER}/{6:020}.log"]
    assert check_folder(log.disk, FOLDER).problems == []


def test_after_a_repair_a_table_is_rewritten_again_and_stays_repaired():
    log = rewritten()
    path = f"{FOLDER}/{0:020}.log"
    log.disk.content[path] = changed(log.disk.content[path], HEAD_SIZE + 10)
    repair(log.disk, check_folder(log.disk, FOLDER))
    log.rewrite()
    checked = check_folder(log.disk, FOLDER)
    assert (checked.problems, checked.lost) == ([], [(0, 6)])
