"""Turns a damaged log into one that a broker can open: what is lost is recorded, and nothing is deleted.

A stretch of damage becomes a record that says which offsets are lost. It takes the same room, so that all other records
stay where they are, and checkpoints remain valid. Each damaged file is kept as it was, with `.damaged` after its name.
The file `topic` is written first: it tells the broker which offsets are lost, so that readers can be told. If a repair
is interrupted, the next one begins again.
"""

from collections.abc import Iterator

from zaichik.log.disk import Disk
from zaichik.log.record import HEADER, Kind, Record
from zaichik.log.recovery import TOPIC_FILE, recover, topic_file
from zaichik.log.segment import HEAD_SIZE, Topic
from zaichik.repair.checking import Checked, Part, Stretch

AT_ONCE = 4 * 1024 * 1024  # bytes that are copied at once; a record of what is lost has less than twice as many
MOST_LOST = 2**32 - 1  # offsets that one record can cover


def repair(disk: Disk, checked: Checked) -> None:
    """Repair a log that `check_folder` has found damaged, and cut off what is torn, unless any of it is hopeless.

    Raises:
        DiskFull, StorageFailed: the repair is not complete; the next one completes it.
    """
    folder, topic = checked.folder, checked.topic
    if topic is None or checked.hopeless or not checked.problems:
        return
    topic = topic._replace(lost=tuple(sorted(checked.lost + checked.damaged)))
    path, files = f"{folder}/{TOPIC_FILE}", disk.files(folder)
    if not checked.is_kept and files.get(TOPIC_FILE):
        _keep(disk, path, files[TOPIC_FILE])
    disk.replace(path, topic_file(topic))
    for name in checked.strange:
        disk.rename(f"{folder}/{name}", _free(disk, f"{folder}/{name}"))
    for part in checked.parts:
        if part.stretches or part.problem:
            _rewrite(disk, part, topic, files.get(part.segment.path.rpartition("/")[2], -1))
    checked.hopeless += filter(None, [recover(disk, folder).damage])


def _rewrite(disk: Disk, part: Part, topic: Topic, size: int) -> None:
    """Write a new segment next to the old one, then replace that."""
    path = part.segment.path
    folder, _, name = path.rpartition("/")
    if size > 0:
        _keep(disk, path, size)
    new, at = f"{folder}/.{name}", HEAD_SIZE
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
    position, base = stretch.position, stretch.base
    while position < stretch.end or base < stretch.to:
        count, left = min(stretch.to - base, MOST_LOST), stretch.end - position
        size = HEADER.size if base + count < stretch.to else left if left < 2 * AT_ONCE else AT_ONCE
        room = bytes(max(size - HEADER.size, 0))
        yield Record(base, stretch.accepted_us, count, room, Kind.LOST).pack(salt, stretch.position)
        position, base = position + HEADER.size + len(room), base + count


def _keep(disk: Disk, path: str, size: int) -> None:
    """Keep a damaged file, next to the one that will take its name."""
    folder, _, name = path.rpartition("/")
    disk.remove([f"{folder}/.{name}.damaged"])  # of a repair that was interrupted
    _copy(disk, path, f"{folder}/.{name}.damaged", size)
    disk.rename(f"{folder}/.{name}.damaged", _free(disk, path))


def _copy(disk: Disk, path: str, to: str, end: int, begin: int = 0) -> None:
    """Copy a part of a file to the same place in another one, which is new, or ends there."""
    for at in range(begin, end, AT_ONCE):
        disk.write(to, at, [disk.read(path, at, min(AT_ONCE, end - at))])


def _free(disk: Disk, path: str) -> str:
    """Returns the name under which a damaged file is kept."""
    folder, _, name = path.rpartition("/")
    files, kept, number = disk.files(folder), f"{name}.damaged", 1
    while kept in files:
        number += 1
        kept = f"{name}.damaged.{number}"
    return f"{folder}/{kept}"
