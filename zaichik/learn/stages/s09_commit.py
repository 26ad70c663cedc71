"""S9: the reader sets the pace."""

import anyio

from zaichik.learn import layouts, wire
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

RALLY, RALLY_S, PAIRS, HEAP = 20_000, 6.0, 8, 50  # messages and seconds at most; pairs; messages of a batch

STAGE = Stage(
    number=9,
    title="The commit gate",
    chapter=11,
    frames=("Commit", "Committed"),
    goal=(
        "A subscription is sent as many messages as it has credit for; those not yet settled by a Commit are "
        "in flight. Free credit is computed, never counted: credit minus what is in flight."
    ),
    tested=(
        "Credit 1 and 3, commits of some and of all, twice, too far; two subscriptions with credits of their "
        "own; credit in bytes."
    ),
    real=(
        "The same under many names: RabbitMQ's prefetch (basic.qos), MQTT 5's Receive Maximum (65,535 by "
        "default), NATS JetStream's MaxAckPending (1,000 by default). Kafka's consumers pull instead. The "
        "first zaichik kept a flag: a commit with nothing outstanding bought a message, and so did "
        "unsubscribing and subscribing again."
    ),
    hints=(
        (
            "Keep cursor (next offset to send) and committed. In flight is what lies between. May another one "
            "go? cursor - committed < credit. A commit only moves committed, forwards, up to cursor at most."
        ),
        (
            "tutorial/tiny_broker.py: `Subscription.next_event` decides, `Connection.commit` settles: below "
            "committed nothing happens, beyond cursor is NOT_IN_FLIGHT."
        ),
    ),
)


@STAGE.check(
    "with credit 1 the second message waits for the commit of the first",
    hint="Before you send: is less in flight than there is credit? After a commit: who wakes the writer?",
    sentences="credit.1 credit.2 credit.6 commit.1",
)
async def one_by_one(trial: Trial) -> None:
    """Three messages, two commits."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=1)
    messages = [trial.message() for _ in range(3)]
    await writer.publish(trial.topic(), *messages)
    for offset, message in enumerate(messages):
        await reader.messages(subscription, offset, [message])
        await reader.nothing("one message was in flight, and credit was 1")
        await reader.commit(subscription, offset + 1)
    await reader.nothing("all messages had been read")


@STAGE.check(
    "a commit frees as much as it settles, and is cumulative",
    hint="Commit(next) settles everything below next, not one message.",
    sentences="commit.1 credit.2 credit.6",
)
async def cumulative(trial: Trial) -> None:
    """Credit 3: three come; a commit of two brings two; a commit of all the rest."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=3)
    messages = [trial.message() for _ in range(8)]
    await writer.publish(trial.topic(), *messages)
    await reader.messages(subscription, 0, messages[:3])
    await reader.nothing("three messages were in flight, and credit was 3")
    await reader.commit(subscription, 2)
    await reader.messages(subscription, 3, messages[3:5])
    await reader.nothing("three messages were in flight again")
    await reader.commit(subscription, 5)
    await reader.messages(subscription, 5, messages[5:])


@STAGE.check(
    "a commit beyond what was delivered is NOT_IN_FLIGHT, and changes nothing",
    hint="The limit is the cursor: the next offset you would send. A message not sent cannot be settled.",
    sentences="commit.3",
)
async def too_far(trial: Trial) -> None:
    """One delivered, two committed."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=1)
    messages = [trial.message() for _ in range(3)]
    await writer.publish(trial.topic(), *messages)
    await reader.messages(subscription, 0, messages[:1])
    await reader.refused("NOT_IN_FLIGHT", "Commit", subscription=subscription, next=2)
    await reader.nothing("the commit was refused")
    await reader.commit(subscription, 1)
    await reader.messages(subscription, 1, messages[1:2])


@STAGE.check(
    "a commit that settles nothing gives no credit",
    hint="Is credit a number that every commit adds to? Compute it instead: credit - in flight.",
    sentences="commit.2 credit.5",
)
async def nothing_bought(trial: Trial) -> None:
    """Nothing outstanding, and commits all the same; the same commit twice; one that goes back."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=2)
    for _ in range(3):
        await reader.commit(subscription, 0)
    messages = [trial.message() for _ in range(6)]
    await writer.publish(trial.topic(), *messages)
    await reader.messages(subscription, 0, messages[:2])
    await reader.nothing("two messages were in flight, and credit was 2")
    await reader.commit(subscription, 1)
    await reader.commit(subscription, 1)
    committed = {"committed": 1}
    await reader.ok("Commit", subscription=subscription, next=0, expect=committed)
    await reader.messages(subscription, 2, messages[2:3])
    await reader.nothing("only one message was settled, and one had come for it")


@STAGE.check(
    "each subscription has a credit of its own",
    hint="Keep what is in flight in the subscription, not in the connection, nor in the topic.",
    sentences="credit.5 fair.1",
)
async def own_credit(trial: Trial) -> None:
    """Two on one connection, one of them out of credit."""
    client, writer = await trial.client(), await trial.client()
    slow, quick = await client.subscribe(trial.topic(), credit=1), await client.subscribe(trial.topic(), credit=10)
    messages = [trial.message() for _ in range(5)]
    await writer.publish(trial.topic(), *messages)
    await client.messages(quick, 0, messages)
    await client.messages(slow, 0, messages[:1])
    await client.nothing("the slow subscription had settled nothing")
    await client.commit(slow, 1)
    await client.messages(slow, 1, messages[1:2])
    await client.commit(quick, 5)
    await client.nothing("it was the quick subscription that had settled something")


@STAGE.check(
    "credit also counts bytes, but one message is always allowed",
    hint="Keys and payloads in flight must stay below credit_bytes; if nothing is in flight, any one message may go.",
    sentences="credit.2 credit.3 credit.6",
)
async def in_bytes(trial: Trial) -> None:
    """100 bytes of credit: 40 + 40 fit, another 40 do not; 500 go alone."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=100, credit_bytes=100)
    sizes = (40, 40, 40, 500, 10)
    messages = [(b"", trial.payload(size)) for size in sizes]
    for message in messages:
        await writer.publish(trial.topic(), message)
    await reader.messages(subscription, 0, messages[:2])
    await reader.nothing("80 bytes were in flight, and 40 more are above 100")
    await reader.commit(subscription, 2)
    await reader.messages(subscription, 2, messages[2:3])
    await reader.nothing("500 bytes go only when nothing is in flight")
    await reader.commit(subscription, 3)
    await reader.messages(subscription, 3, messages[3:4])
    await reader.nothing("500 bytes were in flight, and credit was 100")
    await reader.commit(subscription, 4)
    await reader.messages(subscription, 4, messages[4:])


@STAGE.check(
    "a credit of 0 is INVALID_FIELD",
    hint="Such a subscription would never get anything. credit and credit_bytes are at least 1.",
    sentences="subscribe.5 subscribe.6",
)
async def zero(trial: Trial) -> None:
    """In messages, and in bytes."""
    client = await trial.client()
    await client.refused("INVALID_FIELD", "Subscribe", topic=trial.topic(), credit=0, at="credit")
    await client.refused("INVALID_FIELD", "Subscribe", topic=trial.topic(), credit_bytes=0, at="credit_bytes")


@STAGE.check(
    "a Commit with id 0 is carried out in silence, and brings the next message",
    hint="Only the answer is left out. Waking the writer must not hang on there being one.",
    sentences="id.4 id.5 commit.1 commit.3 credit.6",
)
async def silently(trial: Trial) -> None:
    """Five messages, one by one; then a commit too far, which is answered."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=1)
    messages = [trial.message() for _ in range(5)]
    await writer.publish(trial.topic(), *messages)
    for offset, message in enumerate(messages):
        await reader.messages(subscription, offset, [message])
        await reader.send("Commit", frame_id=0, subscription=subscription, next=offset + 1)
    await reader.send("Commit", frame_id=0, subscription=subscription, next=len(messages) + 1)
    frame = await reader.reply(0)
    reader.must_be_error(frame, "NOT_IN_FLIGHT", request_type=layouts.TYPES["Commit"], id=0)
    await reader.commit(subscription, len(messages))


@STAGE.check(
    "bytes are counted for every message of a batch, keys and payloads, up to exactly credit_bytes",
    hint="A batch may go in pieces: take as many of its messages as fit, and count all that were taken.",
    sentences="batch.1 credit.2 credit.3 credit.6 messages.5",
)
async def bytes_of_batches(trial: Trial) -> None:
    """Of nine messages of 25 bytes, four fit into 100; two more after a commit of two; empty ones count as messages."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=100, credit_bytes=100)
    messages = [(trial.payload(10), trial.payload(15)) for _ in range(9)]
    await writer.publish(trial.topic(), *messages)
    await reader.messages(subscription, 0, messages[:4])
    await reader.nothing("100 bytes were in flight")
    await reader.commit(subscription, 4)
    await reader.messages(subscription, 4, messages[4:8])
    await reader.nothing("100 bytes were in flight again")
    await reader.commit(subscription, 8)
    await reader.messages(subscription, 8, messages[8:])
    empty = await reader.subscribe(trial.topic("empty"), credit=2, credit_bytes=100)
    await writer.publish(trial.topic("empty"), *[(b"", b"")] * 5)
    await reader.messages(empty, 0, [(b"", b"")] * 2)
    await reader.nothing("two messages were in flight, and credit was 2, however small they are")


@STAGE.check(
    "a frame's bytes are in flight until its last message is settled",
    hint="Settling a part of a frame frees messages, and no bytes yet: keep the size with the frame's last offset.",
    sentences="credit.4",
)
async def bytes_of_frames(trial: Trial) -> None:
    """Three messages of 30 bytes are in flight; the first is settled, and a fourth would be too many, or not."""
    reader, writer = await trial.client(), await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit=100, credit_bytes=100)
    messages = [(b"", trial.payload(30)) for _ in range(4)]
    await writer.publish(trial.topic(), *messages)
    first = await reader.next_messages(subscription)
    if len(first) < 3:
        await reader.messages(subscription, len(first), messages[len(first) : 3])
    await reader.commit(subscription, 1)
    if len(first) > 1:
        await reader.nothing("the frame's last message was not settled, so 90 bytes were in flight")
        await reader.commit(subscription, len(first))
    await reader.messages(subscription, 3, messages[3:])


@STAGE.check(
    "a credit of max_credit is granted, and one more is INVALID_FIELD",
    hint="Welcome.max_credit is the largest credit that is right.",
    sentences="subscribe.5 welcome.4",
)
async def most_credit(trial: Trial) -> None:
    """If there is anything above it."""
    client = await trial.client()
    most = client.limits["max_credit"]
    await client.subscribe(trial.topic(), credit=most, credit_bytes=2**32 - 1)
    if most < 2**32 - 1:
        await client.refused("INVALID_FIELD", "Subscribe", topic=trial.topic(), credit=most + 1, at="credit")


@STAGE.check(
    "of thousands of messages, each awaited before the next, not one is forgotten",
    hint="Between looking whether there is something to send and waiting for a signal, can a signal come and be lost? "
    "Take the signal back before you look, not after.",
    sentences="start.5 credit.6",
    once=True,
)
async def rally(trial: Trial) -> None:
    """Over eight pairs of connections. In half of them a publish brings each message, in the others a silent commit."""

    async def play(number: int) -> None:
        writer, reader = await trial.client(), await trial.client()
        topic = trial.topic(f"{number}")
        by_commit = number % 2
        subscription = await reader.subscribe(topic, credit=1 if by_commit else 1000)
        publish = wire.encode("Publish", frame_id=0, topic=topic, batch=[(b"", b"x")] * (HEAP if by_commit else 1))
        for offset in range(RALLY // PAIRS):
            if trial.elapsed > RALLY_S:
                return  # a slow broker, or a busy machine: fewer messages prove less
            if not by_commit or offset % HEAP == 0:
                await writer.pour(publish)
            frame = await reader.event(subscription, awaited=f"the message with offset {offset}")
            reader.must_be(frame, "Messages", base=offset)
            if by_commit or offset % 500 == 0:
                settle = {"subscription": subscription, "next": offset + 1}
                await reader.pour(wire.encode("Commit", frame_id=0, **settle))

    async with anyio.create_task_group() as tasks:
        for number in range(PAIRS):
            tasks.start_soon(play, number)
