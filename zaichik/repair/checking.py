"""Reads every byte of the logs in a folder that no broker uses, and reports what is wrong; it changes nothing.

Damage in a segment is a list of stretches of bytes that are not records. The offsets that they held are known from the
records around them, from the next segment, or from a checkpoint.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zaichik.log.disk import Disk
from zaichik.log.record import HEADER, Kind
from zaichik.log.recovery import TOPIC_FILE, checkpoints, look, read_topic
from zaichik.log.segment import HEAD_SIZE, Segment, Topic
from zaichik.log.store import folders_of, is_unfinished
from zaichik.log.walk import walk
from zaichik.repair.salvage import salvaged

Mark = tuple[int, int, int]  # of a checkpoint: its position, and of the last record before that: its end, its time
Range = tuple[int, int]  # of offsets: the first, and the one after the last


class Stretch(NamedTuple):
    """Bytes of a segment that are not records.

    Attributes:
        position, end: the bytes, from the first position up to the second.
        base, to: the offsets they held, from the first up to the second.
        accepted_us: the latest time at which the messages may have been accepted.
    """

    position: int
    end: int
    base: int
    to: int
    accepted_us: int


@dataclass
class Part:
    """A segment, as it was found.

    Attributes:
        segment: what its head says; if that is damaged, what is known without it.
        marks: the checkpoints whose positions are in it.
        problem: what is wrong with the file as a whole; "" if nothing is.
        stretches: what is damaged.
        torn: the position where a torn end begins; -1 if there is none.
        end: the offset after its last message.
        lost: the offsets that earlier repairs have given up.
    """

    segment: Segment
    marks: list[Mark]
    problem: str = ""
    stretches: list[Stretch] = field(default_factory=list)
    torn: int = -1
    end: int = 0
    lost: list[Range] = field(default_factory=list)

    def add(self, begin: int, end: int, base: int, to: int, accepted_us: int) -> None:
        """Note a stretch; it is divided at each checkpoint's position, because a start begins to read there."""
        for position, offset, _ in self.marks:
            if begin < position <= end:
                self.stretches.append(Stretch(begin, position, base, offset, accepted_us))
                begin, base = position, offset
        if begin < end or base < to:
            self.stretches.append(Stretch(begin, end, base, to, accepted_us))


@dataclass
class Checked:
    """The findings about one folder.

    Attributes:
        folder: its path.
        topic: the topic it is of; None if nothing says which.
        is_kept: whether the file `topic` is good.
        parts: its segments.
        strange: names of files that are damaged and not needed, or belong to another topic.
        problems: what is wrong, one sentence each.
        hopeless: what no repair can change, one sentence each.
    """

    folder: str
    topic: Topic | None
    is_kept: bool = False
    parts: list[Part] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    hopeless: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[Range]:
        """The offsets that earlier repairs have given up."""
        return [lost for part in self.parts for lost in part.lost]

    @property
    def damaged(self) -> list[Range]:
        """The offsets that are damaged."""
        return [(it.base, it.to) for part in self.parts for it in part.stretches if it.base < it.to]

    @property
    def messages(self) -> int:
        """How many messages are whole."""
        gone = sum(to - base for base, to in self.lost + self.damaged)
        return sum(part.end - part.segment.base for part in self.parts) - gone


def check(disk: Disk) -> list[Checked]:
    """Returns the findings about each topic's folder.

    Raises:
        NewerFormat: a folder was written by a newer version.
    """
    found = []
    for folder in folders_of(disk):
        try:
            if not is_unfinished(disk, folder):
                found.append(check_folder(disk, folder))
        except OSError as error:
            found.append(Checked(folder, None, hopeless=[f"it cannot be read: {error.strerror}"]))
    known = [(checked, checked.topic) for checked in found if checked.topic is not None]
    newest = {topic.name: topic.epoch for _, topic in sorted(known, key=lambda it: it[1].epoch)}
    for checked, topic in known:
        if topic.epoch < newest[topic.name]:
            checked.hopeless.append("a newer topic of the same name is here, too: a start sets this one aside")
    return found


def check_folder(disk: Disk, folder: str) -> Checked:
    """Returns the findings about the folder of a topic.

    Raises:
        NewerFormat: the folder was written by a newer version.
    """
    files, path = disk.files(folder), f"{folder}/{TOPIC_FILE}"
    topic, opened = look(disk, folder, files)
    checked = Checked(folder, topic)
    if topic is None:
        checked.hopeless.append(f"neither {TOPIC_FILE} nor a segment tells which topic it is")
        return checked
    checked.strange = [name for name, it in opened.items() if it is not None and it[1][:2] != topic[:2]]
    good = {it[0].base: it[0] for name, it in opened.items() if it is not None and name not in checked.strange}
    if checked.strange and not good:  # more likely, that file is the one that does not belong here
        checked.hopeless.append(f"{TOPIC_FILE} names another topic than every segment. Remove it: the segments suffice")
    known, bad = checkpoints(disk, folder, topic, good.values())
    names = [name for name in opened if name not in checked.strange]
    checked.parts = list(_parts(disk, folder, names, good, [told for told, _ in known]))
    checked.strange += bad
    at_us = 0
    for index, part in enumerate(checked.parts):
        if part.torn < 0:
            at_us = _read(disk, part, [it.segment for it in checked.parts[index + 1 :]], at_us)
    checked.is_kept = TOPIC_FILE in files and read_topic(disk.read(path, 0, files[TOPIC_FILE])) is not None
    _tell(checked, topic)
    return checked


def _parts(
    disk: Disk, folder: str, names: list[str], good: dict[int, Segment], known: list[dict[str, Any]]
) -> Iterator[Part]:
    """Returns the segments, including those with damaged heads, and those known only from a checkpoint."""
    files, bases = disk.files(folder), {int(name[:20]) for name in names}
    newest = max(bases, default=-1)
    for base in sorted(bases | {told["segment"] for told in known if told["segment"] > newest}):
        own, size = [told for told in known if told["segment"] == base], files.get(f"{base:020}.log", 0)
        problem, torn = "", -1
        if base in good:
            segment = good[base]
        elif size <= HEAD_SIZE and base == newest and not own:  # no record was ever in it
            segment, torn = Segment(folder, base, 0, 0), 0
        else:
            segment = salvaged(disk, folder, base, size, [told["salt"] for told in own])
            problem = "the head of the file is damaged" if size else "the file is missing"
        marks = sorted((it["position"], it["end"], it["accepted_us"]) for it in own if it["salt"] == segment.salt)
        yield Part(segment, marks, problem, torn=torn, end=base)


def _read(disk: Disk, part: Part, later: list[Segment], at_us: int) -> int:
    """Read a segment, which ends where the next one begins. Returns when its last good record was accepted.

    Args:
        disk: where it is.
        part: the segment; what is found is noted in it.
        later: the segments that follow.
        at_us: when the last good record before it was accepted. No segment may be older than what comes before it, or
            else that would expire with it.
    """
    segment, bad, group, after = part.segment, -1, 0, next(iter(later), None)
    end = told = segment.base
    segment.accepted_us = at_us = max(segment.accepted_us, at_us)
    for step in walk(disk, segment):
        if step.header is not None:
            group = max(group, step.header.group_at)
        record = step.record
        if record is None or record.base < end:
            bad = step.position if bad < 0 else bad
            told = max(told, end if step.header is None else step.header.end)
            continue
        if bad >= 0 or record.base > end:
            part.add(step.position if bad < 0 else bad, step.position, end, record.base, record.accepted_us)
            bad = -1
        end, at_us = record.base + record.count, record.accepted_us
        if record.kind == Kind.LOST and record.count:
            part.lost.append((record.base, end))
    told = max(told if after is None else after.base, end)
    synced, _, until_us = max(part.marks, default=(0, 0, 0))
    until_us = next((it.accepted_us for it in later if it.accepted_us), until_us)
    part.add(segment.size if bad < 0 else bad, max(segment.size, synced), end, told, max(at_us, until_us))
    part.end = told
    for index, stretch in enumerate(part.stretches):
        if after is None and stretch.position >= max(group, synced):  # nothing was written later
            part.torn, part.end = stretch.position, stretch.base
            del part.stretches[index:]
            break
    return at_us


def _tell(checked: Checked, topic: Topic) -> None:
    """Describe what is wrong, for a person."""
    problems = checked.problems
    if not checked.is_kept:
        problems.append(f"{TOPIC_FILE} is damaged or missing; the head of a segment has the same contents")
    problems += [f"{name} is damaged, or of another topic; it is not needed" for name in checked.strange]
    end = checked.parts[0].segment.base if checked.parts else 0
    known = {it for it in topic.lost if it[1] > end}
    for part in checked.parts:
        segment = part.segment
        if segment.base < end:
            checked.hopeless.append(f"{segment.path} begins at offset {segment.base}, but the one before ends at {end}")
        if part.problem:
            problems.append(f"{segment.path}: {part.problem}")
        for it in part.stretches:
            offsets = f"offsets {it.base} to {it.to - 1}" if it.base < it.to else "no messages"
            where = f"bytes {it.position} to {it.end} are damaged"
            problems.append(f"{segment.path}: {where if it.position < it.end else 'records are missing'}; {offsets}")
            if it.end - it.position < HEADER.size and it.end < segment.size:
                checked.hopeless.append(f"{segment.path}: there is no room for a record at position {it.position}")
        if part.torn >= 0:
            problems.append(f"{segment.path}: from position {part.torn} on, a torn end, which a start cuts off")
        end = part.end
    if checked.is_kept and not checked.damaged and set(checked.lost) != known:
        problems.append(f"{TOPIC_FILE} lists other offsets as lost than those that repairs have given up")
