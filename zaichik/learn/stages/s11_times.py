"""S11, continued: what is readable, and when a time is over, told by the broker's own clock."""

import anyio

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failed
from zaichik.learn.layouts import CAPACITY, FOREVER, LATEST, MAX_BYTES, OFFSET, TIME, TTL
from zaichik.learn.stages.s11_retention import STAGE as STAGE
from zaichik.learn.ticks import Ticks, must_be_now
from zaichik.learn.trial import Trial

TTL_MS, BRIEF_S, FREED_S, CLOCKS_MAY_DIFFER_S = 400, 0.4, 2.0, 60.0
TIMES = 5


@STAGE.check(
    "a retention is as long as it says, by the broker's own clock",
    hint="readable means accepted <= now < accepted + ttl. Look at each request, not once a second, and round nothing.",
    sentences="retention.1 ring.3 time.1 time.2 time.3",
)
async def exactly(trial: Trial) -> None:
    """Latecomers ask again and again. A publish before and behind each of them tells the time at which they asked."""
    client, topic = await trial.client(), trial.topic()
    ticks = await Ticks.of(trial, client)
    await client.create(topic, {TTL: TTL_MS})
    watcher = await trial.client()
    watching = await watcher.subscribe(topic, start=LATEST)
    await client.publish(topic, trial.message())
    accepted = (await watcher.event(watching, awaited="the message"))["accepted_us"]
    end = accepted + TTL_MS * 1000
    await ticks.until(end)
    while True:
        request = wire.encode("Subscribe", frame_id=(frame_id := next(client.ids)), topic=topic)
        frame, before, after = await ticks.around(request, frame_id)
        client.must_be(frame, "Subscribed", live=1)
        await client.ok("Unsubscribe", subscription=frame_id)
        ticks.judge("the message was readable", end, before if frame["start"] == 0 else None, after)
        if frame["start"] == 1:
            return


@STAGE.check(
    "with retention 0 time drops nothing, and what everybody has read is freed within seconds",
    hint="Once a second, free what lies below every reader's next offset. Who waits for credit still needs it.",
    sentences="retention.3 retention.4 start.3 start.4",
)
async def freed(trial: Trial) -> None:
    """Five messages, of which one reader has been sent two; the others stay, for those who ask by offset or time."""
    slow, quick, topic = await trial.client(), await trial.client(), trial.topic()
    waiting, reading = await slow.subscribe(topic, credit=2), await quick.subscribe(topic)
    messages = [trial.message() for _ in range(5)]
    await quick.publish(topic, *messages)
    await slow.messages(waiting, 0, messages[:2])
    await quick.messages(reading, 0, messages)
    began = trial.elapsed
    while True:
        late = await quick.ok("Subscribe", topic=topic, start=TIME, value=0)
        await quick.messages(late.id, late["start"], messages[late["start"] :])
        await quick.ok("Unsubscribe", subscription=late.id)
        if late["start"] == 2:
            break
        if late["start"] > 2 or trial.elapsed - began > trial.patience + FREED_S:
            problem = f"the topic begins at {late['start']}; a reader has offset 2 before it, and 0 and 1 behind it"
            raise Failed(problem, expected="it begins at 2, after a second", came=f"{late['start']}")
        await anyio.sleep(0.05)
    await slow.commit(waiting, 2)
    await slow.messages(waiting, 2, messages[2:4])


@STAGE.check(
    "an until at or below the start ends a subscription at once, and no lag goes beyond an until",
    hint="Compare the cursor with until whenever it moves, and before it ever has. Cut Lagged at until.",
    sentences="open.4 until.1 until.2 until.3 ended.2 commit.4 unsubscribe.2 unsubscribe.4 publish.3",
)
async def untils(trial: Trial) -> None:
    """Inside a batch, at its end; below, at, 0; two that fall behind, one beyond its until; commits and Unsubscribe."""
    client, topic = await trial.making({TTL: FOREVER, CAPACITY: 2})
    await client.publish_singly(topic, [(b"", bytes([value])) for value in range(6)])
    batch = [trial.message() for _ in range(4)]
    whole = trial.topic("whole")
    await client.create(whole, {TTL: FOREVER})
    await client.publish(whole, *batch)
    for until in (2, 4):
        subscription = await client.subscribe(whole, until=until)
        await client.messages(subscription, 0, batch[:until])
        await _ended(client, subscription, until)
    for start, until in ((5, 4), (5, 5), (5, 0)):
        request = await client.send("Subscribe", topic=topic, start=OFFSET, value=start, until=until)
        await client.receives("Subscribed", id=request, start=start)
        await _ended(client, request, start)
    behind = await client.subscribe(topic, start=OFFSET, value=1, until=3)
    await client.lagged(behind, 1, 3)
    await _ended(client, behind, 3)
    within = await client.subscribe(topic, start=OFFSET, value=3, until=5, credit=1)
    await client.lagged(within, 3, 4)
    await client.messages(within, 4, [(b"", b"\4")])
    ended = await client.event(within, awaited="SubscriptionEnded, though there was no credit")
    client.must_be(ended, "SubscriptionEnded", code=1, next=5)
    await client.ok("Commit", subscription=within, next=3, expect={"committed": 3})
    await client.commit(within, 5)
    await client.ok("Unsubscribe", subscription=within)
    await client.refused("NO_SUCH_SUBSCRIPTION", "Commit", subscription=within, next=5)
    await client.publish(topic, trial.message(), subscribers=0)


async def _ended(client: Connection, subscription: int, offset: int) -> None:
    await client.told(subscription, "SubscriptionEnded", code=1, next=offset)
    await client.ok("Unsubscribe", subscription=subscription)
    await client.refused("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription)


@STAGE.check(
    "value is looked at for offsets and times only, and times are unsigned",
    hint="With earliest and latest value may be anything. The largest time is in the future, not before 1970.",
    sentences="id.7 subscribe.3 subscribe.7 start.1 start.2 start.4",
)
async def values(trial: Trial) -> None:
    """Values that make no sense; a time before what is left. What was refused has used no id up."""
    client, topic = await trial.making({TTL: FOREVER, CAPACITY: 3})
    await client.publish_singly(topic, [trial.message() for _ in range(5)])
    for start, value, offset in (
        (0, 1, 2), (0, 2**64 - 1, 2), (LATEST, 0, 5), (LATEST, 2**64 - 1, 5), (TIME, 2**64 - 1, 5), (TIME, 1, 2),
    ):  # fmt: skip
        expect = {"start": offset, "live": 5, "committed": offset}
        await client.subscribe(topic, start=start, value=value, expect=expect)
    for value in (6, 2**63, 2**64 - 1):
        await client.refused("OFFSET_AHEAD", "Subscribe", topic=topic, start=OFFSET, value=value)
    bad: tuple[dict[str, int], ...] = ({"start": OFFSET, "value": 6}, {"start": 4}, {"epoch": 1}, {"credit": 0})
    for fields in bad:
        frame_id = await client.send("Subscribe", topic=topic, **fields)
        client.must_be(await client.reply(frame_id), "Error", id=frame_id)
        await client.subscribe(topic, frame_id=frame_id)


async def _head_is(client: Connection, topic: str, offset: int) -> None:
    await client.ok("Unsubscribe", subscription=await client.subscribe(topic, expect={"start": offset}))


@STAGE.check(
    "a ring holds at most max_bytes of batches, and whole batches go",
    hint="A batch counts with all its bytes, columns and offsets too, until its last message has gone.",
    sentences="publish.4 ring.2 ring.3 lag.1",
)
async def in_bytes(trial: Trial) -> None:
    """Room for exactly three batches of two; the fourth pushes out the first, and no more."""
    client, topic = await trial.client(), trial.topic()
    pair = [(b"k", b"x" * 4), (b"", b"y" * 5)]
    size = len(wire.encode_batch(pair))
    await client.create(topic, {MAX_BYTES: 3 * size, TTL: FOREVER})
    for number in range(4):
        await client.publish(topic, *pair, first_offset=2 * number, stored=2)
        await _head_is(client, topic, max(0, 2 * number - 4))
    late = await client.subscribe(topic, start=OFFSET, value=0, expect={"start": 0, "live": 8})
    await client.lagged(late, 0, 2)
    await client.messages(late, 2, pair * 3)
    largest = (b"", bytes(3 * size - len(wire.encode_batch([(b"", b"")]))))
    await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"", largest[1] + b"!")])
    await client.publish(topic, largest, first_offset=8, stored=1)
    await client.subscribe(topic, expect={"start": 8, "live": 9})


@STAGE.check(
    "the bytes of a batch that capacity has cut stay until its last message goes, and then no longer",
    hint="Count bytes by batch: add when it is stored, take away when the last of its messages has gone.",
    sentences="ring.1 ring.2",
)
async def cut_batches(trial: Trial) -> None:
    """Four messages at most: a batch of four is cut to one, and its bytes still count; what has expired does not."""
    client, topic = await trial.client(), trial.topic()
    four, one = [(b"", bytes(100))] * 4, (b"", bytes(100))
    whole, single = len(wire.encode_batch(four)), len(wire.encode_batch([one]))
    await client.create(topic, {CAPACITY: 4, MAX_BYTES: whole + 2 * single, TTL: FOREVER})
    await client.publish(topic, *four, first_offset=0)
    for offset, head in ((4, 1), (5, 2), (6, 4), (7, 4), (8, 5), (9, 6)):
        await client.publish(topic, one, first_offset=offset)
        await _head_is(client, topic, head)
    brief = trial.topic("brief")
    settings = {TTL: round(BRIEF_S * 1000 * trial.scale), MAX_BYTES: 3 * single}
    await client.create(brief, settings)
    for first in (0, 3):
        began = trial.elapsed
        await client.publish_singly(brief, [one] * 3, first_offset=first)
        frame = await client.ok("Subscribe", topic=brief)
        trial.in_time(began, BRIEF_S)
        client.must_be(frame, "Subscribed", start=first)
        await trial.wait(trial.elapsed, BRIEF_S)


@STAGE.check(
    "a topic's epoch is the time when it was made, and only that epoch is the topic's",
    hint="An epoch from before is as wrong as one from after, and of a topic that is not there every epoch is wrong.",
    sentences="subscribe.8 create.2 bytes.4",
)
async def epochs(trial: Trial) -> None:
    """Near this machine's clock; one less, one more; a topic that does not exist."""
    client, topic = await trial.client(), trial.topic()
    await client.refused("EPOCH_CHANGED", "Subscribe", topic=trial.topic("none"), epoch=12345)
    frame = await client.create(topic)
    epoch = frame["epoch"]
    must_be_now("the epoch of a new topic", epoch, frame, CLOCKS_MAY_DIFFER_S)
    for other in (epoch - 1, epoch + 1, 1, 2**64 - 1):
        await client.refused("EPOCH_CHANGED", "Subscribe", topic=topic, epoch=other)
    await client.subscribe(topic, epoch=epoch, expect={"epoch": epoch})
    await client.publish(topic, trial.message(), first_offset=0, subscribers=1)


@STAGE.check(
    "with retention 0 what was just published can be asked for by its offset",
    hint="earliest means latest, and no more than that: time drops nothing, and once a second is not at once.",
    sentences="retention.3 retention.4 start.3",
)
async def still_there(trial: Trial) -> None:
    """Nobody is there when two messages come. Once a second they may go, but not five times out of five."""
    client = await trial.client()
    for number in range(TIMES):
        topic, messages = trial.topic(f"{number}"), [trial.message() for _ in range(2)]
        await client.publish_singly(topic, messages)
        subscription = await client.subscribe(topic, start=OFFSET, value=0, expect={"start": 0, "live": 2})
        if number < TIMES - 1 and not await client.has_event(subscription, trial.quiet):
            continue
        if number < TIMES - 1 and client.events[0].name == "Lagged":
            client.events.clear()
            continue
        await client.messages(subscription, 0, messages)
        return
