"""S9, continued: commits without a reply, exact byte counts, and no lost wake-ups."""

from typing import Any

from zaichik.learn import layouts, wire
from zaichik.learn.stages.s09_commit import STAGE as STAGE
from zaichik.learn.trial import Trial

RALLY, RALLY_S, PAIRS, HEAP = (
    20_000,
    6.0,
    8,
    50,
)  # messages and seconds at most; pairs; messages of a batch
TURNS, FIRST_ID = 10, 500


@STAGE.check(
    "a Commit with id 0 gets no reply, and brings the next message",
    hint="Only the reply is left out. Waking the writer must not depend on there being one.",
    sentences="id.4 id.5 commit.1 commit.3 credit.6",
)
async def silently(trial: Trial) -> None:
    """Five messages, one by one; a commit too far, which is answered; credit 2."""
    reader, writer, subscription = await trial.make_reader(credit=1)
    messages = [trial.message() for _ in range(5)]
    await writer.publish(trial.topic(), *messages)
    for offset, message in enumerate(messages):
        await reader.expect_messages(subscription, offset, [message])
        await reader.send("Commit", frame_id=0, subscription=subscription, next=offset + 1)
    await reader.expect_error(
        "NOT_IN_FLIGHT", "Commit", frame_id=0, subscription=subscription, next=len(messages) + 1
    )
    await reader.commit(subscription, len(messages))
    several = await reader.subscribe(trial.topic("several"), credit=2)
    await writer.publish(trial.topic("several"), *messages)
    await reader.expect_messages(several, 0, messages[:2])
    for offset, message in enumerate(messages[2:], 2):
        await reader.send("Commit", frame_id=0, subscription=several, next=offset - 1)
        await reader.expect_messages(several, offset, [message])


@STAGE.check(
    "bytes are counted for each message of a batch, key and payload, up to exactly credit_bytes",
    hint="A batch may be sent in parts: take as many messages as fit, and count all of them.",
    sentences="batch.1 credit.2 credit.3 credit.6 messages.5",
)
async def bytes_of_batches(trial: Trial) -> None:
    """Of nine of 25 bytes, four fit into 100; an empty one fits beside 99, and uses credit."""
    reader, writer, subscription = await trial.make_reader(credit=100, credit_bytes=100)
    messages = [(trial.payload(10), trial.payload(15)) for _ in range(9)]
    await writer.publish(trial.topic(), *messages)
    await reader.expect_messages(subscription, 0, messages[:4])
    await reader.expect_no_event("100 bytes were in flight")
    await reader.commit(subscription, 4)
    await reader.expect_messages(subscription, 4, messages[4:8])
    await reader.expect_no_event("100 bytes were in flight again")
    await reader.commit(subscription, 8)
    await reader.expect_messages(subscription, 8, messages[8:])
    singly = await reader.subscribe(trial.topic("singly"), credit=100, credit_bytes=100)
    await writer.publish_singly(trial.topic("singly"), messages)
    await reader.expect_messages(singly, 0, messages[:4])
    await reader.commit(singly, 4)
    await reader.expect_messages(singly, 4, messages[4:8])
    await reader.expect_no_event("100 bytes were in flight again")
    nearly = await reader.subscribe(trial.topic("nearly"), credit=100, credit_bytes=100)
    last = [(b"", trial.payload(99)), (b"", b""), (b"k", b""), (b"", b"")]
    await writer.publish_singly(trial.topic("nearly"), last)
    await reader.expect_messages(nearly, 0, last[:3])
    await reader.expect_no_event("100 bytes were in flight, so not even an empty message fits")
    empty = await reader.subscribe(trial.topic("empty"), credit=2, credit_bytes=100)
    await writer.publish(trial.topic("empty"), *[(b"", b"")] * 5)
    await reader.expect_messages(empty, 0, [(b"", b"")] * 2)
    await reader.expect_no_event(
        "two messages were in flight, and credit was 2, however small they are"
    )


@STAGE.check(
    "a frame's bytes are in flight until its last message is settled",
    hint="Settling part of a frame frees no bytes yet: keep the size with its last offset.",
    sentences="credit.4",
)
async def bytes_of_frames(trial: Trial) -> None:
    """Three messages of 30 bytes in flight; is there room for a fourth if one is settled?"""
    reader, writer, subscription = await trial.make_reader(credit=100, credit_bytes=100)
    messages = [(b"", trial.payload(30)) for _ in range(4)]
    await writer.publish(trial.topic(), *messages)
    first = await reader.next_messages(subscription)
    if len(first) < 3:
        await reader.expect_messages(subscription, len(first), messages[len(first) : 3])
    await reader.commit(subscription, 1)
    if len(first) > 1:
        await reader.expect_no_event(
            "the frame's last message was not settled, so 90 bytes were in flight"
        )
        await reader.commit(subscription, len(first))
    await reader.expect_messages(subscription, 3, messages[3:])


@STAGE.check(
    "a credit of max_credit is granted, and one more is INVALID_FIELD",
    hint="Welcome.max_credit is the largest credit that is allowed.",
    sentences="subscribe.5 welcome.4",
)
async def most_credit(trial: Trial) -> None:
    """If there is a number above it."""
    client = await trial.client()
    most = client.limits["max_credit"]
    await client.subscribe(trial.topic(), credit=most, credit_bytes=2**32 - 1)
    if most < 2**32 - 1:
        await client.expect_error(
            "INVALID_FIELD", "Subscribe", topic=trial.topic(), credit=most + 1, at="credit"
        )


@STAGE.check(
    "of thousands of messages, each awaited before the next, none gets stuck",
    hint="Between checking for something to send and waiting for a signal, can a signal come and "
    "be lost? Reset the signal before you check, not after.",
    sentences="start.5 credit.6",
    once=True,
)
async def rally(trial: Trial) -> None:
    """Eight pairs of connections. In half of them, commits bring the messages, not publishes."""

    async def play(number: int) -> None:
        writer, reader = await trial.client(), await trial.client()
        topic = trial.topic(f"{number}")
        by_commit = number % 2
        subscription = await reader.subscribe(topic, credit=1 if by_commit else 1000)
        publish = wire.encode(
            "Publish", frame_id=0, topic=topic, batch=[(b"", b"x")] * (HEAP if by_commit else 1)
        )
        for offset in range(RALLY // PAIRS):
            if trial.elapsed > RALLY_S:
                return  # a slow broker or a busy machine; fewer messages prove less
            if not by_commit or offset % HEAP == 0:
                await writer.pour(publish)
            frame = await reader.event(subscription, awaited=f"the message with offset {offset}")
            reader.must_be(frame, "Messages", base=offset)
            if by_commit or offset % 500 == 0:
                settle = {"subscription": subscription, "next": offset + 1}
                await reader.pour(wire.encode("Commit", frame_id=0, **settle))

    await trial.at_once(play, [(number,) for number in range(PAIRS)])


@STAGE.check(
    "replies of all kinds come in the order of their requests",
    hint="Use one queue for all replies of a connection, and let none bypass it.",
    sentences="id.2 open.1",
)
async def in_order(trial: Trial) -> None:
    """Requests of all kinds in one write, ten times over; some are refused."""
    client, topic = await trial.client(), trial.topic()
    subscription = await client.subscribe(topic)
    pairs: list[tuple[str, dict[str, Any]]] = []
    for number in range(TURNS):
        pairs += [
            ("Ping", {"value": number}),
            ("Commit", {"subscription": subscription, "next": 0}),
            ("Publish", {"topic": trial.topic("other"), "batch": [trial.message()]}),
            ("CreateTopic", {"topic": topic}),
            ("Commit", {"subscription": subscription, "next": 1}),
            ("Subscribe", {"topic": topic}),
            ("Unsubscribe", {"subscription": subscription + 1000}),
        ]
    requests = [
        wire.encode(name, frame_id=FIRST_ID + number, **how)
        for number, (name, how) in enumerate(pairs)
    ]
    await client.send_bytes(b"".join(requests), "requests of all kinds")
    for number, (name, how) in enumerate(pairs):
        frame = await client.read(awaited=f"the reply to {name}")
        is_refused = name == "Unsubscribe" or how.get("next")
        client.must_be(
            frame, "Error" if is_refused else layouts.reply_to(name), id=FIRST_ID + number
        )
