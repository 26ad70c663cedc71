"""S16, continued: durable topics after SIGKILL and a restart with the same folder.

A killed process cannot write any more, but what it has written stays: the operating system has it.
So these checks find what was never written, and what a start doesn't read. Whether it was also
*synced*, only a power cut would show.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from zaichik.learn.burst import Burst
from zaichik.learn.connection import Connection, Pair
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import CAPACITY, WINDOW
from zaichik.learn.stages.s16_durable import HOUR_MS, make_durable
from zaichik.learn.stages.s16_durable import STAGE as STAGE
from zaichik.learn.stages.s16_names import NAMED, REDELIVERED, RESUMED, delivered
from zaichik.learn.stages.s16_numbered import DUPLICATE, Producer
from zaichik.learn.stages.s16_options import named
from zaichik.learn.trial import Restartable, Trial
from zaichik.learn.wire import Frame

WINDOW_S, MARGIN_S = 1.0, 0.1
# A position is written "soon" after its commit, and "a few seconds" may be lost: so it is tried
# with more and more.
WRITTEN_S = [1.5, 4.0, 10.0]
MESSAGES = 6
ROUNDS = 3


@asynccontextmanager
async def first_life(trial: Trial) -> AsyncIterator[tuple[Restartable, Connection]]:
    """A separate broker, and a client of it."""
    async with trial.host.start_restartable() as server:
        yield server, await trial.client(server.target)


async def next_life(trial: Trial, server: Restartable) -> Connection:
    """Kill it and start it again. Returns a client."""
    await server.kill()
    return await _started(trial, server)


async def _started(trial: Trial, server: Restartable) -> Connection:
    await trial.reset_all("the server was killed (SIGKILL)")
    await server.start()
    return await trial.client(server.target)


async def _all(client: Connection, topic: str) -> tuple[list[Pair], list[int]]:
    """All messages of a topic that begins at offset 0, and when they were accepted."""
    subscribed = await client.ok("Subscribe", topic=topic, expect={"start": 0})
    pairs: list[Pair] = []
    accepted: list[int] = []
    while len(pairs) < subscribed["live"]:
        frame = await client.event(subscribed.id, awaited=f"the message with offset {len(pairs)}")
        client.must_be(frame, "Messages", base=len(pairs))
        pairs += [(message.key, message.payload) for message in frame.messages]
        accepted += [frame["accepted_us"]] * len(frame.messages)
        if frame.messages[-1].offset != len(pairs) - 1:
            raise Failure("offsets were skipped, although no message was missing", frame=frame)
        await client.commit(subscribed.id, len(pairs))
    await client.ok("Unsubscribe", subscription=subscribed.id)
    return pairs, accepted


async def _these(client: Connection, topic: str, epoch: int, messages: Sequence[Pair]) -> list[int]:
    """Check that a topic has exactly these messages. Returns when they were accepted."""
    subscription = await client.subscribe(
        topic, epoch=epoch, expect={"start": 0, "live": len(messages)}
    )
    await client.expect_messages(subscription, 0, messages)
    await client.ok("Unsubscribe", subscription=subscription)
    return (await _all(client, topic))[1]


@STAGE.check(
    "messages acknowledged in a durable topic are there after kill -9, and offsets go on",
    hint="Before you listen, read every topic's log: name, epoch and settings, then each record.",
    how="A folder per topic, with a small file for its name, epoch and settings, and an "
    "append-only log: for each batch its first offset, its time, its bytes, and a checksum. The "
    "reply waits for the write and the sync.",
    where="zaichik/storage/recovery.py: `recover` finds what a log holds; "
    "zaichik/storage/restoring.py puts it into a broker.",
    sentences="durable.5 durable.6 topic.1 topic.5 time.2 time.3 welcome.1 subscribe.1 subscribe.8",
    once=True,
)
async def comes_back(trial: Trial) -> None:
    """Two topics, killed three times: epoch, settings, offsets, contents, times; boot changes."""
    async with first_life(trial) as (server, client):
        topics = [trial.topic("a"), trial.topic("b")]
        made = [
            await make_durable(client, topic, {CAPACITY: 1000 + place})
            for place, topic in enumerate(topics)
        ]
        sent: list[list[Pair]] = [[], []]
        times: list[list[int]] = [[], []]
        for _ in range(3):
            for _ in range(5):
                place, batch = (
                    trial.rng.randrange(2),
                    [trial.message(b"k") for _ in range(trial.rng.randrange(1, 4))],
                )
                await client.publish(
                    topics[place], *batch, first_offset=len(sent[place]), stored=len(batch)
                )
                sent[place] += batch
            for place, topic in enumerate(topics):
                accepted = await _these(client, topic, made[place]["epoch"], sent[place])
                before, times[place] = times[place], accepted
                if accepted[: len(before)] != before or accepted != sorted(accepted):
                    times_ = "other acceptance times than before the kill, or times that go back"
                    raise Failure(
                        f"messages have {times_}",
                        expected=f"{before}, and later ones",
                        came=f"{accepted}",
                    )
            boot, client = client.limits["boot"], await next_life(trial, server)
            if client.limits["boot"] == boot:
                raise Failure(
                    "two runs of the server have the same boot",
                    expected="another one",
                    came=f"{boot}",
                )
            for topic, frame in zip(topics, made, strict=True):
                again = {"created": 0, "epoch": frame["epoch"], "settings": frame["settings"]}
                await client.create(topic, frame["settings"], **again)


@STAGE.check(
    "producers' numbers survive kill -9: a repeat gets its old reply, or is stored once",
    hint="Write producer and number into the batch's record, and rebuild the replies from the log.",
    how="Replies must be as safe as the messages, so they are in the log with them: for a batch "
    "its offset and what compaction dropped of it, and for one that was refused for good the "
    "error.",
    where="zaichik/storage/state.py: `State._answer`; docs/run/durability.md describes the "
    "records.",
    sentences="durable.5 durable.6 producer.3 producer.4 producer.6 producer.13",
    once=True,
)
async def numbers(trial: Trial) -> None:
    """Stored, partly compacted, refused for good; one not answered yet; killed twice."""
    async with first_life(trial) as (server, client):
        topic, producer = trial.topic(), Producer(trial)
        made = await make_durable(client, topic, {CAPACITY: 8, WINDOW: HOUR_MS})
        await producer.publish_first(client)
        await producer.expect_stored(client, 1, 1)
        pair = [(b"k", b"first"), (b"k", b"second")]
        part = {"first_offset": 2, "stored": 1, "compacted": 1, "dropped": b"\2"}
        client.must_be(await producer.ask(client, 2, batch=pair), "Published", flags=0, **part)
        await producer.expect_error(client, 3, "BATCH_TOO_LARGE", batch=[(b"", b"x")] * 9)
        await client.send("Publish", **producer.about(4))
        await client.flush()
        client = await next_life(trial, server)
        for sequence in (1, 0):
            await producer.expect_stored(client, sequence, sequence, DUPLICATE)
        client.must_be(
            await producer.ask(client, 2, batch=pair), "Published", flags=DUPLICATE, **part
        )
        await producer.expect_error(client, 3, "BATCH_TOO_LARGE")
        frame = await producer.ask(client, 4)  # it was stored before the kill, or now
        flags = DUPLICATE if frame.name == "Published" and frame.flags else 0
        client.must_be(frame, "Published", flags=flags, first_offset=3, stored=1)
        await producer.expect_stored(client, 5, 4)
        client = await next_life(trial, server)
        for sequence, offset in ((4, 3), (5, 4), (0, 0)):
            await producer.expect_stored(client, sequence, offset, DUPLICATE)
        await producer.expect_error(client, 7, "SEQUENCE_GAP")
        await producer.expect_stored(client, 6, 5)
        messages = [
            (b"", b"0"),
            (b"", b"1"),
            (b"k", b"first"),
            (b"", b"4"),
            (b"", b"5"),
            (b"", b"6"),
        ]
        await _these(client, topic, made["epoch"], messages)


@STAGE.check(
    "an open compaction window still drops repeats after kill -9, and ends when it would have",
    hint="A stored message opened a window when it was accepted: reopen it from the log.",
    how="Nothing extra has to be written: each record has the time and the keys, so a start "
    "reopens the windows in the same order, each at the time of its message, not of the start.",
    where="zaichik/storage/state.py: `State._add_messages` admits the keys of each record at the "
    "record's own time.",
    sentences="durable.6 compaction.1 compaction.2 compaction.8",
    once=True,
)
async def windows(trial: Trial) -> None:
    """A window of an hour that stays open, and a short one that ends; another key."""
    async with first_life(trial) as (server, client):
        long, short = trial.topic("long"), trial.topic("short")
        await make_durable(client, long, {WINDOW: HOUR_MS})
        await make_durable(client, short, {WINDOW: round(WINDOW_S * trial.scale * 1000)})
        await client.publish(long, (b"a", b"first"), (b"b", b"first"), first_offset=0, stored=2)
        await client.publish(short, (b"a", b"first"), first_offset=0, stored=1)
        moment = trial.elapsed
        client = await next_life(trial, server)
        batch = [(b"b", b"second"), (b"c", b"first"), (b"a", b"second")]
        await client.publish(long, *batch, first_offset=2, stored=1, compacted=2, dropped=b"\5")
        await trial.wait(moment, WINDOW_S + MARGIN_S)
        await client.publish(short, (b"a", b"second"), first_offset=1, stored=1, compacted=0)


@STAGE.check(
    "a position committed well before kill -9 is resumed, and what follows is marked",
    hint="Once a second, write the positions that have moved. After a start, everything up to the "
    "end counts as delivered.",
    how="A commit need not wait for the disk: if a position is a little old, messages come again, "
    "but marked. How far each reader had been sent is not written, so assume everything.",
    where="zaichik/storage/restoring.py: `_restore_positions`; zaichik/core/durable.py: `sweep`, "
    "once a second.",
    sentences="durable.6 durable.9 name.4 name.5 messages.2",
    once=True,
)
async def positions(trial: Trial) -> None:
    """Two of six settled, four delivered; with more and more time before the kill."""
    async with first_life(trial) as (server, client):
        topic, messages = trial.topic(), [trial.message() for _ in range(MESSAGES)]
        await make_durable(client, topic, {})
        await client.publish(topic, *messages)
        for seconds in WRITTEN_S:
            frame = await _named(client, topic, credit=4)
            await client.expect_messages(frame.id, 0, messages[:4])
            await client.commit(frame.id, 2)
            await anyio.sleep(seconds * max(1.0, trial.scale))
            client = await next_life(trial, server)
            frame = await _named(client, topic)
            if frame["start"]:
                # This position is resumed, or a wrong one; if none was written yet, it starts at 0
                # again.
                break
        client.must_be(frame, "Subscribed", flags=NAMED | RESUMED, start=2, committed=2)
        await delivered(client, frame.id, 2, MESSAGES, REDELIVERED)
        await client.publish(topic, trial.message(), first_offset=MESSAGES, subscribers=1)
        await delivered(client, frame.id, MESSAGES, MESSAGES + 1, 0)


async def _named(client: Connection, topic: str, **how: Any) -> Frame:
    frame = await named(client, topic, **how)
    client.must_be(frame, "Subscribed", live=MESSAGES)
    return frame


@STAGE.check(
    "after kill -9 in a burst, what was acknowledged or delivered is there: whole, once, in order",
    hint="Answer and deliver after the write, not before it. Drop a batch that a crash has cut "
    "short at the end of a log.",
    how="While one group of batches is written and synced, the next one gathers, and is answered "
    "after its own sync. Each record has its length and a checksum: on a start, the first "
    "incomplete one ends the log.",
    where="zaichik/core/durable.py: `publish` and `on_synced`; zaichik/storage/writer.py: `write`, "
    "which writes a group.",
    sentences="durable.5 durable.6 publish.1 topic.1 open.1",
    once=True,
)
async def burst(trial: Trial) -> None:
    """Two publishers that don't wait for replies, and a reader; several rounds."""
    async with first_life(trial) as (server, client):
        burst = Burst(trial, trial.topic())
        await make_durable(client, burst.topic, {})
        end = 0
        for _ in range(ROUNDS):
            await burst.until_killed(server, end)
            client = await _started(trial, server)
            kept, _ = await _all(client, burst.topic)
            burst.check([payload for _, payload in kept])
            end = len(kept)
