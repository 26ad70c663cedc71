"""Reads every byte of the logs in a folder that no broker uses, and reports what is wrong.

It changes nothing. Damage in a segment is a list of stretches of bytes that are not records. The
offsets that they held are known from the records around them, from the next segment, or from a
checkpoint.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zaichik.storage.cleaning.kept import holes_of
from zaichik.storage.disk import Disk
from zaichik.storage.ownership import denied
from zaichik.storage.ranges import OffsetRange, joined
from zaichik.storage.record import HEADER, RecordKind, StoredRecord
from zaichik.storage.recovery import (
    TOPIC_FILE,
    checkpoints,
    identify,
    left_over,
    of_segments,
    read_topic,
    recorded_head,
)
from zaichik.storage.repair.salvage import salvage
from zaichik.storage.segment import HEAD_SIZE, Segment, TopicHeader
from zaichik.storage.store import folders_of, is_unfinished, link_in, misnamed
from zaichik.storage.walk import walk

# Of a checkpoint: its position, and of the last record before that: its end, its time.
CheckpointMark = tuple[int, int, int]


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
class CheckedSegment:
    """A segment, as it was found.

    Attributes:
        segment: what its head says; if that is damaged, what is known without it.
        marks: the checkpoints whose positions are in it.
        problem: what is wrong with the file as a whole; "" if nothing is.
        stretches: what is damaged.
        torn: the position where a torn end begins; -1 if there is none.
        end: the offset after its last message.
        lost: the offsets that earlier repairs have given up.
        holes: how many offsets have no message, because it was superseded.
    """

    segment: Segment
    marks: list[CheckpointMark]
    problem: str = ""
    stretches: list[Stretch] = field(default_factory=list)
    torn: int = -1
    end: int = 0
    lost: list[OffsetRange] = field(default_factory=list)
    holes: int = 0

    def note(self, record: StoredRecord) -> None:
        """Note what a whole record says of offsets without messages."""
        if record.kind == RecordKind.LOST and record.count:
            self.lost.append((record.base, record.base + record.count))
        elif record.kind == RecordKind.KEPT:
            self.holes += holes_of(record)

    def add(self, begin: int, end: int, base: int, to: int, accepted_us: int) -> None:
        """Note a stretch.

        It is divided at each checkpoint's position, because a start begins to read there.
        """
        for position, offset, _ in self.marks:
            if begin < position <= end:
                self.stretches.append(Stretch(begin, position, base, offset, accepted_us))
                begin = position
                base = offset
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
        unneeded: names of files that are damaged and not needed, or belong to another topic.
        problems: what is wrong, one sentence each.
        hopeless: what no repair can change, one sentence each.
    """

    folder: str
    topic: TopicHeader | None
    is_kept: bool = False
    parts: list[CheckedSegment] = field(default_factory=list)
    unneeded: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    hopeless: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[OffsetRange]:
        """The offsets that earlier repairs have given up."""
        return [lost for part in self.parts for lost in part.lost]

    @property
    def damaged(self) -> list[OffsetRange]:
        """The offsets that are damaged."""
        stretches = [stretch for part in self.parts for stretch in part.stretches]
        return [(it.base, it.to) for it in stretches if it.base < it.to]

    @property
    def messages(self) -> int:
        """How many messages are whole."""
        gone = sum(to - base for base, to in self.lost + self.damaged)
        gone += sum(part.holes for part in self.parts)
        return sum(part.end - part.segment.base for part in self.parts) - gone


def check(disk: Disk) -> list[Checked]:
    """Returns the findings about each topic's folder.

    Raises:
        NewerFormat: a folder was written by a newer version.
    """
    found = []
    for folder, kind in folders_of(disk).items():
        try:
            link = link_in(disk, folder, kind)
            if link:
                found.append(Checked(folder, None, hopeless=[link]))
            elif not is_unfinished(disk, folder):
                found.append(check_folder(disk, folder))
        except PermissionError as error:
            found.append(Checked(folder, None, hopeless=[denied(error)]))
        except OSError as error:
            found.append(Checked(folder, None, hopeless=[f"it cannot be read: {error.strerror}"]))
    known: list[tuple[Checked, TopicHeader]] = []
    for checked in found:
        if checked.topic is None:
            continue
        problem = misnamed(checked.folder, checked.topic)
        if problem:
            checked.hopeless.append(problem)
        else:
            known.append((checked, checked.topic))
    newest: dict[str, int] = {}
    for _, topic in known:
        newest[topic.name] = max(topic.epoch, newest.get(topic.name, 0))
    for checked, topic in known:
        if topic.epoch < newest[topic.name]:
            checked.hopeless.append(
                "a newer topic of the same name is here, too: a start sets this one aside"
            )
    return found


def check_folder(disk: Disk, folder: str) -> Checked:
    """Returns the findings about the folder of a topic.

    Raises:
        NewerFormat: the folder was written by a newer version.
    """
    files = disk.files(folder)
    topic, opened = identify(disk, folder, files)
    checked = Checked(folder, topic)
    if topic is None:
        checked.hopeless.append(f"neither {TOPIC_FILE} nor a segment tells which topic it is")
        return checked
    checkpointed, bad = checkpoints(disk, folder, topic)
    head = recorded_head(checkpointed)
    # What is below was to be removed, and is removed by a start.
    gone = left_over(opened, topic, head)
    opened = {name: it for name, it in opened.items() if name not in gone}
    good: dict[int, Segment] = {}
    for name, found in opened.items():
        if found is None:
            continue
        segment, its_topic = found
        if its_topic.is_of(topic):
            good[segment.base] = segment
        else:
            checked.unneeded.append(name)
    if checked.unneeded and not good:
        # More likely, the file `topic` is the one that does not belong here.
        checked.hopeless.append(
            f"{TOPIC_FILE} names another topic than every segment. Remove it: the segments suffice"
        )
    known = of_segments(checkpointed, good.values())
    names = [name for name in opened if name not in checked.unneeded]
    checked.parts = list(_parts(disk, folder, names, good, [fields for fields, _ in known]))
    checked.unneeded += bad
    at_us = 0
    for index, part in enumerate(checked.parts):
        if part.torn == 0 and _is_proof(part, checked.parts[:index]):
            part.torn = -1
            part.problem = "the head of the file is damaged"
            part.segment = salvage(disk, folder, part.segment.base, 0, [])
        if part.torn < 0:
            later = [it.segment for it in checked.parts[index + 1 :]]
            at_us = _read(disk, part, later, at_us)
    if TOPIC_FILE in files:
        kept = disk.read(f"{folder}/{TOPIC_FILE}", 0, files[TOPIC_FILE])
        checked.is_kept = read_topic(kept) is not None
    _describe_problems(checked, topic)
    return checked


def _parts(
    disk: Disk, folder: str, names: list[str], good: dict[int, Segment], known: list[dict[str, Any]]
) -> Iterator[CheckedSegment]:
    """Returns the segments.

    Among them are those with damaged heads, and those that only a checkpoint names.
    """
    files = disk.files(folder)
    bases = {int(name[:20]) for name in names}
    newest = max(bases, default=-1)
    for fields in known:
        if fields["segment"] > newest:
            bases.add(fields["segment"])
    last = max(bases, default=-1)
    for base in sorted(bases):
        own = [fields for fields in known if fields["segment"] == base]
        size = files.get(f"{base:020}.log", 0)
        problem = ""
        torn = -1
        if base in good:
            segment = good[base]
        elif size <= HEAD_SIZE and base == last and not own:
            # No record was ever in it: nothing proves that another file was begun after it.
            segment = Segment(folder, base, 0, 0)
            torn = 0
        else:
            salts = [fields["salt"] for fields in own]
            segment = salvage(disk, folder, base, size, salts)
            problem = "the head of the file is damaged"
            if not size:
                problem = "the file is missing"
        # A checkpoint with another salt is of a file that this one has replaced.
        its_own = [fields for fields in own if fields["salt"] == segment.salt]
        marks = sorted((it["position"], it["end"], it["accepted_us"]) for it in its_own)
        yield CheckedSegment(segment, marks, problem, torn=torn, end=base)


def _is_proof(begun: CheckedSegment, before: list[CheckedSegment]) -> bool:
    """Returns whether the name of a file that was only begun is needed.

    If what comes before it is not whole, it proves which offsets were given. So it stays.
    """
    if not before:
        return begun.segment.base > 0
    return any(part.problem or part.stretches for part in before)


def _read(disk: Disk, part: CheckedSegment, later: list[Segment], at_us: int) -> int:
    """Read a segment, which ends where the next one begins.

    Returns when its last good record was accepted.

    Args:
        disk: where it is.
        part: the segment; what is found is noted in it.
        later: the segments that follow.
        at_us: when the last good record before it was accepted. No segment may be older than what
            comes before it, or else that would expire with it.
    """
    segment = part.segment
    after = next(iter(later), None)
    bad = -1  # where the damage began that the walk is in; -1: it is in none
    group = 0
    end = segment.base
    named_end = end  # the offset after the last one that a header has named
    at_us = max(segment.accepted_us, at_us)
    segment.accepted_us = at_us
    for step in walk(disk, segment):
        if step.header is not None:
            group = max(group, step.header.group_at)
        record = step.record
        if record is None or record.base < end:
            if bad < 0:
                bad = step.position
            if step.header is not None:
                named_end = max(named_end, step.header.end)
            continue
        if bad < 0 and record.base > end:
            bad = step.position  # nothing is damaged here, but records are missing
        if bad >= 0:
            part.add(bad, step.position, end, record.base, record.accepted_us)
            bad = -1
        end = record.base + record.count
        at_us = record.accepted_us
        part.note(record)
    if after is not None:
        named_end = after.base
    named_end = max(named_end, end)
    synced, _, until_us = max(part.marks, default=(0, 0, 0))
    until_us = next((it.accepted_us for it in later if it.accepted_us), until_us)
    if bad < 0:
        bad = segment.size
    part.add(bad, max(segment.size, synced), end, named_end, max(at_us, until_us))
    part.end = named_end
    if after is None:
        _tear(part, group, synced)
    return at_us


def _tear(part: CheckedSegment, group: int, synced: int) -> None:
    """Take the end of the last segment for torn, if nothing proves that it was synced.

    Args:
        part: the segment.
        group: where the last group begins that any header names.
        synced: up to where a checkpoint proves it.
    """
    for index, stretch in enumerate(part.stretches):
        if stretch.position >= max(group, synced):
            part.torn = stretch.position
            part.end = stretch.base
            del part.stretches[index:]
            break


def _describe_problems(checked: Checked, topic: TopicHeader) -> None:
    """Describe what is wrong, for a person."""
    problems = checked.problems
    if not checked.is_kept:
        problems.append(
            f"{TOPIC_FILE} is damaged or missing; the head of a segment has the same contents"
        )
    for name in checked.unneeded:
        problems.append(f"{name} is damaged, or of another topic; it is not needed")
    end = 0
    if checked.parts:
        end = checked.parts[0].segment.base
    # Several records may tell of one range.
    known = joined(topic.lost, end)
    for part in checked.parts:
        segment = part.segment
        if segment.base < end:
            checked.hopeless.append(
                f"{segment.path} begins at offset {segment.base}, but the one before ends at {end}"
            )
        if part.problem:
            problems.append(f"{segment.path}: {part.problem}")
        for it in part.stretches:
            problems.append(f"{segment.path}: {_described(it)}")
            reason = _why_hopeless(it, segment.size)
            if reason:
                checked.hopeless.append(f"{segment.path}: {reason}")
        if part.torn == 0:
            problems.append(
                f"{segment.path}: only begun, and nothing was ever in it; a start removes it"
            )
        elif part.torn > 0:
            problems.append(
                f"{segment.path}: from position {part.torn} on, a torn end, which a start cuts off"
            )
        end = part.end
    if checked.is_kept and not checked.damaged and joined(checked.lost) != known:
        problems.append(
            f"{TOPIC_FILE} lists other offsets as lost than those that repairs have given up"
        )


def _why_hopeless(stretch: Stretch, size: int) -> str:
    """Returns why no record can take the place of a stretch, for a person; "" if some can.

    Args:
        stretch: the stretch.
        size: of its file.
    """
    at = stretch.position
    if stretch.to < stretch.base:
        return f"before position {at}, offset {stretch.base} is reached, and {stretch.to} after it"
    if stretch.end - at < HEADER.size and stretch.end < size:
        return f"there is no room for a record at position {at}"
    return ""


def _described(stretch: Stretch) -> str:
    where = "records are missing"
    if stretch.position < stretch.end:
        where = f"bytes {stretch.position} to {stretch.end} are damaged"
    offsets = "no messages"
    if stretch.base < stretch.to:
        offsets = f"offsets {stretch.base} to {stretch.to - 1}"
    return f"{where}; {offsets}"
