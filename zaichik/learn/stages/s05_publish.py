"""S5: A publish reaches a subscriber.

Goal: Subscribe gives a connection a place in a topic; Publish appends to the topic, and every
subscription is sent what was appended to it. A message's place is its offset: 0, 1, 2 … without
gaps.

Tested: One client publishes, another reads: offsets, keys and payloads of any bytes. Batches, which
are two columns of strings, must arrive as they were sent.

Real systems: Kafka has the same offsets, a partition for our topic, and batches too (RecordBatch
v2); MQTT has no offsets: a message is passed on and forgotten. Columns for a batch are Apache
Arrow's layout for binary arrays.

How: Make a topic a list of messages, and a subscription the offset of the message it gets next.
Publishing appends and wakes; sending means: while that offset is below the end, send and advance.

Where: tutorial/tiny_broker.py: `read_batch`, `Topic.publish`, `Subscription.next_event` (what goes
into Messages), and `Connection.write`, which sends all replies before it turns to subscriptions.
"""

import struct

from zaichik.learn import docstrings, layouts
from zaichik.learn.failure import Failure
from zaichik.learn.stage import Stage
from zaichik.learn.ticks import must_be_now
from zaichik.learn.trial import Trial

STAGE = Stage.parse(
    docstrings.of_module(__name__),
    chapter=6,
    frames="Subscribe Subscribed Publish Published Messages",
)

LARGE, TIMES = 200_000, 50
CLOCKS_MAY_DIFFER_S = 3600
DEFINED = 3  # flags of Messages
# That a check sends in one batch, if the broker allows it.
MOST_MESSAGES, MOST_BYTES = 100_000, 4 * 2**20


@STAGE.check(
    "Subscribe is answered with Subscribed",
    hint="The epoch is the topic's creation time in µs, never 0. A new topic begins at offset 0.",
    how="Look the topic up; create it if it doesn't exist, with the current time in µs as its "
    "epoch; add the subscription under the Subscribe's id. The reply has four numbers.",
    where="tutorial/tiny_broker.py: `Broker.find` creates the topic, and `Connection.subscribe` "
    "packs epoch, start, live and committed.",
    sentences="subscribe.1 subscribe.2 topic.1 topic.2",
)
async def subscribed(trial: Trial) -> None:
    """A new topic: all three numbers are 0, and both readers get the same epoch."""
    one, two = await trial.client(), await trial.client()
    start = {"start": 0, "live": 0, "committed": 0}
    first = await one.ok("Subscribe", topic=trial.topic(), expect=start)
    if first["epoch"] == 0:
        raise Failure("Subscribed.epoch must not be 0", frame=first)
    await two.ok("Subscribe", topic=trial.topic(), expect=start | {"epoch": first["epoch"]})


@STAGE.check(
    "a message published on one connection reaches a subscriber on another",
    hint="After the batch is stored: which connections subscribe to the topic? What wakes them?",
    sentences="event.1 messages.1 topic.1 publish.2 start.5",
)
async def reaches(trial: Trial) -> None:
    """Three messages, one after another: keys, payloads, offsets, the subscription's id."""
    reader, writer, subscription = await trial.make_reader()
    for offset in range(3):
        message = (trial.payload(), trial.payload())
        await writer.publish(
            trial.topic(), message, first_offset=offset, stored=1, compacted=0, subscribers=1
        )
        await reader.expect_messages(subscription, offset, [message])


@STAGE.check(
    "a batch arrives whole: every key and payload, empty ones and zero bytes too",
    hint="Message i is bytes [offset i] to [offset i + 1] of each column. Payloads follow keys.",
    how="Offsets are i32; each column has count + 1 of them. All key bytes come first, then all "
    "payload bytes. An empty string is two equal offsets.",
    where="tutorial/tiny_broker.py: `read_batch` takes one apart, and the end of "
    "`Subscription.next_event` puts one "
    "together.",
    sentences="batch.1 batch.2 messages.1 publish.1",
)
async def batches(trial: Trial) -> None:
    """Random keys and payloads, some of them empty."""
    reader, writer, subscription = await trial.make_reader()
    batch = [
        (trial.payload(trial.rng.randrange(3)), trial.payload(trial.rng.randrange(5)))
        for _ in range(12)
    ]
    batch += [(b"", b""), (b"\0", b"\0\xff"), (b"key", b"")]
    await writer.publish(trial.topic(), *batch, first_offset=0, stored=len(batch))
    await reader.expect_messages(subscription, 0, batch)
    await writer.publish(trial.topic(), *batch[:2], first_offset=len(batch), stored=2)
    await reader.expect_messages(subscription, len(batch), batch[:2])


@STAGE.check(
    "a client that publishes to a topic it reads gets Published before its own message",
    hint="Put the reply into the output before you turn to subscriptions.",
    how="Each connection has one ordered output: first the replies to what was read, then "
    "messages. A publish must not write to its own connection's socket in between.",
    where="tutorial/tiny_broker.py, `Connection.write`: `self.replies + events` in one chunk.",
    sentences="open.2 open.5",
)
async def echo(trial: Trial) -> None:
    """On one connection, several times, with a second subscription on it."""
    client = await trial.client()
    subscription = await client.subscribe(trial.topic())
    await client.subscribe(trial.topic("other"))
    for offset in range(5):
        message = trial.message()
        request = await client.send("Publish", topic=trial.topic(), batch=[message])
        await client.expect_frame("Published", id=request, first_offset=offset)
        await client.expect_messages(subscription, offset, [message])


@STAGE.check(
    "a large message arrives whole",
    hint="It takes many reads to receive it. Does your write send everything it was given?",
    how="A send may accept only a part and return how much (use sendall, or a loop), and the rest "
    "of a frame may take many reads. Whatever your Welcome allows must fit.",
    where="tutorial/tiny_broker.py: `receive_exactly(length)` collects the pieces, and anyio's "
    "`stream.send` sends "
    "all it is given.",
    sentences="frame.4 batch.2",
)
async def large(trial: Trial) -> None:
    """One of 200,000 bytes."""
    reader, writer, subscription = await trial.make_reader()
    message = (b"", trial.payload(LARGE))
    await writer.publish(trial.topic(), message)
    await reader.expect_messages(subscription, 0, [message])


@STAGE.check(
    "topics are kept apart",
    hint="Are subscriptions stored by topic? An event's id is the Subscribe's, not the Publish's.",
    sentences="event.1 topic.1 fair.1",
)
async def apart(trial: Trial) -> None:
    """One reader of two topics, each with its own offsets."""
    client = await trial.client()
    topics = [trial.topic("a"), trial.topic("b")]
    subscriptions = [await client.subscribe(topic) for topic in topics]
    published = [[trial.message() for _ in range(3)] for _ in topics]
    for offset in range(3):
        for topic, messages in zip(topics, published, strict=True):
            await client.publish(topic, messages[offset], first_offset=offset)
    for subscription, messages in zip(subscriptions, published, strict=True):
        await client.expect_messages(subscription, 0, messages)


@STAGE.check(
    "accepted_us is the broker's time in microseconds since 1970, and never goes back",
    hint="Read the clock once per Publish, and store the time with the messages. Seconds or "
    "milliseconds are too coarse.",
    how="µs since 1970 as an i64, once per Publish. If the clock may be set back, add a guard: "
    "never less than the last time.",
    where="tutorial/tiny_broker.py: `main` adds the monotonic clock to the time of the start, "
    "`Topic.publish` keeps "
    "`now` with each message, and `next_event` sends it.",
    sentences="bytes.4 flag.2 time.2 time.3",
)
async def times(trial: Trial) -> None:
    """The same for every reader, and close to this machine's clock."""
    one, two = await trial.client(), await trial.client()
    ids = [await client.subscribe(trial.topic()) for client in (one, two)]
    before = 0
    for _ in range(TIMES):
        await one.publish(trial.topic(), trial.message())
        frames = [
            await client.event(i, awaited="Messages")
            for client, i in zip((one, two), ids, strict=True)
        ]
        accepted = frames[0]["accepted_us"]
        one.must_be(frames[1], "Messages", accepted_us=accepted, flags=frames[1].flags & DEFINED)
        if accepted < before:
            raise Failure("accepted_us went back", expected=f"{before} or more", frame=frames[0])
        must_be_now("accepted_us", accepted, frames[0], CLOCKS_MAY_DIFFER_S)
        before = accepted


@STAGE.check(
    "a batch whose columns do not add up is INVALID_FIELD, and nothing of it is stored",
    hint="Check before you store: offsets begin at 0, never decrease, and end with their strings.",
    how="Read the count, and check that both rows of offsets fit before you read them. Then check "
    "that each begins at 0 and never decreases, and that their two ends add up to the bytes that "
    "are left.",
    where="tutorial/tiny_broker.py: `read_batch`, with its two calls of `require`.",
    sentences="batch.3 judge.6",
)
async def bad_batches(trial: Trial) -> None:
    """No messages; offsets that decrease, don't begin at 0, exceed the bytes, or are missing."""
    client = await trial.client()
    for batch in (
        struct.pack("<Iii", 0, 0, 0),
        struct.pack("<I3i3i", 2, 0, 0, 0, 0, 2, 1) + b"x",
        struct.pack("<I2i2i", 1, 1, 1, 0, 1) + b"kx",
        struct.pack("<I2i2i", 1, 0, 0, 0, 5) + b"x",
        struct.pack("<I2i2i", 1, 0, 0, 0, 1) + b"xy",
        struct.pack("<I", 16),  # few enough for any broker, or BATCH_TOO_LARGE would be right, too
    ):
        await client.expect_error(
            "INVALID_FIELD", "Publish", topic=trial.topic(), batch=batch, at="batch"
        )
    for count in (2**16, 2**31, 2**32 - 1):
        frame = await client.ask(
            "Publish", topic=trial.topic(), batch=struct.pack("<I2i2i", count, 0, 0, 0, 0)
        )
        client.must_be(frame, "Error", request_type=layouts.TYPES["Publish"], field="batch")
    await client.publish(trial.topic(), trial.message(), first_offset=0)


@STAGE.check(
    "keys, batches and messages up to their limits are stored, and larger ones are refused",
    hint="A key has at most 1,024 bytes; Welcome has max_batch and max_message. Up to and "
    "including these limits, all is allowed.",
    sentences="batch.4 batch.5 batch.6",
)
async def sizes(trial: Trial) -> None:
    """Each at its limit, and one above it; keys count as well as payloads."""
    client, topic = await trial.client(), trial.topic()
    most, count = client.limits["max_message"], client.limits["max_batch"]
    key, long = bytes(1024), bytes(1025)
    await client.expect_error(
        "INVALID_FIELD", "Publish", topic=topic, batch=[(b"k", b"x"), (long, b"")], at="batch"
    )
    await client.publish(topic, (b"k", b"x"), (key, b""), first_offset=0, stored=2)
    if count <= MOST_MESSAGES:
        await client.expect_error(
            "BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"", b"")] * (count + 1)
        )
        await client.publish(trial.topic("many"), *[(b"", b"")] * count, stored=count)
    if most <= MOST_BYTES:
        await client.expect_error(
            "MESSAGE_TOO_LARGE", "Publish", topic=topic, batch=[(key, bytes(most - 1023))]
        )
        await client.publish(topic, (key, bytes(most - 1024)), first_offset=2, stored=1)
        half, rest = bytes(most // 2), (b"", bytes(most - most // 2))
        await client.expect_error(
            "BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"k", half), rest]
        )
        await client.publish(topic, (b"", half), rest, first_offset=3, stored=2)


@STAGE.check(
    "a Publish with id 0 is stored and delivered without a reply, but its errors are reported",
    hint="Don't answer success; answer failure with an Error whose id is 0. Do everything else as "
    "for any other request.",
    sentences="id.4 id.5 producer.1",
)
async def silent(trial: Trial) -> None:
    """Three good ones, a bad one, a Ping; without a producer, sequence is ignored."""
    client = await trial.client()
    subscription = await client.subscribe(trial.topic())
    messages = [trial.message() for _ in range(3)]
    for number, message in enumerate(messages):
        await client.send(
            "Publish", frame_id=0, topic=trial.topic(), batch=[message], sequence=7 * number
        )
    await client.expect_error(
        "INVALID_FIELD", "Publish", frame_id=0, topic="", batch=[trial.message()], at="topic"
    )
    await client.ping()
    await client.expect_messages(subscription, 0, messages)
