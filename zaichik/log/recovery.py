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
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from zaichik.log.disk import Disk
from zaichik.log.record import HEADER, Record, header, next_header, unpack
from zaichik.log.segment import HEAD_SIZE, Segment, Topic
from zaichik.log.state import State, read_checkpoint

logger = logging.getLogger(__name__)

TOPIC_FILE = "topic.json"
READ_SIZE = 256 * 1024
KEPT_CHECKPOINTS = 2


@dataclass
class Recovered:
    """A topic's log as a start finds it.

    Attributes:
        topic: which it is; None if nothing in its folder says so.
        segments: the oldest first.
        state: what the records amount to.
        torn: bytes that were cut off.
        damage: what is wrong, for a person; "" if nothing is.
    """

    topic: Topic | None
    state: State
    segments: list[Segment] = field(default_factory=list)
    torn: int = 0
    damage: str = ""


def topic_file(topic: Topic) -> bytes:
    """Returns the content of `topic.json`, with its checksum."""
    told = json.dumps(topic._asdict(), sort_keys=True)
    return json.dumps({"topic": topic._asdict(), "crc": crc32(told.encode())}, indent=1).encode() + b"\n"


def read_topic(data: bytes) -> Topic | None:
    """Returns the topic that the content of `topic.json` names; None if it is damaged."""
    try:
        told = json.loads(data)
        topic = Topic(**told["topic"])
        whole = crc32(json.dumps(topic._asdict(), sort_keys=True).encode()) == told["crc"]
    except (ValueError, KeyError, TypeError):
        return None
    return topic if whole else None


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


def recover(disk: Disk, folder: str) -> Recovered:
    """Returns the log in a folder. A torn end is cut off; nothing else is changed."""
    files = disk.files(folder)
    topic = read_topic(disk.read(f"{folder}/{TOPIC_FILE}", 0, READ_SIZE)) if TOPIC_FILE in files else None
    names = sorted(name for name in files if name.endswith(".log"))
    opened = [(name, Segment.opened(disk, folder, int(name[:20]), files[name])) for name in names]
    if topic is None and (known := next((found[1] for _, found in opened if found), None)):
        logger.warning("%s/%s is missing or damaged; the segments say what it said", folder, TOPIC_FILE)
        topic = known
    if topic is None:
        return Recovered(None, State(0, 0), damage=f"neither {TOPIC_FILE} nor a segment tells which topic it is")
    recovered = Recovered(topic, new_state(topic))
    for name, found in opened:
        if found is not None:
            recovered.segments.append(found[0])
        elif name == names[-1] and files[name] <= HEAD_SIZE:  # the crash came before it had a record
            disk.remove([f"{folder}/{name}"])
        else:
            recovered.damage = f"{name}: the head of the file is damaged"
            return recovered
    _fold(disk, folder, files, recovered)
    return recovered


def _fold(disk: Disk, folder: str, files: dict[str, int], recovered: Recovered) -> None:
    """Find the state: from the newest checkpoint that is good, through all records after it."""
    segments, state = recovered.segments, recovered.state
    index, position = 0, HEAD_SIZE
    synced = (0, 0)  # the base and the position up to which a checkpoint proves that all was synced
    for name in sorted((name for name in files if name.endswith(".state")), reverse=True):
        found = read_checkpoint(disk.read(f"{folder}/{name}", 0, files[name]))
        if found is None:
            logger.warning("%s/%s is damaged, and not needed", folder, name)
            continue
        told, keys = found
        synced = max(synced, (told["segment"], told["position"]))
        if (place := _place(told, segments)) is not None:
            index, position = place, told["position"]
            state.restore(told, keys)
            break
    else:
        if segments:
            state.end = segments[0].base
    for at, segment in enumerate(segments[index:], index):
        position = position if at == index else HEAD_SIZE
        if segment.base != state.end and position == HEAD_SIZE:
            recovered.damage = (
                f"{segment.path}: begins at offset {segment.base}, but the one before ends at {state.end}"
            )
            break
        disk.settle(segment.path)
        for after, record in records(disk, segment, position):
            if record.base != state.end:
                break
            state.add(record)
            position = after
        if position < segment.size or (segment.base, position) < synced:
            is_last = segment is segments[-1]
            recovered.damage = _judge(disk, segment, position, is_last=is_last, synced=synced, end=state.end)
            if recovered.damage:
                break
            recovered.torn = segment.size - position
            disk.write(segment.path, position, [])
            segment.size = position
    if recovered.damage:  # what lies behind it cannot be reached
        segment.size = position
        del segments[segments.index(segment) + 1 :]


def _place(told: dict[str, Any], segments: list[Segment]) -> int | None:
    """Returns the index of the segment that a checkpoint stands in; None if it is gone, or shorter."""
    for index, segment in enumerate(segments):
        if segment.base == told["segment"] and segment.salt == told["salt"] and told["position"] <= segment.size:
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
