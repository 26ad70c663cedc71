"""Reads every byte of the logs in a folder that no broker uses, and changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

from zaichik.log.disk import Disk
from zaichik.log.record import next_header
from zaichik.log.recovery import look, records
from zaichik.log.segment import HEAD_SIZE, Segment, named
from zaichik.log.state import read_checkpoint
from zaichik.log.store import TOPICS
from zaichik.log.writer import DELETED


@dataclass(frozen=True)
class Checked:
    """What is in one folder.

    Attributes:
        folder: its name.
        topic: whose it is; "" if nothing says so.
        messages, bytes, files: how many, as far as they are whole.
        first, end: the offsets they have.
        problems: what is wrong, one sentence each.
    """

    folder: str
    topic: str
    messages: int
    bytes: int
    files: int
    first: int
    end: int
    problems: list[str]


def check(disk: Disk) -> Iterator[Checked]:
    """Returns what is in each topic's folder.

    Raises:
        NewerFormat: a folder is not for this version to read.
    """
    for name in sorted(disk.files(TOPICS)):
        if not name.endswith(DELETED):
            yield _check(disk, name)


def _check(disk: Disk, name: str) -> Checked:
    folder = f"{TOPICS}/{name}"
    files = disk.files(folder)
    topic, opened = look(disk, folder, files)
    problems = [] if topic else ["nothing tells which topic it is"]
    segments = [found[0] for found in opened.values() if found]
    problems += [f"{file}: the head of the file is damaged" for file, found in opened.items() if not found]
    problems += [
        f"{file}: the checkpoint is damaged; it is not needed"
        for file in named(files, "state")
        if read_checkpoint(disk.read(f"{folder}/{file}", 0, files[file])) is None
    ]
    messages, end = 0, segments[0].base if segments else 0
    for segment in segments:
        if segment.base != end:
            problems.append(f"{segment.path}: begins at offset {segment.base}, but the one before ends at {end}")
        found, end = _read(disk, segment, segment is segments[-1], problems)
        messages += found
    size, first = sum(segment.size for segment in segments), segments[0].base if segments else 0
    return Checked(name, topic.name if topic else "", messages, size, len(segments), first, end, problems)


def _read(disk: Disk, segment: Segment, is_last: bool, problems: list[str]) -> tuple[int, int]:  # noqa: FBT001
    """Returns the number of messages in a segment, and the offset after the last one."""
    messages, end, position = 0, segment.base, HEAD_SIZE
    while position < segment.size:
        for after, record in records(disk, segment, position):
            messages += record.count
            end, position = record.base + record.count, after
        if position < segment.size:
            rest = disk.read(segment.path, position, segment.size - position)
            found = next_header(rest, 1, segment.salt)
            where = f"{segment.path}: bytes {position} to "
            if found is None:
                what = "are no record: a torn end, which a start cuts off, or damage" if is_last else "are damaged"
                problems.append(f"{where}{segment.size} {what}; offsets from {end} on")
                break
            problems.append(f"{where}{position + found[0]} are damaged; offsets {end} to {found[1].record.base - 1}")
            end, position = found[1].record.base, position + found[0]
    return messages, end
