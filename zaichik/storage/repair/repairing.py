"""Turns a damaged log into one that a broker can open.

What is lost is recorded, and nothing is deleted.

A stretch of damage becomes a record that says which offsets are lost. It takes the same room, so
that all other records stay where they are, and checkpoints remain valid. Each damaged file is kept
as it was, with `.damaged` after its name. All records are computed before anything is written. The
file `topic` is written first: it tells the broker which offsets are lost, so that readers can be
told. If a repair is interrupted, the next one begins again.
"""

from collections.abc import Iterator

from zaichik.storage.disk import Disk
from zaichik.storage.ranges import joined
from zaichik.storage.record import HEADER, RecordKind, StoredRecord
from zaichik.storage.recovery import TOPIC_FILE, recover, topic_file
from zaichik.storage.repair.checking import Checked, CheckedSegment, Stretch
from zaichik.storage.segment import HEAD_SIZE, TopicHeader

# Bytes that are copied at once; a record of what is lost has less than twice as many.
AT_ONCE = 4 * 1024 * 1024
MOST_LOST = 2**32 - 1  # offsets that one record can cover


def repair(disk: Disk, checked: Checked) -> None:
    """Repair a log that `check_folder` has found damaged, and cut off what is torn.

    Nothing is done if any of it is hopeless.

    Raises:
        DiskFull, StorageFailed: the repair is not complete; the next one completes it.
    """
    folder = checked.folder
    topic = checked.topic
    if topic is None or checked.hopeless or not checked.problems:
        return
    topic = topic._replace(lost=joined(checked.lost + checked.damaged))
    for part in checked.parts:
        _compute(part, topic)
    path = f"{folder}/{TOPIC_FILE}"
    files = disk.files(folder)
    if not checked.is_kept and files.get(TOPIC_FILE):
        _keep(disk, path, files[TOPIC_FILE])
    disk.replace(path, topic_file(topic))
    for name in checked.unneeded:
        disk.rename(f"{folder}/{name}", _free(disk, f"{folder}/{name}"))
    for part in checked.parts:
        if part.stretches or part.problem:
            _, _, name = part.segment.path.rpartition("/")
            _rewrite(disk, part, topic, files.get(name, -1))
    damage = recover(disk, folder).damage
    if damage:
        checked.hopeless.append(damage)


def _compute(part: CheckedSegment, topic: TopicHeader) -> None:
    """Make what a repair will write, and keep none of it: it may be large.

    If that is not possible, nothing was changed yet.
    """
    part.segment.head(topic)
    for stretch in part.stretches:
        for _ in _records(stretch, part.segment.salt):
            pass


def _rewrite(disk: Disk, part: CheckedSegment, topic: TopicHeader, size: int) -> None:
    """Write a new segment next to the old one, then replace that."""
    path = part.segment.path
    folder, _, name = path.rpartition("/")
    if size > 0:
        _keep(disk, path, size)
    new = f"{folder}/.{name}"
    at = HEAD_SIZE
    disk.remove([new])  # of a repair that was interrupted
    disk.write(new, 0, [part.segment.head(topic)])
    for stretch in part.stretches:
        _copy(disk, path, new, stretch.position, at)
        at = stretch.position
        for record in _records(stretch, part.segment.salt):
            disk.write(new, at, [record])
            at += len(record)
    _copy(disk, path, new, size, at)
    disk.rename(new, path)


def _records(stretch: Stretch, salt: int) -> Iterator[bytes]:
    """Returns records that give up the offsets of a stretch, and take its room."""
    position = stretch.position
    base = stretch.base
    while position < stretch.end or base < stretch.to:
        count = min(stretch.to - base, MOST_LOST)
        left = stretch.end - position
        if base + count < stretch.to:
            size = HEADER.size  # more records follow, and one of them takes the room
        elif left < 2 * AT_ONCE:
            size = left
        else:
            size = AT_ONCE
        room = bytes(max(size - HEADER.size, 0))
        record = StoredRecord(base, stretch.accepted_us, count, room, RecordKind.LOST)
        yield record.pack(salt, stretch.position)
        position += HEADER.size + len(room)
        base += count


def _keep(disk: Disk, path: str, size: int) -> None:
    """Keep a damaged file, next to the one that will take its name."""
    folder, _, name = path.rpartition("/")
    disk.remove([f"{folder}/.{name}.damaged"])  # of a repair that was interrupted
    _copy(disk, path, f"{folder}/.{name}.damaged", size)
    disk.rename(f"{folder}/.{name}.damaged", _free(disk, path))


def _copy(disk: Disk, path: str, to: str, end: int, begin: int = 0) -> None:
    """Copy a part of a file to the same place in another one, which is new, or ends there."""
    for at in range(begin, end, AT_ONCE):
        piece = disk.read(path, at, min(AT_ONCE, end - at))
        disk.write(to, at, [piece])


def _free(disk: Disk, path: str) -> str:
    """Returns the name under which a damaged file is kept."""
    folder, _, name = path.rpartition("/")
    files = disk.files(folder)
    kept = f"{name}.damaged"
    number = 1
    while kept in files:
        number += 1
        kept = f"{name}.damaged.{number}"
    return f"{folder}/{kept}"
