"""S11, continued: what is readable, and when a time is over, told by the broker's own clock."""

import anyio

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failed
from zaichik.learn.layouts import CAPACITY, FOREVER, LATEST, OFFSET, TIME, TTL
from zaichik.learn.stages.s11_retention import STAGE as STAGE
from zaichik.learn.ticks import Ticks
from zaichik.learn.trial import Trial

TTL_MS, FREED_S = 400, 2.0


@STAGE.check(
    "a retention is as long as it says, by the broker's own clock",
    hint="readable means accepted <= now < accepted + ttl. Look at each request, not once a second, and round nothing.",
    sentences="retention.1 ring.3 time.1 time.2 time.3",
)
async def exactly(trial: Trial) -> None:
    """Latecomers ask again and again. A publish before and behind each of them tells the time at which they asked."""
    client, topic = await trial.client(), trial.topic()
    ticks = await Ticks.of(trial, client)
    await client.ok("CreateTopic", topic=topic, settings={TTL: TTL_MS})
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
    sentences="until.1 until.2 until.3 ended.2 commit.4 unsubscribe.2 unsubscribe.4 publish.3",
)
async def untils(trial: Trial) -> None:
    """Below, at, and 0; then two that fall behind, one beyond its until; commits and Unsubscribe still work, once."""
    client, topic = await trial.client(), trial.topic()
    await client.ok("CreateTopic", topic=topic, settings={TTL: FOREVER, CAPACITY: 2})
    for value in range(6):
        await client.publish(topic, (b"", bytes([value])))
    for start, until in ((5, 4), (5, 5), (5, 0)):
        subscription = await client.subscribe(topic, start=OFFSET, value=start, until=until, expect={"start": start})
        await _ended(client, subscription, start)
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
    frame = await client.event(subscription, awaited="SubscriptionEnded")
    client.must_be(frame, "SubscriptionEnded", code=1, next=offset)
    await client.ok("Unsubscribe", subscription=subscription)
    await client.refused("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription)


@STAGE.check(
    "value is looked at for offsets and times only, and times are unsigned",
    hint="With earliest and latest value may be anything. The largest time is in the future, not before 1970.",
    sentences="subscribe.3 subscribe.7 start.1 start.2 start.4",
)
async def values(trial: Trial) -> None:
    """Values that make no sense; a time before what has gone is that of the oldest message left."""
    client, topic = await trial.client(), trial.topic()
    await client.ok("CreateTopic", topic=topic, settings={TTL: FOREVER, CAPACITY: 3})
    for _ in range(5):
        await client.publish(topic, trial.message())
    for start, value, offset in (
        (0, 1, 2), (0, 2**64 - 1, 2), (LATEST, 0, 5), (LATEST, 2**64 - 1, 5), (TIME, 2**64 - 1, 5), (TIME, 1, 2),
    ):  # fmt: skip
        await client.subscribe(
            topic, start=start, value=value, expect={"start": offset, "live": 5, "committed": offset}
        )
    for value in (6, 2**63, 2**64 - 1):
        await client.refused("OFFSET_AHEAD", "Subscribe", topic=topic, start=OFFSET, value=value)
