"""The answer to a Produce request that is too large to be held: its records are not read.

Closing the connection would be no answer: clients would connect again and send the same, for ever.
So the names of its topics are read, and the records dropped as they come.
"""

from struct import Struct
from typing import Any

from kafka.protocol.producer import ProduceResponse

from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.frames import HEAD, Header, NotARequest, RequestReader, header_of

INT16 = Struct(">h")
INT32 = Struct(">i")
# In one request; the names are kept for the answer.
MAX_PARTITIONS = 10_000
WITH_TRANSACTIONS = 3  # the version that added the id of a transaction

_Topic = ProduceResponse.TopicProduceResponse
_Partition = _Topic.PartitionProduceResponse


async def header(reader: RequestReader) -> Header:
    """Returns the header of the frame in hand, and leaves its body.

    Raises:
        NotARequest: it has none; and what `RequestReader.take` raises.
    """
    head = await reader.take(HEAD.size)
    *_, length = HEAD.unpack(head)
    return header_of(head + await reader.take(max(length, 0)))


async def refused(reader: RequestReader, version: int) -> Any | None:
    """Returns the response that refuses a Produce request, whose header was taken.

    None if it wants no response.

    Raises:
        NotARequest: it is malformed; and what `RequestReader.take` raises.
    """
    if version >= WITH_TRANSACTIONS:
        await _skip_string(reader)
    acks = await _number(reader, INT16)
    await reader.take(INT32.size)  # how long it may take
    topics: list[Any] = []
    room = MAX_PARTITIONS
    for _ in range(await _count(reader, room)):
        name = await _string(reader)
        partitions: list[Any] = []
        for _ in range(await _count(reader, room)):
            partitions.append(_refused(await _number(reader, INT32)))
            await reader.skip(max(await _number(reader, INT32), 0))
            room -= 1
        topics.append(_Topic(name=name, partition_responses=partitions))
        room -= 1
    await reader.skip(reader.left)
    if acks == 0:
        return None
    return ProduceResponse(throttle_time_ms=0, responses=topics)


def _refused(index: int) -> Any:
    return _Partition(
        index=index,
        error_code=Code.MESSAGE_TOO_LARGE,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=[],
        error_message="the request is too large",
    )


async def _number(reader: RequestReader, kind: Struct) -> int:
    (value,) = kind.unpack(await reader.take(kind.size))
    return int(value)


async def _count(reader: RequestReader, room: int) -> int:
    count = await _number(reader, INT32)
    if count > room:
        raise NotARequest("a request with too many partitions")
    return count


async def _string(reader: RequestReader) -> str:
    size = await _number(reader, INT16)
    try:
        return (await reader.take(max(size, 0))).decode()
    except UnicodeDecodeError:
        raise NotARequest("a topic's name that is not text") from None


async def _skip_string(reader: RequestReader) -> None:
    await reader.skip(max(await _number(reader, INT16), 0))
