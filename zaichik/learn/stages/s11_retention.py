"""S11: Retention for latecomers.

Goal: A topic with a retention keeps messages for latecomers: for a duration, or until the ring
needs the room. Reading history and reading what is new are one and the same, without a seam.

Tested: Latecomers start at earliest, latest, an offset, a time; history and new messages mix;
messages expire, before anyone has subscribed and while a reader waits.

Real systems: Kafka keeps a week by default (log.retention.hours=168), and deletes whole segments,
so messages may outlive it; NATS JetStream has MaxAge, Redis Streams MAXLEN and MINID. The first
zaichik copied all retained messages for every subscriber, and cleaned up only on publish.

How: A message is readable while accepted <= now < accepted + ttl. Use the same rule everywhere: for
new readers, for waiting ones, for freeing. It is always the oldest that expire: a prefix of the
ring.

Where: tutorial/tiny_broker.py: `Topic.head` drops what has expired whenever it is called;
`Connection.subscribe` computes the four starts; `write` checks again once a second, since messages
expire silently.
"""

import anyio

from zaichik.learn import docstrings
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import CAPACITY, EARLIEST, FOREVER, LATEST, OFFSET, TIME, TTL
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

# Far from the edge on both sides. In between, a busy machine cannot tell right from wrong.
TTL_S, SURELY_THERE_S, SURELY_GONE_S, JUST_GONE_S = 0.4, 0.15, 1.2, 0.02
ROOM = 5  # messages in a small ring

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=10, frames="SubscriptionEnded")


@STAGE.check(
    "with retention forever a latecomer gets the whole history, then new messages, without a seam",
    hint="Subscribed has start (where it begins) and live (the next offset to be published): two "
    "different numbers here.",
    sentences="bytes.3 open.4 subscribe.1 subscribe.2 retention.2 start.1 start.5",
)
async def history(trial: Trial) -> None:
    """Publishing goes on while history is read; then again on the same connection."""
    reader, writer = await trial.client(), await trial.client()
    await writer.create(trial.topic(), {TTL: FOREVER})
    messages = [(b"", f"{offset}".encode()) for offset in range(60)]
    await writer.publish_singly(trial.topic(), messages[:30])

    async def go_on() -> None:
        await writer.publish_singly(trial.topic(), messages[30:])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        frame = await reader.ok(
            "Subscribe", topic=trial.topic(), start=EARLIEST, expect={"start": 0, "committed": 0}
        )
        if frame["live"] < 30:
            raise Failure("30 messages had been published: live should be 30 or more", frame=frame)
        await reader.expect_messages(frame.id, 0, messages)
    request = await reader.send("Subscribe", topic=trial.topic())
    await reader.expect_frame("Subscribed", id=request)
    await reader.expect_messages(request, 0, messages)


@STAGE.check(
    "a subscription starts at latest, at an offset, or at a time",
    hint="latest: the next offset. A time: the first message accepted at or after it, else the "
    "next offset.",
    how="Four cases, each of them a number: the head, the next offset, the value itself "
    "(OFFSET_AHEAD if it is beyond the next offset), and the first message whose time is not "
    "before the value. Messages are sorted by time, so use a binary search.",
    where="tutorial/tiny_broker.py, `Connection.subscribe`: a tuple of four, and `request.start` "
    "picks one.",
    sentences="subscribe.2 subscribe.4 subscribe.7 start.2 start.3 start.4",
)
async def starts(trial: Trial) -> None:
    """Four messages; each start gets those after it. One beyond the end is OFFSET_AHEAD."""
    client = await trial.client()
    topic = trial.topic()
    await client.create(topic, {TTL: FOREVER})
    messages = [trial.message() for _ in range(4)]
    for message in messages:
        await client.publish(topic, message)
        await anyio.sleep(0.002)  # so that no two have the same time
    first = await client.subscribe(topic)
    accepted = []
    for offset, message in enumerate(messages):
        frame = await client.expect_event(first, "Messages", base=offset, batch=[message])
        accepted.append(frame["accepted_us"])
    for start, value, offset in (
        (OFFSET, 2, 2), (OFFSET, 4, 4), (TIME, accepted[1], 1), (TIME, accepted[2] + 1, 3),
        (TIME, accepted[3] + 10_000_000, 4), (TIME, 0, 0), (LATEST, 0, 4),
    ):  # fmt: skip
        expect = {"start": offset, "live": 4, "committed": offset}
        subscription = await client.subscribe(topic, start=start, value=value, expect=expect)
        await client.expect_messages(subscription, offset, messages[offset:])
    await client.expect_error("OFFSET_AHEAD", "Subscribe", topic=topic, start=OFFSET, value=5)
    await client.expect_error("INVALID_FIELD", "Subscribe", topic=topic, start=4, at="start")


@STAGE.check(
    "an epoch that is not the topic's is EPOCH_CHANGED",
    hint="0 means any. Offsets from an earlier topic of that name must not be used in this one.",
    how="An epoch is the topic's identity: assigned once, when it is created, and sent in every "
    "reply about it. Compare it before you create the subscription.",
    where="tutorial/tiny_broker.py, `Connection.subscribe`: the `require` with EPOCH_CHANGED; "
    "`Broker.find` assigns the epoch.",
    sentences="subscribe.8",
)
async def epoch(trial: Trial) -> None:
    """The right epoch, then a wrong one."""
    client = await trial.client()
    known = (await client.create(trial.topic()))["epoch"]
    await client.subscribe(trial.topic(), epoch=known, expect={"epoch": known})
    await client.expect_error(
        "EPOCH_CHANGED", "Subscribe", topic=trial.topic(), epoch=known + 1, at="epoch"
    )


@STAGE.check(
    "until ends a subscription by itself",
    hint="When the cursor reaches until, send SubscriptionEnded with code 1 (UNTIL) and next = the "
    "cursor. It needs no credit.",
    how="After each move of the cursor, and once at the start, check: is it at `until`? If so, "
    "send the event. The subscription no longer counts, but its id stays known, so that Commit is "
    "still answered.",
    where="tutorial/tiny_broker.py: `Subscription.all_events` is a loop up to `until`, and "
    "SubscriptionEnded after it.",
    sentences="commit.4 ended.1 ended.2 publish.3 until.1 until.2 until.3",
)
async def until(trial: Trial) -> None:
    """Two of four messages; the end comes before the commit, which still works; an empty range."""
    client, topic = await trial.make_topic({TTL: FOREVER})
    messages = [trial.message() for _ in range(4)]
    await client.publish(topic, *messages)
    subscription = await client.subscribe(topic, until=2, credit=2)
    await client.expect_messages(subscription, 0, messages[:2])
    client.must_be(await client.event(subscription), "SubscriptionEnded", code=1, next=2)
    await client.commit(subscription, 2)
    await client.publish(topic, trial.message(), subscribers=0)
    await client.expect_no_event("the subscription had ended")
    empty = await client.subscribe(topic, start=OFFSET, value=3, until=3)
    client.must_be(await client.event(empty), "SubscriptionEnded", code=1, next=3)


@STAGE.check(
    "a message can be read within its retention, and not after it",
    hint="retention_ttl_ms is in milliseconds, accepted_us in microseconds. Compare before every "
    "delivery.",
    sentences="bytes.3 retention.1 lag.1",
)
async def expires(trial: Trial) -> None:
    """Of 400 ms: a reader before 150 ms must get it, and one after 1200 ms must not."""
    early, late, writer = [await trial.client() for _ in range(3)]
    ttl = {TTL: round(TTL_S * 1000 * trial.scale)}
    await writer.create(trial.topic(), ttl)
    asked = trial.elapsed
    message = trial.message()
    await writer.publish(trial.topic(), message)
    subscribed = await early.ok("Subscribe", topic=trial.topic())
    trial.in_time(asked, SURELY_THERE_S)  # or a subscription that came too late would wait in vain
    event = await early.event(subscribed.id, awaited="the message")
    trial.in_time(asked, SURELY_THERE_S)
    early.must_be(subscribed, "Subscribed", start=0, live=1)
    early.must_be(event, "Messages", base=0, batch=[message])
    await trial.wait(trial.elapsed, SURELY_GONE_S)
    await late.subscribe(trial.topic(), expect={"start": 1, "live": 1})
    await late.expect_no_event("the message was past its retention")
    # A reader that asks for its offset all the same is told that it is gone.
    gone = await late.subscribe(trial.topic(), start=OFFSET, value=0)
    await late.expect_lag(gone, 0, 1)


@STAGE.check(
    "a message that expires while its reader waits for credit is skipped and reported as lag",
    hint="One rule for waiting and new readers. Lag is reported even if no message follows.",
    sentences="retention.1 lag.1 lag.3",
)
async def expires_waiting(trial: Trial) -> None:
    """With credit 1, one is read in time, three expire; then one more, a moment too late."""
    reader, writer, subscription = await trial.make_reader(
        {TTL: round(TTL_S * 1000 * trial.scale)}, credit=1
    )
    messages = [trial.message() for _ in range(4)]
    asked = trial.elapsed
    await writer.publish(trial.topic(), *messages)
    frame = await reader.event(subscription)
    trial.in_time(asked, SURELY_THERE_S)
    reader.must_be(frame, "Messages", base=0, batch=messages[:1])
    await trial.wait(trial.elapsed, SURELY_GONE_S)
    await reader.commit(subscription, 1)
    await reader.expect_lag(subscription, 1, 4)
    last, asked = trial.message(), trial.elapsed
    await writer.publish(trial.topic(), last, first_offset=4)
    frame = await reader.event(subscription)
    trial.in_time(asked, SURELY_THERE_S)
    reader.must_be(frame, "Messages", base=4, batch=[last])
    late = await writer.publish(trial.topic(), trial.message())
    await trial.wait(trial.elapsed, TTL_S + JUST_GONE_S)
    await reader.commit(subscription, 5)
    await reader.expect_lag(subscription, 5, late["first_offset"] + 1)


@STAGE.check(
    "a subscription may start at an offset that is gone: first Lagged, then the oldest",
    hint="Start where the request says, even below the head. Then report the lag first.",
    how="Don't adjust the cursor when the subscription is created: leave it where the reader "
    "asked. The rule of S10 then finds it below the head, and reports the lag.",
    where="tutorial/tiny_broker.py: `Connection.subscribe` takes `request.value` as it is, and "
    "`Subscription.next_event` compares it with the head.",
    sentences="start.3 lag.1",
)
async def start_below(trial: Trial) -> None:
    """Offset 2 of a topic whose head is 8."""
    writer, topic = await trial.make_topic({CAPACITY: ROOM, TTL: FOREVER})
    messages = [(b"", bytes([offset])) for offset in range(13)]
    await writer.publish_singly(topic, messages)
    subscription = await writer.subscribe(
        topic, start=OFFSET, value=2, expect={"start": 2, "live": 13}
    )
    await writer.expect_lag(subscription, 2, 8)
    await writer.expect_messages(subscription, 8, messages[8:])
