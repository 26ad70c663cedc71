"""S17, continued: how much a table holds, and when it is full."""

from zaichik.learn.connection import Connection, Pair
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import CAPACITY, MAX_BYTES, TTL, TYPES
from zaichik.learn.stages.s16_numbered import Producer
from zaichik.learn.stages.s17_tables import (
    STAGE as STAGE,
)
from zaichik.learn.stages.s17_tables import (
    expect_rows,
    knowing,
    late,
    make_table,
    read_table,
    rows,
    table_and_client,
)
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

WITH_TOMBSTONES = 1  # flag of Publish
ROOM, ROOM_BYTES = 3, 1000  # messages, bytes
EACH = 8  # bytes that a message counts besides its key and payload
TTL_S, SURELY_THERE_S, SURELY_GONE_S = 0.4, 0.15, 1.2  # far from the edge on both sides


async def store(client: Connection, topic: str, *messages: Pair, at: int) -> Frame:
    """Publish a batch that may have tombstones; it must be stored at this offset."""
    return await client.ok(
        "Publish",
        topic=topic,
        batch=messages,
        flags=WITH_TOMBSTONES,
        expect={"first_offset": at, "stored": len(messages), "compacted": 0},
    )


async def expect_full(client: Connection, topic: str, *messages: Pair) -> None:
    """Publish a batch that must be TABLE_FULL, and nothing of it stored."""
    frame = await client.ask("Publish", topic=topic, batch=messages, flags=WITH_TOMBSTONES)
    client.must_be_error(frame, "TABLE_FULL", request_type=TYPES["Publish"])


@STAGE.check(
    "a table holds capacity messages, evicts none, and judges a batch by its result",
    hint="Work out what could be read after the batch, whatever the order in it. Is it more than "
    "capacity? Then TABLE_FULL, and nothing has changed.",
    how="For the last message of each key in the batch: is there a row of that key that counts? Is "
    "the message a tombstone? Add the messages without a key. So the new count is known before "
    "anything is stored.",
    where="zaichik/core/tables/keep_last.py: `judge` works out what a batch would change; "
    "zaichik/core/tables/table.py: `_check` compares that with the limits.",
    sentences="publish.4 ring.1 table.10 table.12",
)
async def capacity(trial: Trial) -> None:
    """Room for three; a fourth key; updates; a key deleted and another put, in either order."""
    client, topic = await table_and_client(trial, {CAPACITY: ROOM})
    a, b, c, d = [(key, b"1") for key in (b"a", b"b", b"c", b"d")]
    await expect_full(client, topic, a, b, c, d)
    await store(client, topic, a, b, c, at=0)
    await expect_full(client, topic, d)
    await expect_full(client, topic, (b"", b"no key"))
    await expect_full(client, topic, (b"a", b"2"), d)
    await late(client, topic, rows(0, a, b, c))
    updates = [(b"a", b"%d" % number) for number in range(2 * ROOM)]
    await store(client, topic, *updates, at=3)
    await store(client, topic, (b"b", b""), d, at=9)
    await expect_full(client, topic, b)
    await store(client, topic, b, (b"c", b""), at=11)
    due = rows(8, updates[-1], None, d, b, (b"c", b""))
    await late(client, topic, due)
    await store(client, topic, (b"a", b""), (b"", b"no key"), at=13)
    await expect_full(client, topic, a)
    due = rows(10, d, b, (b"c", b""), (b"a", b""), (b"", b"no key"))
    await late(client, topic, due)


@STAGE.check(
    "max_bytes counts what can be read: each key, each payload, and 8 for each message",
    hint="Take off the row that is superseded, add the one that supersedes it. Tombstones don't "
    "count here.",
    sentences="publish.4 ring.2 table.10",
)
async def max_bytes(trial: Trial) -> None:
    """Filled to the last byte; one more; a smaller update, and what then fits; a large batch."""
    client, topic = await table_and_client(trial, {MAX_BYTES: ROOM_BYTES})
    half = ROOM_BYTES // 2 - EACH - 1
    await expect_full(client, topic, (b"a", bytes(half)), (b"b", bytes(half + 1)))
    await store(client, topic, (b"a", bytes(half)), (b"b", bytes(half)), at=0)
    await expect_full(client, topic, (b"a", bytes(half + 1)))
    await expect_full(client, topic, (b"", b""))
    await store(client, topic, (b"c", b""), at=2)
    await store(client, topic, (b"a", bytes(half - EACH - 1)), at=3)
    await expect_full(client, topic, (b"c", b"x"))
    await expect_full(client, topic, (b"", b"xx"))
    await store(client, topic, (b"", b"x"), at=4)
    batch = [(b"b", bytes([number]) * half) for number in range(4)]
    await store(client, topic, *batch, at=5)
    due = rows(2, (b"c", b""), (b"a", bytes(half - EACH - 1)), (b"", b"x"), None, None, None)
    await late(client, topic, [*due, *rows(8, batch[-1])])


@STAGE.check(
    "a batch that is TABLE_FULL uses its producer's number up: trying again does not help",
    hint="TABLE_FULL is not RETRYABLE. Keep the error as the reply to that number.",
    how="A producer's number stays free after errors that may pass: those that are RETRYABLE. No "
    "reader can make room in a table, so this one isn't, and the next number goes on.",
    where="zaichik/core/producers.py: `remember` keeps every reply but errors that may pass.",
    sentences="producer.4 producer.6 producer.8 error.4 table.10",
)
async def numbers(trial: Trial) -> None:
    """A batch that is refused, the same number with one that fits, and the next number."""
    client, _ = await table_and_client(trial, {CAPACITY: ROOM})
    producer = Producer(trial)
    await producer.publish_first(client)
    many = [(key, b"1") for key in (b"a", b"b", b"c")]
    await producer.expect_error(client, 1, "TABLE_FULL", batch=many)
    await producer.expect_error(client, 1, "TABLE_FULL")
    await producer.expect_stored(client, 2, 1)


@STAGE.check(
    "retention counts in a table, too: what has expired is lag, and makes room",
    hint="Expire before you judge a batch, and before you look where a reader goes on.",
    how="It is always the oldest that expire, as in other topics. The head moves behind the last "
    "message that has gone, over the holes on its way.",
    where="tests/learn/brokers/python/table.py: `expire`, which also lets tombstones go.",
    sentences="retention.1 lag.1 table.18",
)
async def expires(trial: Trial) -> None:
    """Of 400 ms: a reader that waits is told of all that has gone, holes among it."""
    client, topic = await knowing(trial), trial.topic()
    ttl = round(TTL_S * 1000 * trial.scale)
    await make_table(client, topic, {CAPACITY: ROOM, TTL: ttl})
    reader = await read_table(client, topic, credit=1)
    free, asked = trial.message(), trial.elapsed
    await client.publish(topic, free, first_offset=0)
    frame = await client.event(reader, awaited="the message with offset 0")
    trial.in_time(asked, SURELY_THERE_S)
    client.must_be(frame, "Messages", base=0, batch=[free])
    await client.publish(topic, (b"k", b"1"), (b"k", b"2"), (b"j", b"1"), first_offset=1)
    await trial.wait(trial.elapsed, SURELY_GONE_S)
    await read_table(client, topic, expect={"start": 4, "live": 4})
    await client.expect_no_event("all messages were past their retention")
    await client.commit(reader, 1)
    frame = await client.expect_event(reader, "Lagged", to_offset=4)
    # A broker may have passed the hole at 1 before anything expired.
    if frame["from_offset"] not in {1, 2}:
        problem = "the lag begins at an offset that is not the first one missed"
        raise Failure(problem, expected="from_offset 1 (or 2: at 1 is a hole)", frame=frame)
    batch = [(key, b"3") for key in (b"i", b"j", b"k")]
    await client.publish(topic, *batch, first_offset=4, stored=ROOM)
    await expect_rows(client, reader, rows(4, batch[0]))
