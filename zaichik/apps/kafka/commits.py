"""Positions of consumer groups: OffsetCommit and OffsetFetch."""

from typing import Any

import anyio
from kafka.protocol.consumer import OffsetCommitResponse, OffsetFetchResponse

from zaichik import ZaichikError
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.membership import fits
from zaichik.apps.kafka.names import refusal
from zaichik.apps.kafka.positions import MAX_NOTE_BYTES, NO_OFFSET, Place, Position
from zaichik.apps.kafka.session import Session

_Committed = OffsetCommitResponse.OffsetCommitResponseTopic
_CommittedPartition = _Committed.OffsetCommitResponsePartition
_Fetched = OffsetFetchResponse.OffsetFetchResponseTopic
_FetchedPartition = _Fetched.OffsetFetchResponsePartition


async def offset_commit(session: Session, request: Any, _version: int) -> Any:
    """Returns when the positions are stored."""
    refused = _refused(session, request)
    codes: dict[tuple[str, int], Code] = {}
    rows: dict[Place, Position] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            code = refused
            if code is Code.NONE:
                code = await _add(session, request.group_id, topic.name, partition, rows)
            codes[topic.name, partition.partition_index] = code
    try:
        await session.shared.positions.store(rows)
    except ZaichikError as error:
        session.warn(f"positions of {request.group_id[:80]!r} are not stored", error)
        codes = dict.fromkeys(codes, Code.INVALID_COMMIT_OFFSET_SIZE)
    topics = []
    for topic in request.topics:
        partitions = [
            _CommittedPartition(
                partition_index=partition.partition_index,
                error_code=codes[topic.name, partition.partition_index],
            )
            for partition in topic.partitions
        ]
        topics.append(_Committed(name=topic.name, partitions=partitions))
    return OffsetCommitResponse(throttle_time_ms=0, topics=topics)


def _refused(session: Session, request: Any) -> Code:
    """Returns why the group takes no positions from this client; NONE if it does."""
    if not fits(session, request.group_id):
        return Code.INVALID_GROUP_ID
    generation = request.generation_id_or_member_epoch
    group = session.shared.coordinator.find(session.user, request.group_id)
    if group is None:
        if generation >= 0:
            return Code.ILLEGAL_GENERATION
        return Code.NONE
    return group.check_commit(
        request.member_id, request.group_instance_id, generation, anyio.current_time()
    )


async def _add(
    session: Session, group: str, topic: str, partition: Any, rows: dict[Place, Position]
) -> Code:
    """Add a position to those that are stored; returns why it is not, or NONE."""
    place = (session.user, group, topic)
    note = partition.committed_metadata or ""
    if (refused := refusal(topic)) is not Code.NONE:
        return refused
    if partition.partition_index != 0:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if not session.shared.positions.fits(place):
        return Code.INVALID_GROUP_ID
    if len(note.encode()) > MAX_NOTE_BYTES:
        return Code.OFFSET_METADATA_TOO_LARGE
    state = await session.client.topic(topic)
    if state is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    rows[place] = Position(partition.committed_offset, int(state["epoch"]), note)
    return Code.NONE


async def offset_fetch(session: Session, request: Any, _version: int) -> Any:
    """Returns the positions of a group: in the topics named, or in all that it has."""
    if request.topics is None:
        names = session.shared.positions.topics_of(session.user, request.group_id)
        wanted = {name: {0} for name in names}
    else:
        # Each once: a request can ask ten thousand times for a position with a long note.
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.name, set()).update(topic.partition_indexes)
    topics = []
    for name, indexes in wanted.items():
        position = await _position(session, request.group_id, name)
        partitions = [_partition(index, position) for index in sorted(indexes)]
        topics.append(_Fetched(name=name, partitions=partitions))
    return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=Code.NONE)


async def _position(session: Session, group: str, topic: str) -> Position | None:
    """Returns a group's position in a topic as it is now; None if it has none."""
    position = session.shared.positions.get((session.user, group, topic))
    if position is None:
        return None
    state = await session.client.topic(topic)
    if state is None or int(state["epoch"]) != position.epoch:
        session.warn(
            f"group {group[:80]!r} begins anew in {topic[:80]!r}",
            "the topic is another one than it has read",
        )
        return None
    return position


def _partition(index: int, position: Position | None) -> Any:
    offset, note = NO_OFFSET, ""
    if position is not None and index == 0:
        offset, note = position.offset, position.note
    return _FetchedPartition(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=-1,
        metadata=note,
        error_code=Code.NONE,
    )
