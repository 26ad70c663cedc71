"""Recovery: whether a log on the disk is whole, torn, or damaged.

A group of records is written, and synced, before the next one begins. So after a crash the end of
the last segment may hold a part of one group, and nothing else may be wrong:

    whole     every record up to the end of the file is good
    torn      bad bytes at the end, and no sign that anything was written after them: the group was
              never synced, no client was told that it was stored, and it is cut off
    damaged   bad bytes, and a record of a later group, a later segment or a checkpoint proves that
              they were synced

A damaged log is left as it is. The topic can be read up to the damage, and takes no more messages:
where it ended is unknown.

A start sees what the process before it has done, and the power cut after that may not leave it so.
Before anything is believed, it is put on the disk: the names in the folder, and the bytes of what
is read. Two kinds of files are not part of the log, though they have its names:

    begun       the last file, without a whole head, and no longer than one: nobody was told of
                anything in it. It is removed. Its name is believed, because a file is begun only
                after all before it was synced: if that is not whole up to there, it is damaged.
    left over   files below the offset at which, as a checkpoint says, the log begins; of a table,
                also those that the file before them has replaced, as its head says. Their removal
                was interrupted, and is completed.
"""

import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from zaichik.base.clock import MILLISECOND_US
from zaichik.core.jumps import Jump
from zaichik.core.tables.keep_last import KeepLast
from zaichik.storage.disk import Disk
from zaichik.storage.segment import (
    HEAD_SIZE,
    Segment,
    TopicHeader,
    seal,
    sorted_names,
    unseal_object,
)
from zaichik.storage.state import LogState, read_checkpoint
from zaichik.storage.walk import Step, walk

logger = logging.getLogger("zaichik.log.recovery")

TOPIC_FILE = "topic"
_TOPIC_MARK = b"zaichik topic 1\n"
KEPT_CHECKPOINTS = 2
# Segments by name; None if the head is not whole.
OpenedSegments = dict[str, tuple[Segment, TopicHeader] | None]
# What a checkpoint says, and its keys.
Checkpoint = tuple[dict[str, Any], bytes]
# What `Disk.replace` was interrupted at.
_UNFINISHED = re.compile(r"\.(topic|[0-9]{20}\.(log|state))")


@dataclass
class Recovered:
    """A topic's log, as it is found when a broker starts.

    Attributes:
        topic: the topic; None if nothing in the folder identifies it.
        segments: the oldest first.
        state: the fold over the records.
        torn: bytes that were cut off.
        damage: what is wrong, for a person; "" if nothing is.
        is_kept: whether the topic has its folder.
        saved: the first offset of the segment that the newest checkpoint belongs to; -1 if there is
            none.
        saved_before: the same of the checkpoint before.
        saved_end: the offset after the last message, as the newest checkpoint says; -1 without one.
        kept: of a table: what is in it.
        unsaved: bytes of records after that.
    """

    topic: TopicHeader | None
    state: LogState
    segments: list[Segment] = field(default_factory=list)
    torn: int = 0
    damage: str = ""
    is_kept: bool = False
    saved: int = -1
    saved_before: int = -1
    saved_end: int = -1
    kept: KeepLast | None = None
    unsaved: int = 0


def topic_file(topic: TopicHeader) -> bytes:
    """Returns the content of the file `topic`."""
    return seal(_TOPIC_MARK, json.dumps({**topic.fields(), "lost": topic.lost}).encode() + b"\n")


def read_topic(data: bytes) -> TopicHeader | None:
    """Returns the topic that the content of the file `topic` names; None if it is damaged.

    Raises:
        NewerFormat: a later version wrote it.
    """
    fields = unseal_object(_TOPIC_MARK, data)
    if fields is None:
        return None
    return TopicHeader.of(fields)


def new_state(topic: TopicHeader) -> LogState:
    """Returns the state of a topic without records."""
    window_us = topic.settings["compaction_window_ms"] * MILLISECOND_US
    return LogState(window_us, topic.settings["max_keys"])


def identify(
    disk: Disk, folder: str, files: dict[str, int]
) -> tuple[TopicHeader | None, OpenedSegments]:
    """Returns the topic that a folder belongs to, if that is known, and its segments.

    Raises:
        NewerFormat: a later version wrote the folder.
    """
    topic: TopicHeader | None = None
    if TOPIC_FILE in files:
        topic = read_topic(disk.read(f"{folder}/{TOPIC_FILE}", 0, files[TOPIC_FILE]))
    opened: OpenedSegments = {}
    for name in sorted_names(files, "log"):
        found = Segment.open(disk, folder, int(name[:20]), files[name])
        opened[name] = found
        # The head of a segment has the same contents as the file.
        if topic is None and found is not None:
            topic = found[1]
    return topic, opened


def recover(disk: Disk, folder: str, jumps: Sequence[Jump] = ()) -> Recovered:
    """Returns the log in a folder. A torn end is cut off; nothing else is changed.

    Args:
        disk: where it is.
        folder: the topic's.
        jumps: those of the broker's clock that are known.

    Raises:
        NewerFormat: a later version wrote the folder.
    """
    disk.sync_names(folder)
    files = disk.files(folder)
    fresh = ""
    names = sorted_names(files, "log")
    if names:
        fresh = f"{folder}/{names[-1]}"
        disk.drop_cache(fresh)  # before its head is believed
    topic, opened = identify(disk, folder, files)
    if topic is None:
        unknown = f"neither {TOPIC_FILE} nor a segment tells which topic it is"
        return Recovered(None, LogState(0, 0), damage=unknown)
    recovered = Recovered(topic, new_state(topic), is_kept=TOPIC_FILE in files)
    recovered.state.jumps = jumps
    known, bad = checkpoints(disk, folder, topic)
    for name in bad:
        logger.warning("%s/%s is damaged, and not needed", folder, name)
    head = recorded_head(known)
    # What no crash leaves in a log: what it was interrupted at is removed at the end.
    left = [name for name in files if _UNFINISHED.fullmatch(name)]
    begun = ""
    gone = left_over(opened, topic, head)
    left += gone
    for name, found in opened.items():
        if name in gone:
            continue
        if found is not None and found[1].is_of(topic):
            recovered.segments.append(found[0])
        elif found is None and name == names[-1] and files[name] <= HEAD_SIZE:
            begun = name
        else:
            recovered.damage = f"{folder}/{name}: the head of the file is damaged"
            break
    _fold(disk, folder, known, recovered, fresh, begun)
    if begun and not recovered.damage:
        base = int(begun[:20])
        if base == recovered.state.end:
            left.append(begun)
        else:
            recovered.damage = _gap(f"{folder}/{begun}", base, recovered.state.end)
    if not recovered.damage:
        disk.remove([f"{folder}/{name}" for name in left])
    return recovered


def left_over(opened: OpenedSegments, topic: TopicHeader, head: int) -> list[str]:
    """Returns the names of files that are not part of the log any more.

    Args:
        opened: the segments, the oldest first.
        topic: the topic.
        head: the offset at which the log begins, as its checkpoints say.
    """
    names: list[str] = []
    begins = head
    for name, found in opened.items():
        if int(name[:20]) < begins:
            names.append(name)
        elif found is not None and found[1].is_of(topic):
            # What it was made of, if it was.
            begins = max(begins, found[0].until)
    return names


def _gap(path: str, base: int, end: int) -> str:
    return f"{path}: begins at offset {base}, but the one before ends at {end}"


def recorded_head(known: Iterable[Checkpoint]) -> int:
    """Returns the offset at which a log begins, as its checkpoints say; 0 if none does."""
    return max((fields.get("head", 0) for fields, _ in known), default=0)


def _fold(
    disk: Disk,
    folder: str,
    known: Iterable[Checkpoint],
    recovered: Recovered,
    fresh: str,
    begun: str,
) -> None:
    """Find the state: from the newest checkpoint that is good, through all records after it.

    Args:
        disk: where it is.
        folder: the topic's.
        known: its checkpoints.
        recovered: has the segments, and gets the state.
        fresh: the path of the last file, which was read from the disk already.
        begun: the name of a file that was begun after the last segment; "" if none was.
    """
    segments = recovered.segments
    state = recovered.state
    index, position, synced = _from_checkpoint(folder, known, recovered)
    damage = ""
    is_cut_short = bool(recovered.damage or begun)
    for at, segment in enumerate(segments[index:], index):
        # Only the first one may be read from a checkpoint on.
        if at != index:
            position = HEAD_SIZE
        begin = position
        if segment.base != state.end and position == HEAD_SIZE:
            damage = _gap(segment.path, segment.base, state.end)
            break
        if segment.path != fresh:
            disk.drop_cache(segment.path)
        steps = walk(disk, segment, position)
        rest: list[Step] = []
        for step in steps:
            if step.record is None or step.record.base != state.end:
                rest.append(step)
                break
            state.add(step.record)
            position = step.end
        recovered.unsaved += position - begin
        is_last = segment is segments[-1] and not is_cut_short
        if rest or (is_last and (segment.base, position) < synced):
            place = (segment.base, position)
            proof = _proof(chain(rest, steps), place, synced, is_last=is_last)
            if proof:
                damage = (
                    f"{segment.path}: damaged at position {position}, "
                    f"from offset {state.end} on: {proof}"
                )
                break
            recovered.torn = segment.size - position
            disk.write(segment.path, position, [])
            segment.size = position
    if damage:
        # What comes after it cannot be reached.
        segment.size = position
        del segments[segments.index(segment) + 1 :]
    elif not segments and synced > (0, 0):
        damage = f"{folder}: a checkpoint mentions records, but their files are gone"
    recovered.damage = damage or recovered.damage


def _from_checkpoint(
    folder: str, checkpoints: Iterable[Checkpoint], recovered: Recovered
) -> tuple[int, int, tuple[int, int]]:
    """Take over the newest good checkpoint.

    Returns the index of the segment and the position that records have to be read from, and the
    base and the position up to which a checkpoint proves that all was synced.
    """
    segments = recovered.segments
    known = of_segments(checkpoints, segments)
    places = [(fields["segment"], fields["position"]) for fields, _ in known]
    synced = max(places, default=(0, 0))
    good = []
    for fields, keys in known:
        for index, segment in enumerate(segments):
            # If not, its segment is gone, or shorter.
            if segment.base == fields["segment"] and fields["position"] <= segment.size:
                good.append((index, fields["position"], fields, keys))
    if good:
        place, position, fields, keys = max(good, key=itemgetter(0, 1))
        recovered.state.restore(fields, keys)
        recovered.saved = fields["segment"]
        recovered.saved_end = fields["end"]
        if len(good) > 1:
            recovered.saved_before = sorted(good, key=itemgetter(0, 1))[-2][2]["segment"]
        return place, position, synced
    if segments and segments[0].base:
        recovered.state.end = segments[0].base
        logger.warning(
            "%s: what came before offset %d is unknown: no checkpoint is left",
            folder,
            segments[0].base,
        )
    return 0, HEAD_SIZE, synced


def checkpoints(disk: Disk, folder: str, topic: TopicHeader) -> tuple[list[Checkpoint], list[str]]:
    """Returns the good checkpoints of a topic, and the names of the bad ones.

    A bad one is damaged, or belongs to another topic.
    """
    files = disk.files(folder)
    good: list[Checkpoint] = []
    bad: list[str] = []
    for name in sorted_names(files, "state"):
        found = read_checkpoint(disk.read(f"{folder}/{name}", 0, files[name]))
        if found is None or found[0]["epoch"] != topic.epoch:
            bad.append(name)
        else:
            good.append(found)
    return good, bad


def of_segments(known: Iterable[Checkpoint], segments: Iterable[Segment]) -> list[Checkpoint]:
    """Returns the checkpoints without those of a file that one of these segments has replaced."""
    salts = {segment.base: segment.salt for segment in segments}
    fitting: list[Checkpoint] = []
    for fields, keys in known:
        if salts.get(fields["segment"], fields["salt"]) == fields["salt"]:
            fitting.append((fields, keys))
    return fitting


def _proof(
    rest: Iterable[Step], place: tuple[int, int], synced: tuple[int, int], *, is_last: bool
) -> str:
    """Returns what proves that the rest of a segment, from a place on, was synced.

    "" if it may be a torn end.

    Args:
        rest: the steps from there on.
        place: the base of the segment, and the position.
        synced: the place up to which a checkpoint proves it.
        is_last: whether no segment follows.
    """
    if not is_last:
        return "another segment follows"
    if place < synced:
        return "a checkpoint was made after it was written"
    for step in rest:
        # A group is begun only after the sync of the one before.
        if step.header is not None and step.header.group_at > place[1]:
            return f"records that were written later follow at position {step.position}"
    return ""
