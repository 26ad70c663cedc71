"""S17: Tables.

Goal: An optional kind of topic: a table keeps the last message of each key. The offset of a message
that a newer one has superseded becomes a hole, which readers pass without a word. So whoever comes
late gets the newest of each key and then every change, however many changes there were. If a broker
answers UNSUPPORTED for setting 11, these checks are skipped.

Tested: Superseding, within a batch too; holes, which are not lag and cost no credit; limits that
count only what can be read; tombstones, which delete keys, how long they stay, and who is told when
they have gone; a random history, read with little credit and by latecomers.

Real systems: Kafka compacts a topic in the background (cleanup.policy=compact), so a reader may
still see superseded messages, and a deletion may vanish unseen after delete.retention.ms. A KV
bucket of NATS JetStream keeps the last value of each key, in a stream of one message a subject.

How: Rows in the order of their offsets, and a dict from each key to its newest offset. Superseding
removes a row and leaves the others where they are. A reader goes on at the first row at or after
its cursor; credit counts rows, never differences of offsets.

Where: tests/learn/brokers/python/table.py: a table in a short file.
zaichik/core/tables/keep_last.py: one for millions of keys, in parts that are rewritten when half of
their rows have gone. The rules and their reasons are in docs/understand/semantics.md, TAB.
"""

from collections.abc import Sequence
from typing import Any

from zaichik.learn import docstrings, notation
from zaichik.learn.connection import Connection, Pair
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import (
    FOREVER,
    KEPT,
    OF_TABLE,
    OFFSET,
    OVERFLOW,
    SETTINGS,
    TABLE,
    TABLES,
    TIME,
    TOMBSTONES_MS,
    TTL,
    WINDOW,
)
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame, Message

UNTIL = 1  # code of SubscriptionEnded
HOUR_MS = 3_600_000
CHANGES, A_BATCH = 3000, 100  # of one key, and how many of them are published at once

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=16, frames="DeletionsMissed")

Row = tuple[int, bytes, bytes]  # a message that can be read: its offset, key and payload


async def make_table(
    client: Connection, topic: str, settings: dict[int, int] | None = None
) -> Frame:
    """Make a table. Skips the check if the broker has none."""
    named = {TABLE: 1} | (settings or {})
    frame = await client.ask_optional(
        "CreateTopic", "tables", unless="settings", topic=topic, settings=named
    )
    client.must_be(frame, "TopicCreated", created=1)
    return frame


async def knowing(trial: Trial) -> Connection:
    """A client that knows tables, as a broker that has them must let it."""
    return await trial.client(features=TABLES)


async def table_and_client(
    trial: Trial, settings: dict[int, int] | None = None
) -> tuple[Connection, str]:
    """A client that knows tables, and a table."""
    client, topic = await knowing(trial), trial.topic()
    await make_table(client, topic, settings)
    return client, topic


async def read_table(
    client: Connection, topic: str, expect: dict[str, Any] | None = None, **how: Any
) -> int:
    """Subscribe to a table, which Subscribed must call one. Returns the subscription's id."""
    return await client.subscribe(topic, expect={"flags": OF_TABLE} | (expect or {}), **how)


def rows(first: int, *messages: Pair | None) -> list[Row]:
    """Messages with their offsets, from `first` on; None is a hole."""
    return [
        (offset, *message) for offset, message in enumerate(messages, first) if message is not None
    ]


def readable(published: list[Pair]) -> list[Row]:
    """What a late reader gets: the newest of each key, and all messages without a key."""
    newest = {key: offset for offset, (key, _) in enumerate(published)}
    return [
        (offset, key, payload)
        for offset, (key, payload) in enumerate(published)
        if not key or newest[key] == offset
    ]


async def expect_rows(client: Connection, subscription: int, due: Sequence[Row]) -> list[Frame]:
    """Receive exactly these messages, in any number of frames. Returns the frames."""
    frames: list[Frame] = []
    left = list(due)
    while left:
        frame = await client.event(subscription, awaited=f"the message with offset {left[0][0]}")
        client.must_be(frame, "Messages", base=left[0][0])
        must_be_next(frame, left)
        del left[: len(frame.messages)]
        frames.append(frame)
    return frames


def must_be_next(frame: Frame, due: Sequence[Row]) -> None:
    """Check that the messages of a frame are the first of those that are due."""
    for number, message in enumerate(frame.messages):
        should = due[number] if number < len(due) else None
        if should != (message.offset, message.key, message.payload):
            expected = "nothing more"
            if should:
                expected = notation.message(Message(*should))
            raise Failure(
                f"{notation.message(message)} came, and it was not due",
                expected=expected,
                frame=frame,
            )


async def late(client: Connection, topic: str, due: Sequence[Row], **how: Any) -> None:
    """A reader that comes late, and leaves, must get exactly these messages."""
    subscription = await read_table(client, topic, **how)
    await expect_rows(client, subscription, due)
    await client.expect_no_event("the newest message of each key had come")
    await client.ok("Unsubscribe", subscription=subscription)


@STAGE.check(
    "a table has its own settings, keeps messages forever by default, and refuses conflicting ones",
    hint="Settings 11 and 12 are for tables only. A table has no window, and its retention is "
    "above 0.",
    sentences="setting.2 setting.3 setting.4 create.1 topic.5 topic.6 table.1 table.2 table.3",
)
async def settings(trial: Trial) -> None:
    """Explicitly no table; a table, twice; retention 0, a window, tombstones without a table."""
    client, topic, plain = await trial.client(), trial.topic(), trial.topic("plain")
    frame = await make_table(client, topic)
    found = dict(frame["settings"])
    if list(found) != sorted(found) or (found.get(TABLE), found.get(TTL)) != (1, FOREVER):
        problem = "TopicCreated does not report the settings of a table"
        expected = "settings in order, with 11 (which is 1) and 12, and retention forever"
        raise Failure(problem, expected=expected, frame=frame)
    if TOMBSTONES_MS not in found or found[WINDOW] or found.get(OVERFLOW):
        problem = "a table has setting 12, and neither a window nor an overflow"
        raise Failure(problem, expected=f"{SETTINGS[TOMBSTONES_MS]}, and 0 for both", frame=frame)
    again = {"created": 0, "epoch": frame["epoch"], "settings": frame["settings"]}
    await client.create(topic, {TABLE: 1}, **again)
    await client.expect_error("TOPIC_EXISTS", "CreateTopic", topic=topic, settings={TABLE: 0})
    frame = await client.create(plain, {TABLE: 0}, created=1)
    if {TABLE, TOMBSTONES_MS} & dict(frame["settings"]).keys():
        problem = "TopicCreated has settings of tables, but this topic is none"
        raise Failure(problem, expected="no settings 11 and 12", frame=frame)
    await client.expect_error("TOPIC_EXISTS", "CreateTopic", topic=plain, settings={TABLE: 1})
    for bad in (
        {TABLE: 2},
        {TABLE: 1, TTL: 0},
        {TABLE: 1, WINDOW: 1000},
        {TABLE: 1, TOMBSTONES_MS: FOREVER - 1},
        {TABLE: 0, TOMBSTONES_MS: HOUR_MS},
        {TOMBSTONES_MS: HOUR_MS},
    ):
        await client.expect_error(
            "INVALID_FIELD", "CreateTopic", topic=trial.topic("bad"), settings=bad, at="settings"
        )
    await _combined(client, trial)


async def _combined(client: Connection, trial: Trial) -> None:
    """Settings that a broker may not know, or that a table may do without."""
    topic = trial.topic("rejects")
    frame = await client.ask("CreateTopic", topic=topic, settings={OVERFLOW: 0})
    if frame.name == "TopicCreated":
        topic = trial.topic("rejects-as-table")
        await client.expect_error(
            "INVALID_FIELD",
            "CreateTopic",
            topic=topic,
            settings={TABLE: 1, OVERFLOW: 1},
            at="settings",
        )
    topic = trial.topic("on-a-disk")
    frame = await client.ask("CreateTopic", topic=topic, settings={TABLE: 1, KEPT: 1})
    if frame.name == "Error":
        client.must_be_error(frame, "UNSUPPORTED", at="settings")
    else:
        client.must_be(frame, "TopicCreated", created=1)
        await client.ask("Delete", topic=topic)


@STAGE.check(
    "a message supersedes the one of its key before it, also within a batch",
    hint="Look the key up: the row it had goes. Offsets are given to all messages of the batch.",
    sentences="messages.2 table.4 table.5 table.7 topic.1",
)
async def supersedes(trial: Trial) -> None:
    """A reader that is there, and one that comes late; keys that look alike; no keys."""
    client, topic = await table_and_client(trial)
    reader = await read_table(client, topic)
    a, b, other = trial.message(b"a"), trial.message(b"b"), trial.message(b"a\0")
    free, last = trial.message(), trial.message(b"a")
    await client.publish(topic, a, b, free, last, first_offset=0, stored=4, compacted=0)
    frames = await expect_rows(client, reader, rows(0, None, b, free, last))
    again = trial.message(b"b")
    await client.publish(topic, other, again, free, first_offset=4, stored=3, subscribers=1)
    frames += await expect_rows(client, reader, rows(4, other, again, free))
    times = {message.offset: frame["accepted_us"] for frame in frames for message in frame.messages}
    subscription = await read_table(client, topic)
    came = await expect_rows(
        client, subscription, rows(0, None, None, free, last, other, again, free)
    )
    for frame in came:
        for message in frame.messages:
            if times[message.offset] != frame["accepted_us"]:
                problem = "messages came with an acceptance time that is not theirs"
                expected = f"accepted_us {times[message.offset]} for offset {message.offset}"
                raise Failure(problem, expected=expected, frame=frame)
    await client.expect_no_event("both readers had got everything")


@STAGE.check(
    "a reader that keeps up gets every change, and what it was sent stays in flight",
    hint="Superseding touches what is yet to be sent. What is in flight waits for a Commit.",
    sentences="credit.1 credit.2 table.5 table.6",
)
async def in_flight(trial: Trial) -> None:
    """Credit 2: two versions of a key in flight; a third waits, and a fourth supersedes it."""
    client, topic = await table_and_client(trial)
    reader = await read_table(client, topic, credit=2)
    versions = [trial.message(b"key") for _ in range(5)]
    for offset in range(2):
        await client.publish(topic, versions[offset], first_offset=offset)
        await expect_rows(client, reader, rows(offset, versions[offset]))
    await client.publish_singly(topic, versions[2:4], first_offset=2)
    await client.expect_no_event("two versions of the key were in flight, and credit was 2")
    await client.commit(reader, 1)
    await expect_rows(client, reader, rows(3, versions[3]))
    await client.expect_error("NOT_IN_FLIGHT", "Commit", subscription=reader, next=5)
    await client.commit(reader, 3)
    await client.publish(topic, versions[4], first_offset=4)
    await expect_rows(client, reader, rows(4, versions[4]))
    await client.commit(reader, 5)
    await client.expect_no_event("everything had come, and was settled")


@STAGE.check(
    "holes are passed at once: they are no lag and cost no credit",
    hint="Go on at the first message at or after the cursor. Report lag only below the head, and "
    "superseding never moves that past a message.",
    sentences="start.3 start.4 until.1 table.6 table.10",
)
async def passed(trial: Trial) -> None:
    """Thousands of holes behind a message, before one and between; an until behind them."""
    client, topic = await table_and_client(trial)
    reader = await read_table(client, topic, credit=1)
    free = trial.message()
    await client.publish(topic, free, first_offset=0)
    await expect_rows(client, reader, rows(0, free))
    for first in range(1, CHANGES + 1, A_BATCH):
        changes = [(b"key", b"%d" % offset) for offset in range(first, first + A_BATCH)]
        await client.publish(topic, *changes, first_offset=first, stored=A_BATCH)
    newest = [(CHANGES, b"key", b"%d" % CHANGES)]
    await client.expect_no_event("a message was in flight, and credit was 1")
    await client.commit(reader, 1)
    await expect_rows(client, reader, newest)
    await client.commit(reader, CHANGES // 2)
    await client.expect_no_event("a message was in flight, and holes had been committed")
    await client.commit(reader, CHANGES + 1)
    await late(client, topic, rows(0, free) + newest)
    await late(client, topic, newest, start=OFFSET, value=5, expect={"start": 5})
    await late(client, topic, rows(0, free) + newest, start=TIME, value=0)
    until = await read_table(client, topic, until=CHANGES, credit=2)
    await expect_rows(client, until, rows(0, free))
    await client.expect_event(until, "SubscriptionEnded", code=UNTIL, next=CHANGES)


@STAGE.check(
    "with holes inside a batch, credit and commits count messages",
    hint="In flight are messages, not offsets: count those that were sent, and take off those "
    "below next.",
    sentences="commit.1 credit.2 credit.4 messages.2 table.7 table.8",
)
async def holes_inside(trial: Trial) -> None:
    """Offsets 0, 2, 4 and 6 of seven; a commit into each hole; then the same with bytes."""
    client, topic = await table_and_client(trial)
    free = [(b"", b"free %d" % number) for number in range(4)]
    batch = [free[0], (b"k", b"1"), free[1], (b"k", b"2"), free[2], (b"k", b"3"), free[3]]
    await client.publish(topic, *batch, (b"k", b"4"), first_offset=0, stored=8)
    due = rows(0, free[0], None, free[1], None, free[2], None, free[3], (b"k", b"4"))
    reader = await read_table(client, topic, credit=3)
    await expect_rows(client, reader, due[:3])
    await client.expect_no_event("three messages were in flight, and credit was 3")
    await client.commit(reader, 2)
    await expect_rows(client, reader, due[3:4])
    await client.expect_no_event("offsets 2, 4 and 6 were in flight, and credit was 3")
    await client.commit(reader, 5)
    await expect_rows(client, reader, due[4:])
    size = len(free[0][1])
    weighed = await read_table(client, topic, credit_bytes=2 * size)
    await expect_rows(client, weighed, due[:2])
    await client.expect_no_event("two messages were in flight, as many bytes as credit_bytes")
    await client.commit(weighed, 3)
    await expect_rows(client, weighed, due[2:4])
    await client.commit(weighed, 7)
    await expect_rows(client, weighed, due[4:])


@STAGE.check(
    "a client that does not know tables may publish to one, and not subscribe",
    hint="Keep the bit TABLES of the Hello with the connection. Refuse before anything changes. "
    "Subscribed has the flag TABLE for a table, and for no other topic.",
    sentences="hello.10 hello.18 id.7 table.9 table.19",
)
async def features(trial: Trial) -> None:
    """With and without the feature; the id is free again; nobody is counted."""
    client, topic = await table_and_client(trial)
    old, message = await trial.client(), trial.message(b"key")
    if not client.limits["features"] & TABLES:
        problem = "a broker with tables did not grant TABLES to a client that knows them"
        raise Failure(problem, expected="bit 3 in features", frame=client.limits)
    old.must_be(old.limits, "Welcome", features=0)
    refused = await old.send("Subscribe", topic=topic)
    old.must_be_error(await old.reply(refused), "UNSUPPORTED", at="topic")
    await old.publish(topic, message, first_offset=0, subscribers=0)
    plain = trial.topic("plain")
    subscribed = await old.send("Subscribe", topic=plain, frame_id=refused)
    old.must_be(await old.reply(subscribed), "Subscribed", start=0, flags=0)
    reader = await read_table(client, topic)
    await expect_rows(client, reader, rows(0, message))
    await old.publish(topic, message, first_offset=1, subscribers=1)
    await expect_rows(client, reader, rows(1, message))
    await old.publish(plain, message, first_offset=0, subscribers=1)
    await old.expect_messages(subscribed, 0, [message])
