"""S17, continued: tombstones, which delete keys, and readers that have missed some."""

import anyio

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import (
    ERROR_CODES,
    FOREVER,
    MAX_BYTES,
    OFFSET,
    TABLE,
    TIME,
    TOMBSTONES_MS,
    TTL,
    TYPES,
)
from zaichik.learn.stages.s16_options import named
from zaichik.learn.stages.s17_full import STAGE as STAGE
from zaichik.learn.stages.s17_full import WITH_TOMBSTONES, store
from zaichik.learn.stages.s17_tables import (
    Row,
    expect_rows,
    knowing,
    late,
    read_table,
    rows,
    table_and_client,
)
from zaichik.learn.trial import Trial

MINUTE_MS = 60_000
A_MOMENT_MS = 10  # a tombstone's time: if it were taken for seconds, it would not go in time
TOO_LONG_S = 0.1  # for a minute, if it were taken for as many microseconds
A_SWEEP_S = 1.2  # a broker may look once a second for what has gone
ROOM_BYTES, KEY_BYTES = 1000, 42  # so a quarter of the bytes has room for five tombstones
FITTING = 5
AGAIN_S = 0.02


def grave(key: bytes) -> tuple[bytes, bytes]:
    """A tombstone."""
    return key, b""


async def expect_missed(client: Connection, subscription: int, above: int, end: int) -> None:
    """Receive DeletionsMissed, with `below` above this tombstone and at most the next offset."""
    frame = await client.expect_event(subscription, "DeletionsMissed")
    if not above < frame["below"] <= end:
        problem = f"a tombstone has gone at offset {above}, and below is {frame['below']}"
        expected = f"below from {above + 1} to {end}, the next offset"
        raise Failure(problem, expected=expected, frame=frame)


@STAGE.check(
    "a key with an empty payload needs the flag TOMBSTONES in a table, and nowhere else",
    hint="Look through the whole batch first: a message with a key and without a payload? On other "
    "topics the flag means nothing.",
    how="An empty payload is easily sent by mistake, by a client that knows nothing of tables. So "
    "a deletion has to be meant. Check that before anything of the batch is stored.",
    where="zaichik/core/tables/table.py: `publish` refuses the batch once it knows what is in it.",
    sentences="flag.1 table.14 table.15",
)
async def flagged(trial: Trial) -> None:
    """Alone and in a batch, superseded in it, without a key; in another topic; an old client."""
    client, topic = await table_and_client(trial)
    plain, value = trial.topic("plain"), (b"key", b"1")
    for batch in ([grave(b"key")], [value, grave(b"k")], [grave(b"key"), value]):
        await client.expect_error("INVALID_FIELD", "Publish", topic=topic, batch=batch, at="batch")
    await client.publish(topic, value, (b"", b""), first_offset=0, stored=2)
    await store(client, topic, grave(b"key"), at=2)
    await late(client, topic, rows(1, (b"", b""), grave(b"key")))
    await client.create(plain, {TTL: FOREVER}, created=1)
    await client.publish(plain, value, grave(b"key"), first_offset=0, stored=2)
    await store(client, plain, grave(b"key"), at=2)
    subscription = await client.subscribe(plain)
    await client.expect_messages(subscription, 0, [value, grave(b"key"), grave(b"key")])
    old = await trial.client()
    frame = await old.ask("Publish", topic=topic, batch=[grave(b"key")], flags=WITH_TOMBSTONES)
    if frame.name == "Error" and frame["code"] == ERROR_CODES["UNSUPPORTED"]:
        old.must_be_error(frame, "UNSUPPORTED", request_type=TYPES["Publish"], at="flags")
    else:
        old.must_be(frame, "Published", first_offset=3, stored=1)


@STAGE.check(
    "a tombstone supersedes, is delivered like any message, and is superseded like one",
    hint="A tombstone is a row. Late readers get it, too, as long as it is kept.",
    sentences="table.4 table.5 table.12",
)
async def deletes(trial: Trial) -> None:
    """A reader that is there, and late ones; a key that never was; a key that comes back."""
    client, topic = await table_and_client(trial)
    reader = await read_table(client, topic)
    a, b = trial.message(b"a"), trial.message(b"b")
    await store(client, topic, a, b, at=0)
    await expect_rows(client, reader, rows(0, a, b))
    await store(client, topic, grave(b"a"), grave(b"never"), at=2)
    await expect_rows(client, reader, rows(2, grave(b"a"), grave(b"never")))
    await late(client, topic, rows(1, b, grave(b"a"), grave(b"never")))
    await store(client, topic, grave(b"a"), a, b, grave(b"b"), at=4)
    await expect_rows(client, reader, rows(5, a, None, grave(b"b")))
    await late(client, topic, rows(3, grave(b"never"), None, a, None, grave(b"b")))
    await client.expect_no_event("all readers had got everything")


async def until_gone(trial: Trial, topic: str, offset: int) -> None:
    """Wait until readers that begin at this tombstone are not sent it any more."""
    # What comes besides the first event is nobody's.
    asked, client = trial.elapsed, await knowing(trial)
    while True:
        subscription = await read_table(client, topic, start=OFFSET, value=offset, credit=1)
        frame = await client.event(subscription, awaited="the tombstone, or what follows it")
        await client.ok("Unsubscribe", subscription=subscription)
        if frame.name != "Messages" or frame["base"] != offset:
            return
        if trial.elapsed - asked > trial.patience:
            problem = f"the tombstone at offset {offset} is still there, after its tombstones_ms"
            raise Failure(problem, expected="a hole", frame=frame)
        await anyio.sleep(AGAIN_S)


async def _gone(
    trial: Trial, credit: int = 1000, kept_s: float = 0.0
) -> tuple[Connection, str, int, list[Row]]:
    """A table in which a tombstone has gone at offset 2, after it was the last for some time.

    Returns a client, the table, a reader from the beginning that was sent the first message alone
    if its credit is 1, and the messages that can be read.
    """
    client, topic = await table_and_client(trial, {TOMBSTONES_MS: A_MOMENT_MS})
    free, last = trial.message(), trial.message(b"b")
    reader = await read_table(client, topic, credit=credit)
    await store(client, topic, free, (b"a", b"1"), at=0)
    await expect_rows(client, reader, rows(0, free, (b"a", b"1"))[:credit])
    await store(client, topic, grave(b"a"), at=2)
    if credit > 1:
        await expect_rows(client, reader, rows(2, grave(b"a")))
    await anyio.sleep(kept_s)
    await late(client, topic, rows(0, free, None, grave(b"a")))
    await store(client, topic, last, at=3)
    await until_gone(trial, topic, offset=2)
    return client, topic, reader, rows(0, free, None, None, last)


@STAGE.check(
    "a tombstone goes after tombstones_ms, but not while it is the newest message",
    hint="Where you expire messages, let the oldest tombstones go, too, except at the last offset. "
    "Leave a hole.",
    sentences="ring.3 table.12 table.17",
)
async def goes(trial: Trial) -> None:
    """Of 10 ms: there while it is the last, gone after the next; of a minute: still there."""
    client, topic, reader, left = await _gone(trial, kept_s=A_SWEEP_S)
    await expect_rows(client, reader, left[1:])
    await late(client, topic, left)
    await store(client, topic, (b"a", b"2"), at=4)
    await expect_rows(client, reader, rows(4, (b"a", b"2")))
    await client.expect_no_event("it had been sent the tombstone before that went")
    keeping = trial.topic("minute")
    await client.create(keeping, {TABLE: 1, TOMBSTONES_MS: MINUTE_MS}, created=1)
    messages = [(b"a", b"1"), grave(b"a"), trial.message()]
    await store(client, keeping, *messages, at=0)
    await anyio.sleep(TOO_LONG_S)
    await store(client, keeping, (b"b", b"1"), at=3)
    await late(client, keeping, rows(1, *messages[1:], (b"b", b"1")))


@STAGE.check(
    "a reader that has not reached a tombstone when it goes is sent DeletionsMissed, once",
    hint="Remember the offset below which tombstones have gone. Compare it with the cursor, where "
    "you look for lag, and remember what the reader was told.",
    how="The table has one number, deleted_below. A reader has another: what it was told, at first "
    "what the table has when the reader is sent its first message. With free credit, and below "
    "deleted_below, it is told if the two differ.",
    where="tests/learn/brokers/python/table_reading.py: `has_something_of` compares, and sends "
    "nothing before there is credit.",
    sentences="lag.3 table.16",
)
async def missed(trial: Trial) -> None:
    """One with credit for a message, another that kept up; a second tombstone goes."""
    client, topic, reader, left = await _gone(trial, credit=1)
    free = trial.message()
    ahead = await read_table(client, topic, start=OFFSET, value=3)
    await expect_rows(client, ahead, left[1:])
    await client.expect_no_event("the reader that missed a deletion had no free credit")
    await client.commit(reader, 1)
    await expect_missed(client, reader, above=2, end=4)
    await expect_rows(client, reader, left[1:])
    # It is the last message until it has come to whoever keeps up.
    await store(client, topic, grave(b"b"), at=4)
    await expect_rows(client, ahead, rows(4, grave(b"b")))
    await store(client, topic, free, at=5)
    await expect_rows(client, ahead, rows(5, free))
    await until_gone(trial, topic, offset=4)
    await client.expect_no_event("the reader that missed a second deletion had no free credit")
    await client.commit(reader, 4)
    await expect_missed(client, reader, above=4, end=6)
    await expect_rows(client, reader, rows(5, free))
    await client.commit(reader, 6)
    await client.expect_no_event("it had been told of both deletions")


@STAGE.check(
    "a reader that begins below a tombstone that has gone is told, unless it begins at earliest",
    hint="Whoever begins at earliest holds nothing that could have been deleted. All others may.",
    sentences="start.3 start.4 table.16 table.17",
)
async def begins_below(trial: Trial) -> None:
    """At earliest; at an offset and at a time, below it and above; with little credit."""
    client, topic, reader, left = await _gone(trial)
    await expect_rows(client, reader, left[1:])
    await late(client, topic, left)
    for start, value, due in ((OFFSET, 0, left), (OFFSET, 2, left[1:]), (TIME, 0, left)):
        subscription = await read_table(client, topic, credit=2, start=start, value=value)
        await expect_missed(client, subscription, above=2, end=4)
        await expect_rows(client, subscription, due)
    await late(client, topic, left[1:], start=OFFSET, value=3)
    await client.expect_no_event("each reader had been told once, and got everything")


@STAGE.check(
    "a name that comes back to a position below a tombstone that has gone is told",
    hint="Keep with a name whether anything was sent to it, and what had gone when that began.",
    how="The position of a name outlives its connection, and so must what decides whether it is "
    "told: it began at earliest, and nothing was sent to it before the tombstone went.",
    where="zaichik/core/position.py: `is_fresh`; zaichik/core/reader.py: `_has_missed_deletions`.",
    sentences="name.4 name.5 table.16 table.17",
)
async def name_below(trial: Trial) -> None:
    """A name that was sent a message, and another that went away before there was one."""
    client, topic = await table_and_client(trial, {TOMBSTONES_MS: A_MOMENT_MS})
    early = await named(client, topic, "early")
    await client.ok("Unsubscribe", subscription=early.id)
    reader = (await named(client, topic, credit=1)).id
    free, last = trial.message(), trial.message(b"b")
    await store(client, topic, free, (b"a", b"1"), grave(b"a"), at=0)
    await expect_rows(client, reader, rows(0, free))
    await client.commit(reader, 1)
    await expect_rows(client, reader, rows(2, grave(b"a")))
    await client.ok("Unsubscribe", subscription=reader)
    await store(client, topic, last, at=3)
    await until_gone(trial, topic, offset=2)
    frame = await named(client, topic, credit=1)
    client.must_be(frame, "Subscribed", start=1, committed=1)
    await expect_missed(client, frame.id, above=2, end=4)
    await expect_rows(client, frame.id, rows(3, last))
    frame = await named(client, topic, "early")
    client.must_be(frame, "Subscribed", start=0, committed=0)
    await expect_rows(client, frame.id, rows(0, free, None, None, last))
    await client.expect_no_event("nothing had been sent to that name before the tombstone went")


@STAGE.check(
    "tombstones have a quarter of max_bytes besides, and beyond it the oldest go early",
    hint="Count tombstones apart: their keys and 8 bytes each. Let the oldest go until they fit, "
    "but not the newest message.",
    sentences="table.10 table.13 table.16",
)
async def early(trial: Trial) -> None:
    """Five fit; with a sixth the first goes; one too large for all stays while it is the last."""
    client, topic = await table_and_client(trial, {MAX_BYTES: ROOM_BYTES})
    free = trial.message()
    reader = await read_table(client, topic, credit=1)
    await store(client, topic, free, at=0)
    await expect_rows(client, reader, rows(0, free))
    graves = [grave(bytes([number]) * KEY_BYTES) for number in range(FITTING + 1)]
    await store(client, topic, *graves[:-1], at=1)
    await late(client, topic, rows(0, free, *graves[:-1]))
    await store(client, topic, graves[-1], at=FITTING + 1)
    await late(client, topic, rows(0, free, None, *graves[1:]))
    await client.commit(reader, 1)
    await expect_missed(client, reader, above=1, end=FITTING + 2)
    await expect_rows(client, reader, rows(2, graves[1]))
    small = trial.topic("small")
    await client.create(small, {TABLE: 1, MAX_BYTES: 2 * KEY_BYTES}, created=1)
    await store(client, small, graves[0], at=0)
    await late(client, small, rows(0, graves[0]))
    await store(client, small, free, at=1)
    await late(client, small, rows(1, free))
