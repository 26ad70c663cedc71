"""What a log on the disk is worth: whole, torn, or damaged.

A group of records is written, and synced, before the next one begins. So after a crash the end of the last segment may
hold a part of one group, and nothing else may be wrong:

    whole     every record up to the end of the file is good
    torn      bad bytes at the end, and no sign that anything was written after them: the group was never synced, nobody
              was told that it was stored, and it is cut off
    damaged   bad bytes, and a record of a later group, a later segment or a checkpoint proves that they were synced

What is damaged is kept as it is. The topic can be read up to there, and takes no more messages: where it ended is
unknown.
"""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any
from zlib import crc32

from zaichik.log.disk import Disk
from zaichik.log.record import HEADER, Record, header, next_header, unpack
from zaichik.log.segment import HEAD_SIZE, Segment, Topic, named
from zaichik.log.state import State, read_checkpoint

logger = logging.getLogger(__name__)

TOPIC_FILE = "topic.json"
READ_SIZE = 256 * 1024
KEPT_CHECKPOINTS = 2
Opened = dict[str, tuple[Segment, Topic] | None]  # segments by name; None if the head is not whole
_UNFINISHED = re.compile(r"\.(topic\.json|[0-9]{20}\.(index|log|state))")  # what `Disk.replace` was interrupted at


@dataclass
class Recovered:
    """A topic's log as a start finds it.

    Attributes:
        topic: which it is; None if nothing in its folder says so.
        segments: the oldest first.
        state: what the records amount to.
        torn: bytes that were cut off.
        damage: what is wrong, for a person; "" if nothing is.
        is_kept: whether the topic has its folder.
        saved: the first offset of the segment that the newest checkpoint is of; -1 if there is none.
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
    """Returns the content of `topic.json`, with its checksum."""
    told = topic.told()
    crc = crc32(json.dumps(told, sort_keys=True).encode())
    return json.dumps({"topic": told, "crc": crc}, indent=1).encode() + b"\n"


def read_topic(data: bytes) -> Topic | None:
    """Returns the topic that the content of `topic.json` names; None if it is damaged.

    Raises:
        NewerFormat: it is not for this version to read.
    """
    try:
        told = json.loads(data)
        is_whole = crc32(json.dumps(told["topic"], sort_keys=True).encode()) == told["crc"]
    except (ValueError, KeyError, TypeError):
        return None
    return Topic.of(told["topic"]) if is_whole else None


def new_state(topic: Topic) -> State:
    """Returns the state of a topic without records."""
    return State(topic.settings["compaction_window_ms"] * 1000, topic.settings["max_keys"])


def records(disk: Disk, segment: Segment, position: int) -> Iterator[tuple[int, Record]]:
    """Returns the good records from a position on, each with the position after it, up to the first bad byte."""
    data, start, asked = b"", position, 0
    while position < segment.size:
        at = position - start
        found = unpack(data, at, segment.salt)
        if found is None:
            top = header(data, at, segment.salt)
            wanted = HEADER.size if top is None else top.size
            if at == 0 and asked >= wanted:
                return
            start, asked = position, max(READ_SIZE, wanted)
            data = disk.read(segment.path, position, asked)
            continue
        record, top = found
        position += top.size
        yield position, record


def look(disk: Disk, folder: str, files: dict[str, int]) -> tuple[Topic | None, Opened]:
    """Returns the topic that a folder is of, if that is known, and its segments, as far as they begin well.

    Raises:
        NewerFormat: the folder is not for this version to read.
    """
    topic = read_topic(disk.read(f"{folder}/{TOPIC_FILE}", 0, READ_SIZE)) if TOPIC_FILE in files else None
    opened = {name: Segment.opened(disk, folder, int(name[:20]), files[name]) for name in named(files, "log")}
    return topic or next((found[1] for found in opened.values() if found), None), opened


def recover(disk: Disk, folder: str) -> Recovered:
    """Returns the log in a folder. A torn end is cut off; nothing else is changed.

    Raises:
        NewerFormat: the folder is not for this version to read.
    """
    files = disk.files(folder)
    settled = "".join(f"{folder}/{last}" for last in named(files, "log")[-1:])
    if settled:
        disk.settle(settled)  # before its head is believed
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
    _fold(disk, folder, files, recovered, settled)
    if not recovered.damage:
        _tidy(disk, folder, files)
    return recovered


def _fold(disk: Disk, folder: str, files: dict[str, int], recovered: Recovered, settled: str) -> None:
    """Find the state: from the newest checkpoint that is good, through all records after it."""
    segments, state = recovered.segments, recovered.state
    index, position, synced = _from_checkpoint(disk, folder, files, recovered)
    damage, is_cut_short = "", bool(recovered.damage)
    for at, segment in enumerate(segments[index:], index):
        begin = position = position if at == index else HEAD_SIZE
        if segment.base != state.end and position == HEAD_SIZE:
            damage = f"{segment.path}: begins at offset {segment.base}, but the one before ends at {state.end}"
            break
        if segment.path != settled:
            disk.settle(segment.path)
        for after, record in records(disk, segment, position):
            if record.base != state.end:
                break
            state.add(record)
            position = after
        recovered.unsaved += position - begin
        is_last = segment is segments[-1] and not is_cut_short
        if position < segment.size or (is_last and (segment.base, position) < synced):
            damage = _judge(disk, segment, position, is_last=is_last, synced=synced, end=state.end)
            if damage:
                break
            recovered.torn = segment.size - position
            disk.write(segment.path, position, [])
            segment.size = position
    if damage:  # what lies behind it cannot be reached
        segment.size = position
        del segments[segments.index(segment) + 1 :]
    elif segments and segments[-1].base == state.end:  # it will go on, and readers must not look for its index then
        segments[-1].note(state.end, segments[-1].accepted_us, HEAD_SIZE)
    elif not segments and synced > (0, 0):
        damage = f"{folder}: a checkpoint tells of records, but their files are gone"
    recovered.damage = damage or recovered.damage


def _from_checkpoint(
    disk: Disk, folder: str, files: dict[str, int], recovered: Recovered
) -> tuple[int, int, tuple[int, int]]:
    """Take over the newest good checkpoint.

    Returns the index of the segment and the position that records have to be read from, and the base and the position
    up to which a checkpoint proves that all was synced.
    """
    segments, synced, good = recovered.segments, (0, 0), list[tuple[int, int, dict[str, Any], bytes]]()
    salts = {segment.base: segment.salt for segment in segments}
    for name in named(files, "state"):
        found = read_checkpoint(disk.read(f"{folder}/{name}", 0, files[name]))
        if found is None or recovered.topic is None or found[0]["epoch"] != recovered.topic.epoch:
            logger.warning("%s/%s is damaged, and not needed", folder, name)
            continue
        told, keys = found
        if salts.get(told["segment"], told["salt"]) != told["salt"]:
            continue  # of another file
        synced = max(synced, (told["segment"], told["position"]))
        if (place := _place(told, segments)) is not None:
            good.append((place, told["position"], told, keys))
    if good:
        place, position, told, keys = max(good, key=itemgetter(0, 1))
        recovered.state.restore(told, keys)
        recovered.saved = told["segment"]
        return place, position, synced
    if segments and segments[0].base:
        recovered.state.end = segments[0].base
        logger.warning("%s: what came before offset %d is not known: no checkpoint is left", folder, segments[0].base)
    return 0, HEAD_SIZE, synced


def _tidy(disk: Disk, folder: str, files: dict[str, int]) -> None:
    """Remove what a crash has left: files that were not finished, indexes of segments that are gone."""
    orphans = [name for name in named(files, "index") if f"{name[:20]}.log" not in files]
    if left := [name for name in files if _UNFINISHED.fullmatch(name)] + orphans:
        disk.remove([f"{folder}/{name}" for name in left])


def _place(told: dict[str, Any], segments: list[Segment]) -> int | None:
    """Returns the index of the segment that a checkpoint stands in; None if it is gone, or shorter."""
    for index, segment in enumerate(segments):
        if segment.base == told["segment"] and told["position"] <= segment.size:
            return index
    return None


def _judge(disk: Disk, segment: Segment, position: int, *, is_last: bool, synced: tuple[int, int], end: int) -> str:
    """Returns what is wrong with the bytes from a position on; "" if they are a torn end."""
    rest = disk.read(segment.path, position, segment.size - position)
    at, proof = 0, ""
    if not is_last:
        proof = "another segment follows"
    elif (segment.base, position) < synced:
        proof = "a checkpoint was made after it was written"
    while not proof and (found := next_header(rest, at, segment.salt)) is not None:
        at = found[0] + 1
        if found[1].group_at > position:
            proof = f"records that were written later follow at position {position + found[0]}"
    return proof and f"{segment.path}: damaged at position {position}, from offset {end} on: {proof}"
