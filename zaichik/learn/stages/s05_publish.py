"""S5: A publish reaches a subscriber.

Goal: Subscribe gives a connection a place in a topic; Publish appends to the topic, and every subscription is sent what
was appended. A message's place is its offset: 0, 1, 2 … without gaps.

Tested: One publishes, another one reads: offsets, keys, payloads, whatever bytes they are made of. Batches, which are
two columns of strings, must arrive as they left.

Real systems: Kafka has the same offsets, a partition for our topic, and batches too (RecordBatch v2); MQTT has no
offsets: a message is handed on and forgotten. Columns for a batch are Apache Arrow's layout for binary arrays.

How: Let a topic be a row of messages, and a subscription the offset of the message that it gets next. Publishing
appends and wakes; sending is: while the offset is below the end, send and go on.

Where: tutorial/tiny_broker.py: `read_batch`, `Topic.publish`, `Subscription.next_event` (what goes into Messages), and
`Connection.write`, which sends all replies before it looks at subscriptions.
"""

import struct

from zaichik.learn import layouts
from zaichik.learn.failure import Failed
from zaichik.learn.stage import Stage
from zaichik.learn.ticks import must_be_now
from zaichik.learn.trial import Trial

STAGE = Stage.told(__doc__, chapter=6, frames="Subscribe Subscribed Publish Published Messages")

LARGE, TIMES = 200_000, 50
CLOCKS_MAY_DIFFER_S = 3600
DEFINED = 3  # flags of Messages
MOST_MESSAGES, MOST_BYTES = 100_000, 4 * 2**20  # that a check sends in one batch, if a broker allows so much


@STAGE.check(
    "Subscribe is answered with Subscribed",
    hint="The epoch is the topic's time of birth in µs, never 0. A new topic begins at offset 0.",
    how="Look the topic up; make it if it is not there, with the clock's µs as its epoch; put the subscription into "
    "it under the Subscribe's id. Four numbers go back.",
    where="tutorial/tiny_broker.py: `Broker.find` makes the topic, and `Connection.subscribe` packs epoch, start, "
    "live and committed.",
    sentences="subscribe.1 subscribe.2 topic.1 topic.2",
)
async def subscribed(trial: Trial) -> None:
    """A new topic: all stands at 0, and both readers learn the same epoch."""
    one, two = await trial.client(), await trial.client()
    start = {"start": 0, "live": 0, "committed": 0}
    first = await one.ok("Subscribe", topic=trial.topic(), expect=start)
    if first["epoch"] == 0:
        raise Failed("Subscribed.epoch must not be 0", frame=first)
    await two.ok("Subscribe", topic=trial.topic(), expect=start | {"epoch": first["epoch"]})


@STAGE.check(
    "a message published on one connection reaches a subscriber on another",
    hint="After the batch is stored: which connections have a subscription to the topic, and who wakes them?",
    sentences="event.1 messages.1 topic.1 publish.2 start.5",
)
async def reaches(trial: Trial) -> None:
    """Three messages, one after the other: keys, payloads, offsets, the subscription's id."""
    reader, writer, subscription = await trial.reading()
    for offset in range(3):
        message = (trial.payload(), trial.payload())
        await writer.publish(trial.topic(), message, first_offset=offset, stored=1, compacted=0, subscribers=1)
        await reader.messages(subscription, offset, [message])


@STAGE.check(
    "a batch arrives whole: every key and payload, empty ones and zero bytes too",
    hint="Message i is bytes [offset i] to [offset i + 1] of its column, and the payloads begin where the keys end.",
    how="Offsets are i32, and count + 1 of them belong to each column. All key bytes come first, then all payload "
    "bytes. An empty string is two equal offsets.",
    where="tutorial/tiny_broker.py: `read_batch` takes one apart, and the end of `Subscription.next_event` puts one "
    "together.",
    sentences="batch.1 batch.2 messages.1 publish.1",
)
async def batches(trial: Trial) -> None:
    """Keys and payloads of chance, some of them empty."""
    reader, writer, subscription = await trial.reading()
    batch = [(trial.payload(trial.rng.randrange(3)), trial.payload(trial.rng.randrange(5))) for _ in range(12)]
    batch += [(b"", b""), (b"\0", b"\0\xff"), (b"key", b"")]
    await writer.publish(trial.topic(), *batch, first_offset=0, stored=len(batch))
    await reader.messages(subscription, 0, batch)
    await writer.publish(trial.topic(), *batch[:2], first_offset=len(batch), stored=2)
    await reader.messages(subscription, len(batch), batch[:2])


@STAGE.check(
    "a client that publishes to a topic it reads gets Published before its own message",
    hint="Put the reply into the output before the subscriptions are looked at.",
    how="Each connection has one output, in order: first the replies to what was read, then messages. A publish must "
    "not write to its own connection's socket in between.",
    where="tutorial/tiny_broker.py, `Connection.write`: `self.replies + events` in one chunk, replies in front.",
    sentences="open.2 open.5",
)
async def echo(trial: Trial) -> None:
    """On one connection, several times, with another subscription beside it."""
    client = await trial.client()
    subscription = await client.subscribe(trial.topic())
    await client.subscribe(trial.topic("other"))
    for offset in range(5):
        message = trial.message()
        request = await client.send("Publish", topic=trial.topic(), batch=[message])
        await client.receives("Published", id=request, first_offset=offset)
        await client.messages(subscription, offset, [message])


@STAGE.check(
    "a large message arrives whole",
    hint="It takes many reads to get it and many writes to send it. Does your write send all it was given?",
    how="A send may take only a part and tell how much (use a sendall, or a loop), and a frame's rest may take many "
    "reads. What your Welcome allows must fit, too.",
    where="tutorial/tiny_broker.py: `receive_exactly(length)` collects the pieces, and anyio's `stream.send` sends "
    "all it is given.",
    sentences="frame.4 batch.2",
)
async def large(trial: Trial) -> None:
    """Two hundred thousand bytes."""
    reader, writer, subscription = await trial.reading()
    message = (b"", trial.payload(LARGE))
    await writer.publish(trial.topic(), message)
    await reader.messages(subscription, 0, [message])


@STAGE.check(
    "topics do not mix",
    hint="Are subscriptions kept by topic? An event's id is that of the Subscribe, not that of the Publish.",
    sentences="event.1 topic.1 fair.1",
)
async def apart(trial: Trial) -> None:
    """One reader of two topics, each with offsets of its own."""
    client = await trial.client()
    topics = [trial.topic("a"), trial.topic("b")]
    subscriptions = [await client.subscribe(topic) for topic in topics]
    published = [[trial.message() for _ in range(3)] for _ in topics]
    for offset in range(3):
        for topic, messages in zip(topics, published, strict=True):
            await client.publish(topic, messages[offset], first_offset=offset)
    for subscription, messages in zip(subscriptions, published, strict=True):
        await client.messages(subscription, 0, messages)


@STAGE.check(
    "accepted_us is the broker's time in microseconds since 1970, and never goes back",
    hint="Read the clock once for each Publish, and keep it with the messages. Seconds or milliseconds are not enough.",
    how="µs since 1970 as an i64, once for each Publish. A clock that someone may set back needs a guard: never less "
    "than the last one.",
    where="tutorial/tiny_broker.py: `main` adds the monotonic clock to the time of the start, `Topic.publish` keeps "
    "`now` with each message, and `next_event` sends it.",
    sentences="bytes.4 flag.2 time.2 time.3",
)
async def times(trial: Trial) -> None:
    """The same for every reader, and near this machine's clock."""
    one, two = await trial.client(), await trial.client()
    ids = [await client.subscribe(trial.topic()) for client in (one, two)]
    before = 0
    for _ in range(TIMES):
        await one.publish(trial.topic(), trial.message())
        frames = [await client.event(i, awaited="Messages") for client, i in zip((one, two), ids, strict=True)]
        accepted = frames[0]["accepted_us"]
        one.must_be(frames[1], "Messages", accepted_us=accepted, flags=frames[1].flags & DEFINED)
        if accepted < before:
            raise Failed("accepted_us went back", expected=f"{before} or more", frame=frames[0])
        must_be_now("accepted_us", accepted, frames[0], CLOCKS_MAY_DIFFER_S)
        before = accepted


@STAGE.check(
    "a batch whose columns do not add up is INVALID_FIELD, and nothing of it is stored",
    hint="Check before you store: offsets begin at 0, never decrease, and end where their strings do.",
    how="Read the count, and see that both rows of offsets fit, before you read them; then that each begins at 0 and "
    "never decreases, and that both ends together are just the bytes that are left.",
    where="tutorial/tiny_broker.py: `read_batch`, two calls of `require`, and nothing is stored before it has "
    "returned.",
    sentences="batch.3 judge.6",
)
async def bad_batches(trial: Trial) -> None:
    """No messages; offsets that decrease, do not begin at 0, promise more bytes than there are, or are not there."""
    client = await trial.client()
    for batch in (
        struct.pack("<Iii", 0, 0, 0),
        struct.pack("<I3i3i", 2, 0, 0, 0, 0, 2, 1) + b"x",
        struct.pack("<I2i2i", 1, 1, 1, 0, 1) + b"kx",
        struct.pack("<I2i2i", 1, 0, 0, 0, 5) + b"x",
        struct.pack("<I2i2i", 1, 0, 0, 0, 1) + b"xy",
        struct.pack("<I", 16),  # and no more than a broker accepts, or BATCH_TOO_LARGE would be right, too
    ):
        await client.refused("INVALID_FIELD", "Publish", topic=trial.topic(), batch=batch, at="batch")
    for count in (2**16, 2**31, 2**32 - 1):
        frame = await client.ask("Publish", topic=trial.topic(), batch=struct.pack("<I2i2i", count, 0, 0, 0, 0))
        client.must_be(frame, "Error", request_type=layouts.TYPES["Publish"], field="batch")
    await client.publish(trial.topic(), trial.message(), first_offset=0)


@STAGE.check(
    "keys, batches and messages as large as allowed are stored, and larger ones are refused",
    hint="A key has 1,024 bytes at most; Welcome tells max_batch and max_message. What is exactly as large is right.",
    sentences="batch.4 batch.5 batch.6",
)
async def sizes(trial: Trial) -> None:
    """Each at its limit, then one more; keys count with payloads."""
    client, topic = await trial.client(), trial.topic()
    most, count = client.limits["max_message"], client.limits["max_batch"]
    key, long = bytes(1024), bytes(1025)
    await client.refused("INVALID_FIELD", "Publish", topic=topic, batch=[(b"k", b"x"), (long, b"")], at="batch")
    await client.publish(topic, (b"k", b"x"), (key, b""), first_offset=0, stored=2)
    if count <= MOST_MESSAGES:
        await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"", b"")] * (count + 1))
        await client.publish(trial.topic("many"), *[(b"", b"")] * count, stored=count)
    if most <= MOST_BYTES:
        await client.refused("MESSAGE_TOO_LARGE", "Publish", topic=topic, batch=[(key, bytes(most - 1023))])
        await client.publish(topic, (key, bytes(most - 1024)), first_offset=2, stored=1)
        half, rest = bytes(most // 2), (b"", bytes(most - most // 2))
        await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"k", half), rest])
        await client.publish(topic, (b"", half), rest, first_offset=3, stored=2)


@STAGE.check(
    "a Publish with id 0 is stored and delivered in silence, and refused aloud",
    hint="Success is not answered, failure is, by an Error with id 0. All else is as with any other id.",
    sentences="id.4 id.5 producer.1",
)
async def silent(trial: Trial) -> None:
    """Three good ones, a bad one, a Ping; sequence is not looked at without a producer."""
    client = await trial.client()
    subscription = await client.subscribe(trial.topic())
    messages = [trial.message() for _ in range(3)]
    for number, message in enumerate(messages):
        await client.send("Publish", frame_id=0, topic=trial.topic(), batch=[message], sequence=7 * number)
    await client.refused("INVALID_FIELD", "Publish", frame_id=0, topic="", batch=[trial.message()], at="topic")
    await client.ping()
    await client.messages(subscription, 0, messages)
