"""Recovery: whether a log on the disk is whole, torn, or damaged.

A group of records is written, and synced, before the next one begins. So after a crash the end of the last segment may
hold a part of one group, and nothing else may be wrong:

    whole     every record up to the end of the file is good
    torn      bad bytes at the end, and no sign that anything was written after them: the group was never synced, no
              client was told that it was stored, and it is cut off
    damaged   bad bytes, and a record of a later group, a later segment or a checkpoint proves that they were synced

A damaged log is left as it is. The topic can be read up to the damage, and takes no more messages: where it ended is
unknown.
"""

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from zaichik.log.disk import Disk
from zaichik.log.segment import HEAD_SIZE, Segment, Topic, named, seal, unseal
from zaichik.log.state import State, read_checkpoint
from zaichik.log.walk import Step, walk

logger = logging.getLogger(__name__)

TOPIC_FILE = "topic"
_TOPIC_MARK = b"zaichik topic 1\n"
KEPT_CHECKPOINTS = 2
Opened = dict[str, tuple[Segment, Topic] | None]  # segments by name; None if the head is not whole
_UNFINISHED = re.compile(r"\.(topic|[0-9]{20}\.(log|state))")  # what `Disk.replace` was interrupted at


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
        saved: the first offset of the segment that the newest checkpoint belongs to; -1 if there is none.
        unsaved: bytes of records after that.
    """

    topic: Topic | None
    state: State
    segments: list[Segment] = field(default_factory=list)
    torn: int = 0
    damage: str = ""
    is_kept: bool = False
    saved: int = -1
    unsaved: int = 0


def topic_file(topic: Topic) -> bytes:
    """Returns the content of the file `topic`."""
    return seal(_TOPIC_MARK, json.dumps({**topic.told(), "lost": topic.lost}).encode() + b"\n")


def read_topic(data: bytes) -> Topic | None:
    """Returns the topic that the content of the file `topic` names; None if it is damaged.

    Raises:
        NewerFormat: a later version wrote it.
    """
    told = unseal(_TOPIC_MARK, data)
    return None if told is None else Topic.of(json.loads(told))


def new_state(topic: Topic) -> State:
    """Returns the state of a topic without records."""
    return State(topic.settings["compaction_window_ms"] * 1000, topic.settings["max_keys"])


def look(disk: Disk, folder: str, files: dict[str, int]) -> tuple[Topic | None, Opened]:
    """Returns the topic that a folder belongs to, if that is known, and its segments; None for those with bad heads.

    Raises:
        NewerFormat: a later version wrote the folder.
    """
    topic = read_topic(disk.read(f"{folder}/{TOPIC_FILE}", 0, files[TOPIC_FILE])) if TOPIC_FILE in files else None
    opened = {name: Segment.opened(disk, folder, int(name[:20]), files[name]) for name in named(files, "log")}
    return topic or next((found[1] for found in opened.values() if found), None), opened


def recover(disk: Disk, folder: str) -> Recovered:
    """Returns the log in a folder. A torn end is cut off; nothing else is changed.

    Raises:
        NewerFormat: a later version wrote the folder.
    """
    files = disk.files(folder)
    fresh = "".join(f"{folder}/{last}" for last in named(files, "log")[-1:])
    if fresh:
        disk.drop_cache(fresh)  # before its head is believed
    topic, opened = look(disk, folder, files)
    if topic is None:
        return Recovered(None, State(0, 0), damage=f"neither {TOPIC_FILE} nor a segment tells which topic it is")
    recovered = Recovered(topic, new_state(topic), is_kept=TOPIC_FILE in files)
    for name, found in opened.items():
        if found is not None and found[1][:2] == topic[:2]:
            recovered.segments.append(found[0])
        elif found is None and name == [*opened][-1] and files[name] <= HEAD_SIZE:  # no record was ever in it
            disk.remove([f"{folder}/{name}"])
        else:
            recovered.damage = f"{folder}/{name}: the head of the file is damaged"
            break
    _fold(disk, folder, topic, recovered, fresh)
    if not recovered.damage:  # remove what a crash has left: unfinished files
        disk.remove([f"{folder}/{name}" for name in files if _UNFINISHED.fullmatch(name)])
    return recovered


def _fold(disk: Disk, folder: str, topic: Topic, recovered: Recovered, fresh: str) -> None:
    """Find the state: from the newest checkpoint that is good, through all records after it."""
    segments, state = recovered.segments, recovered.state
    index, position, synced = _from_checkpoint(disk, folder, topic, recovered)
    damage, is_cut_short = "", bool(recovered.damage)
    for at, segment in enumerate(segments[index:], index):
        begin = position = position if at == index else HEAD_SIZE
        if segment.base != state.end and position == HEAD_SIZE:
            damage = f"{segment.path}: begins at offset {segment.base}, but the one before ends at {state.end}"
            break
        if segment.path != fresh:
            disk.drop_cache(segment.path)
        steps, rest = walk(disk, segment, position), list[Step]()
        for step in steps:
            if step.record is None or step.record.base != state.end:
                rest.append(step)
                break
            state.add(step.record)
            position = step.end
        recovered.unsaved += position - begin
        is_last = segment is segments[-1] and not is_cut_short
        if rest or (is_last and (segment.base, position) < synced):
            proof = _proof(chain(rest, steps), (segment.base, position), synced, is_last=is_last)
            if proof:
                damage = f"{segment.path}: damaged at position {position}, from offset {state.end} on: {proof}"
                break
            recovered.torn = segment.size - position
            disk.write(segment.path, position, [])
            segment.size = position
    if damage:  # what comes after it cannot be reached
        segment.size = position
        del segments[segments.index(segment) + 1 :]
    elif not segments and synced > (0, 0):
        damage = f"{folder}: a checkpoint mentions records, but their files are gone"
    recovered.damage = damage or recovered.damage


def _from_checkpoint(disk: Disk, folder: str, topic: Topic, recovered: Recovered) -> tuple[int, int, tuple[int, int]]:
    """Take over the newest good checkpoint.

    Returns the index of the segment and the position that records have to be read from, and the base and the position
    up to which a checkpoint proves that all was synced.
    """
    segments = recovered.segments
    known, bad = checkpoints(disk, folder, topic, segments)
    for name in bad:
        logger.warning("%s/%s is damaged, and not needed", folder, name)
    synced = max(((told["segment"], told["position"]) for told, _ in known), default=(0, 0))
    good = [
        (index, told["position"], told, keys)
        for told, keys in known
        for index, segment in enumerate(segments)
        if segment.base == told["segment"] and told["position"] <= segment.size  # else it is gone, or shorter
    ]
    if good:
        place, position, told, keys = max(good, key=itemgetter(0, 1))
        recovered.state.restore(told, keys)
        recovered.saved = told["segment"]
        return place, position, synced
    if segments and segments[0].base:
        recovered.state.end = segments[0].base
        logger.warning("%s: what came before offset %d is unknown: no checkpoint is left", folder, segments[0].base)
    return 0, HEAD_SIZE, synced


def checkpoints(
    disk: Disk, folder: str, topic: Topic, segments: Iterable[Segment]
) -> tuple[list[tuple[dict[str, Any], bytes]], list[str]]:
    """Returns the good checkpoints of a topic, and the names of files that are damaged, or belong to another topic.

    Checkpoints of a file that is none of these segments are left out of both.
    """
    salts, files = {segment.base: segment.salt for segment in segments}, disk.files(folder)
    good, bad = list[tuple[dict[str, Any], bytes]](), list[str]()
    for name in named(files, "state"):
        found = read_checkpoint(disk.read(f"{folder}/{name}", 0, files[name]))
        if found is None or found[0]["epoch"] != topic.epoch:
            bad.append(name)
        elif salts.get(found[0]["segment"], found[0]["salt"]) == found[0]["salt"]:
            good.append(found)
    return good, bad


def _proof(rest: Iterable[Step], place: tuple[int, int], synced: tuple[int, int], *, is_last: bool) -> str:
    """Returns what proves that the rest of a segment, from a place on, was synced; "" if it may be a torn end.

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
    later = next((step for step in rest if step.header is not None and step.header.group_at > place[1]), None)
    return "" if later is None else f"records that were written later follow at position {later.position}"
