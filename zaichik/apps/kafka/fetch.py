"""Reading: Fetch and ListOffsets.

A fetch waits, for as long as it may, until one of its topics has something: each of them has a
task that waits in its subscription, and the first one wakes the others. Nothing is polled.
"""

from datetime import UTC, datetime
from typing import Any

import anyio
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse

from zaichik import ZaichikError
from zaichik.apps.kafka.codes import Code, code_of
from zaichik.apps.kafka.names import refusal
from zaichik.apps.kafka.readings import MILLISECOND_US, Fetched, Reading, lost
from zaichik.apps.kafka.session import Session
from zaichik_protocol import Messages

MAX_WAIT_SECONDS = 300.0
# Of one response, whatever the consumer would take: it is in memory while it is sent.
MAX_RESPONSE = 8 * 1024 * 1024

# The broker sends what it has within milliseconds. Only at the end of a table, where all that is
# left may be holes, is this time over without anything.
HISTORY_SECONDS = 1.0

LATEST, EARLIEST = -1, -2
# Kafka's times are in ms, and go further than Python's.
LAST_MS = 253_402_300_799_000
LOOK_SECONDS = 10.0

_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData
_Offsets = ListOffsetsResponse.ListOffsetsTopicResponse
_Offset = _Offsets.ListOffsetsPartitionResponse


async def fetch(session: Session, request: Any, version: int) -> Any:
    """Returns batches of the topics that were asked for."""
    seconds = min(max(request.max_wait_ms, 0) / 1000, MAX_WAIT_SECONDS)
    found = await _opened(session, request)
    await _wait_for_one(session, found, seconds)
    room = MAX_RESPONSE
    if version >= 3:
        # The first batch is sent in any case, or a consumer would ask for it for ever.
        room = min(room, max(request.max_bytes, 1))
    if any(isinstance(it, Reading) and it.has_received for it in found.values()):
        room = await session.room_for_response(min(room, _wanted(session, request)))
    left = room
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            fetched = await _taken(session, topic.topic, partition, found, left)
            left -= len(fetched.records)
            partitions.append(_partition(session, topic.topic, partition, fetched))
        topics.append(_Topic(topic=topic.topic, partitions=partitions))
    if session.response is not None:
        session.response.shrink(room - left)
    return FetchResponse(throttle_time_ms=0, error_code=Code.NONE, session_id=0, responses=topics)


def _wanted(session: Session, request: Any) -> int:
    """Returns how many bytes of records a request may get at most.

    From each topic that is one batch at least, however little is asked for.
    """
    least = session.client.welcome.max_message
    partitions = [partition for topic in request.topics for partition in topic.partitions]
    return sum(max(partition.partition_max_bytes, least) for partition in partitions)


async def _opened(session: Session, request: Any) -> dict[str, Reading | Fetched]:
    """Returns the reading of each topic, or what its consumer is told instead."""
    found: dict[str, Reading | Fetched] = {}
    in_turn = set(session.readings.in_turn([topic.topic for topic in request.topics]))
    for topic in request.topics:
        if topic.topic not in in_turn:
            found[topic.topic] = Fetched(Code.NONE)
            continue
        code = refusal(topic.topic)
        if code is not Code.NONE:
            found[topic.topic] = Fetched(code)
            continue
        for partition in topic.partitions:
            if partition.partition == 0:
                found[topic.topic] = await session.readings.at(
                    session.client, session.user, topic.topic, partition.fetch_offset
                )
    return found


async def _wait_for_one(
    session: Session, found: dict[str, Reading | Fetched], seconds: float
) -> None:
    """Wait until one topic has something, or something to say."""
    readings = [reading for reading in found.values() if isinstance(reading, Reading)]
    others = [fetched for fetched in found.values() if isinstance(fetched, Fetched)]
    if any(fetched.code is not Code.NONE for fetched in others):
        seconds = 0.0
    if not readings:
        # A client that asks for nothing, again and again, waits in between.
        await anyio.sleep(seconds)
        return
    if any(reading.is_behind for reading in readings):
        # Kafka would answer with what it has on its disk, however short the wait.
        seconds = max(seconds, HISTORY_SECONDS)
    async with anyio.create_task_group() as tasks:

        async def wait(reading: Reading) -> None:
            try:
                await reading.wait(seconds)
            except ZaichikError as error:
                found[reading.topic] = lost(error)
            tasks.cancel_scope.cancel()

        for reading in readings:
            tasks.start_soon(wait, reading)
    for topic in [topic for topic, it in found.items() if isinstance(it, Fetched)]:
        await session.readings.drop(topic)


async def _taken(
    session: Session,
    topic: str,
    partition: Any,
    found: dict[str, Reading | Fetched],
    room: int,
) -> Fetched:
    """Returns what there is of one topic by now."""
    reading = found.get(topic)
    if partition.partition != 0 or reading is None:
        return Fetched(Code.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(reading, Fetched):
        return reading
    max_bytes = min(max(partition.partition_max_bytes, 1), room)
    if max_bytes <= 0:
        return Fetched(Code.NONE, end=reading.end)
    fetched = await reading.taken(max_bytes)
    if fetched.code is not Code.NONE:
        await session.readings.drop(topic)
    return fetched


def _partition(session: Session, topic: str, partition: Any, fetched: Fetched) -> Any:
    """Returns the response for a partition; what is lost is logged and counted."""
    session.traffic.sent_messages += fetched.messages
    session.counts.skipped += fetched.skipped
    if fetched.evicted:
        session.counts.evicted += fetched.evicted
        session.warn(
            f"{topic[:80]!r} has lost messages before they could be fetched",
            f"offset {partition.fetch_offset} is asked for, and {fetched.head} is the oldest",
        )
    elif fetched.code is Code.OFFSET_OUT_OF_RANGE:
        # Many consumers go on at the end then, and never see what a new topic has by now.
        session.counts.beyond += 1
        session.warn(
            f"{topic[:80]!r} does not reach the offset that a consumer asks for",
            f"offset {partition.fetch_offset}; the topic may have been deleted and made again",
        )
    return _Partition(
        partition_index=partition.partition,
        error_code=fetched.code,
        high_watermark=fetched.end,
        last_stable_offset=fetched.end,
        log_start_offset=fetched.head,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=fetched.records,
    )


async def list_offsets(session: Session, request: Any, _version: int) -> Any:
    """Returns the first or the last offset of topics, or the one of a time."""
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            code, offset, time_ms = Code.UNKNOWN_TOPIC_OR_PARTITION, -1, -1
            if partition.partition_index == 0:
                code, offset, time_ms = await _offset(session, topic.name, partition.timestamp)
            answer = _Offset(
                partition_index=partition.partition_index,
                error_code=code,
                timestamp=time_ms,
                offset=offset,
                leader_epoch=-1,
                old_style_offsets=[],
            )
            partitions.append(answer)
        topics.append(_Offsets(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


async def _offset(session: Session, topic: str, time_ms: int) -> tuple[Code, int, int]:
    """Returns a code, the offset of the first message since that time, and when it was accepted."""
    if (refused := refusal(topic)) is not Code.NONE:
        return refused, -1, -1
    state = await session.client.topic(topic)
    if state is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION, -1, -1
    if time_ms == LATEST:
        return Code.NONE, int(state["next_offset"]), -1
    if time_ms == EARLIEST:
        return Code.NONE, int(state["head"]), -1
    if time_ms < 0:
        return Code.INVALID_REQUEST, -1, -1
    if time_ms > LAST_MS:
        return Code.NONE, -1, -1
    try:
        return await _first_since(session, topic, int(state["epoch"]), time_ms)
    except ZaichikError as error:
        return code_of(error), -1, -1


async def _first_since(
    session: Session, topic: str, epoch: int, time_ms: int
) -> tuple[Code, int, int]:
    """Returns NONE, the first offset since that time, and its time; both -1 if there is none."""
    start = datetime.fromtimestamp(time_ms / 1000, UTC)
    async with session.client.subscribe(topic, start=start, epoch=epoch, credit=1) as subscription:
        if subscription.start >= subscription.live:
            return Code.NONE, -1, -1
        for item in await subscription.fetch(LOOK_SECONDS):
            if isinstance(item, Messages):
                offset = item.base
                if item.holes:
                    offset += item.deltas[0]
                return Code.NONE, offset, item.accepted_us // MILLISECOND_US
    return Code.NONE, -1, -1
