"""Storing records: Produce and InitProducerId.

A response is sent when the broker has answered, so in a durable topic when the messages are on the
disk: `acks=1` and `acks=all` are the same. But with `--acked-by`, that of `acks=all` is sent when
the messages are replicated, too (AK-1). As in Kafka, it holds up those behind it.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from kafka.protocol.producer import InitProducerIdResponse, ProduceResponse

from zaichik import ZaichikError
from zaichik.apps.kafka.codes import Code, code_of
from zaichik.apps.kafka.compression import BadBatch
from zaichik.apps.kafka.memory import NoMemory
from zaichik.apps.kafka.names import refusal
from zaichik.apps.kafka.producers import Producer, Remembered
from zaichik.apps.kafka.records import NO_PRODUCER, Produced, Row, memory_of, unpack
from zaichik.apps.kafka.session import Session
from zaichik.client.messages import AckedBy
from zaichik_protocol import Unencodable

PRODUCER_BITS = 62  # of a random id: it is a positive number of 64 bits
# A batch of the broker has its own limit of bytes, keys and payloads, and 8 more for each message.
MESSAGE_OVERHEAD = 8

# How long a batch may wait for room: as long as its client says, within these.
ALL = -1  # of `acks`
NO_ROOM = "the topic has no room for it yet"
NOT_REPLICATED = "it is stored, and not replicated yet: does `zaichik bridge` copy this topic?"
LEAST_SECONDS = 1.0
MOST_SECONDS = 300.0

_Topic = ProduceResponse.TopicProduceResponse
_Partition = _Topic.PartitionProduceResponse


async def init_producer_id(session: Session, request: Any, _version: int) -> Any:
    """Returns an id for an idempotent producer; transactions are refused."""
    code, producer, epoch = Code.NONE, secrets.randbits(PRODUCER_BITS), 0
    if request.transactional_id is not None:
        code, producer, epoch = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_PRODUCER, -1
        session.warn("InitProducerId", "transactions are not offered")
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code, producer_id=producer, producer_epoch=epoch
    )


async def produce(session: Session, request: Any, _version: int) -> Any:
    """Returns where each batch begins, or why it was not stored; None if nobody wants to know."""
    seconds = min(max(request.timeout_ms / 1000, LEAST_SECONDS), MOST_SECONDS)
    acked_by = session.shared.acked_by
    if request.acks != ALL:
        acked_by = None
    topics = []
    for topic in request.topic_data:
        partitions = [
            await _stored(session, topic.name, partition, seconds, acked_by)
            for partition in topic.partition_data
        ]
        topics.append(_Topic(name=topic.name, partition_responses=partitions))
    if request.acks == 0:
        return None
    return ProduceResponse(throttle_time_ms=0, responses=topics)


async def _stored(
    session: Session, topic: str, partition: Any, seconds: float, acked_by: AckedBy | None
) -> Any:
    """Returns the response for a partition, after storing its batch."""
    code, offset, problem = Code.NONE, -1, None
    messages = 0
    try:
        _check_place(topic, partition.index)
        data = bytes(partition.records or b"")
        batches = session.shared.memory.batches
        async with batches.taking(session.user, memory_of(data)) as taken:
            batch = unpack(data)
            taken.shrink(batch.memory)
            messages = len(batch.rows)
            session.traffic.received_messages += messages
            acknowledgement = None
            topic_epoch = 0
            if acked_by is not None:
                await _check_topic(session, topic)
                acknowledgement = await session.client.acknowledgement(topic, acked_by)
                topic_epoch = acknowledgement.epoch
            stored = await _store(session, topic, batch, seconds, topic_epoch)
            offset = stored.first_offset
            # Its memory does not count any more, and Kafka may take long.
            del batch
        if acknowledgement is not None:
            # A repeat was stored earlier, perhaps in a topic that was deleted since.
            acknowledgement.expect(offset, stored.end - offset, stored.topic_epoch)
            with _in_time(seconds, NOT_REPLICATED):
                await acknowledgement.wait()
    except NoMemory as error:
        code, problem = Code.REQUEST_TIMED_OUT, str(error)
    except BadBatch as error:
        code, problem = error.code, str(error)
    except (ZaichikError, Unencodable) as error:
        code, problem = code_of(error), str(error)
    if code is not Code.NONE:
        offset = -1
        session.counts.refused += 1
        session.traffic.refused_messages += messages
        session.warn(f"a batch for {topic[:80]!r} was refused", problem)
    return _Partition(
        index=partition.index,
        error_code=code,
        base_offset=offset,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=[],
        error_message=problem,
    )


def _check_place(topic: str, partition: int) -> None:
    if partition != 0:
        raise BadBatch("a topic has one partition, 0", Code.UNKNOWN_TOPIC_OR_PARTITION)
    refused = refusal(topic)
    if refused is not Code.NONE:
        raise BadBatch("clients cannot write to this topic", refused)


async def _check_topic(session: Session, topic: str) -> None:
    """Refuse a topic that is not there, unless it can be made."""
    code = await session.shared.topics.found(session.client, topic, create=True)
    if code is not Code.NONE:
        raise BadBatch("there is no such topic", code)


async def _store(
    session: Session, topic: str, batch: Produced, seconds: float, topic_epoch: int
) -> Remembered:
    """Returns where the batch is, after storing it, or finding that it is.

    A topic that is full may keep a batch waiting for longer than its client waits. A producer that
    is not idempotent gets an error then, and may store twice what it sends again, as in Kafka. An
    idempotent one's batch goes on waiting, and what it sends again waits for that.
    """
    if batch.headers:
        if not session.counts.headers:
            session.warn(f"headers of records for {topic[:80]!r} are dropped", "the first ones")
        session.counts.headers += batch.headers
    await _check_topic(session, topic)
    if batch.producer == NO_PRODUCER:
        with _in_time(seconds, NO_ROOM):
            return await _publish(session, topic, batch, None, topic_epoch)
    producer = session.shared.producers.of(session.user, batch.producer, topic)
    # Checking and storing are one step.
    with _in_time(seconds, NO_ROOM):
        await producer.lock.acquire()
    try:
        known = producer.answer_of(batch)
        if known is not None:
            return known
        try:
            stored = await _publish(session, topic, batch, producer, topic_epoch)
        except (BadBatch, ZaichikError):
            producer.store_failed(batch)
            raise
        producer.store_done(batch, stored)
    finally:
        producer.lock.release()
    return stored


@contextmanager
def _in_time(seconds: float, problem: str) -> Iterator[None]:
    """End the block after that time.

    Raises:
        BadBatch: the time is over.
    """
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise BadBatch(problem, Code.REQUEST_TIMED_OUT) from None


async def _publish(
    session: Session, topic: str, batch: Produced, producer: Producer | None, topic_epoch: int
) -> Remembered:
    """Returns where the batch is, after publishing it in as few pieces as fit.

    If a piece fails, the producer's repeat goes on with that piece.
    """
    rows = await _meant(session, topic, batch.rows)
    done, first, end = 0, -1, 0
    if producer is not None and (begun := producer.stored_of(batch)) is not None:
        done, first, topic_epoch = begun.count, begun.first_offset, begun.topic_epoch
    while done < len(rows):
        piece = _piece(session, rows, done)
        result = await session.client.publish_batch(topic, piece)
        if first < 0:
            first = result.first_offset
        end = result.first_offset + result.stored
        done += len(piece)
        if producer is not None and done < len(rows):
            producer.store_begun(batch, done, first, topic_epoch)
    return Remembered(batch.sequence, len(rows), first, end, topic_epoch)


def _piece(session: Session, rows: list[Row], start: int) -> list[Row]:
    """Returns the rows from `start` on that fit into one batch of the broker; at least one."""
    welcome = session.client.welcome
    size = 0
    end = start
    for key, payload in rows[start : start + welcome.max_batch]:
        size += len(key or b"") + len(payload or b"") + MESSAGE_OVERHEAD
        if size > welcome.max_message and end > start:
            break
        end += 1
    return rows[start:end]


async def _meant(session: Session, topic: str, rows: list[Row]) -> list[Row]:
    """Returns the rows as the broker takes them: null payloads delete keys in tables only.

    Raises:
        BadBatch: a table cannot hold an empty payload, or one of null without a key.
    """
    if all(payload for _, payload in rows):
        return rows
    state = await session.client.topic(topic)
    is_table = state is not None and bool(state["settings"].get("table"))
    if not is_table:
        return [(key, payload or b"") for key, payload in rows]
    if any(key is None and payload is None for key, payload in rows):
        raise BadBatch("a null payload deletes a key, and there is none", Code.INVALID_RECORD)
    if any(key is not None and payload == b"" for key, payload in rows):
        raise BadBatch("a table has no empty payloads; null deletes a key", Code.INVALID_RECORD)
    return rows
