"""S16, continued: durable topics, as far as they differ from others while the broker runs."""

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.layouts import (
    CAPACITY,
    DURABLE,
    ERROR_CODES,
    FOREVER,
    KEPT,
    LOG_BYTES,
    MAX_BYTES,
    OVERFLOW,
    SEGMENT_BYTES,
    TIME,
    TTL,
    TYPES,
)
from zaichik.learn.stages.s16_kept import STAGE as STAGE
from zaichik.learn.stages.s16_numbered import DUPLICATE, Producer
from zaichik.learn.stages.s16_options import deleting
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

ON_DISK = 2  # flag of Published
HOUR_MS = 3_600_000
# Bytes of a log, bytes of a message, more messages than it holds.
LOG, PIECE, PIECES = 1024 * 1024, 100_000, 40
REJECT = 1


async def make_durable(client: Connection, topic: str, settings: dict[int, int]) -> Frame:
    """Make a durable topic."""
    frame = await client.ask_optional(
        "CreateTopic",
        "durable topics",
        unless="settings",
        topic=topic,
        settings=settings | {KEPT: 1},
    )
    client.must_be(frame, "TopicCreated", created=1)
    return frame


async def _in_memory(trial: Trial, client: Connection) -> str:
    """Creates a topic that is not durable, whatever the broker's default. Returns its name."""
    topic = trial.topic("memory")
    frame = await client.ask_optional(
        "CreateTopic", "durable topics", unless="settings", topic=topic, settings={KEPT: 0}
    )
    client.must_be(frame, "TopicCreated", created=1)
    if [number for number, _ in frame["settings"] if number in {KEPT, LOG_BYTES, SEGMENT_BYTES}]:
        problem = "TopicCreated has settings of durable topics, but this one is not durable"
        raise Failure(problem, expected="settings other than 8 to 10", frame=frame)
    return topic


async def _clean_up(client: Connection, *topics: str) -> None:
    """Leave nothing on the disk, if the broker can delete topics."""
    for topic in topics:
        await client.ask("Delete", topic=topic)


@STAGE.check(
    "a durable topic keeps messages, has its own settings, and refuses conflicting ones",
    hint="Settings 8 to 10 are for durable topics only. Their default retention is forever.",
    sentences="setting.2 setting.3 create.1 topic.5 topic.6 durable.1 durable.2 durable.4",
)
async def settings(trial: Trial) -> None:
    """Explicitly not durable; durable, twice; retention 0; log settings without a log."""
    client, topic = await trial.client(), trial.topic()
    await _in_memory(trial, client)
    frame = await make_durable(client, topic, {})
    found = dict(frame["settings"])
    is_complete = found.keys() >= {KEPT, LOG_BYTES, SEGMENT_BYTES} and list(found) == sorted(found)
    if not is_complete or found[KEPT] != 1 or not found[TTL]:
        expected = "settings in order, with 8 (which is 1) to 10 and a retention above 0"
        problem = "TopicCreated does not report the settings of a durable topic"
        raise Failure(problem, expected=expected, frame=frame)
    again = {"created": 0, "epoch": frame["epoch"], "settings": frame["settings"]}
    await client.create(topic, {KEPT: 1}, **again)
    await client.expect_error("TOPIC_EXISTS", "CreateTopic", topic=topic, settings={KEPT: 0})
    bad = [
        [(KEPT, 2)],
        [(KEPT, 1), (TTL, 0)],
        [(KEPT, 0), (LOG_BYTES, 2**30)],
        [(KEPT, 0), (SEGMENT_BYTES, 2**26)],
    ]
    for pairs in bad:
        refused = trial.topic("refused")
        await client.expect_error(
            "INVALID_FIELD", "CreateTopic", topic=refused, settings=pairs, at="settings"
        )
    await _clean_up(client, topic)


@STAGE.check(
    "the reply to a durable publish has the flag DURABLE, for clients that know it",
    hint="Keep the bit DURABLE of the Hello with the connection. Only such connections get flag 2, "
    "and only for durable topics.",
    sentences="hello.10 hello.17 published.5 open.5",
)
async def flagged(trial: Trial) -> None:
    """Connections with and without the feature, topics durable and not; replies before messages."""
    knows, other = await trial.client(features=DURABLE), await trial.client()
    topic, plain = trial.topic(), await _in_memory(trial, knows)
    await make_durable(knows, topic, {})
    flag = ON_DISK if knows.limits["features"] & DURABLE else 0
    subscription = await knows.subscribe(topic)
    for offset, (client, flags) in enumerate([(knows, flag), (other, 0), (knows, flag)]):
        message = trial.message()
        frame = await client.ask("Publish", topic=topic, batch=[message])
        client.must_be(
            frame, "Published", flags=flags, first_offset=offset, stored=1, subscribers=1
        )
        if client is knows and knows.events:
            problem = f"{knows.events[0].name} came before the Published for the message in it"
            raise Failure(problem, frame=knows.events[0])
        await knows.expect_messages(subscription, offset, [message])
        await client.publish(plain, message, first_offset=offset)
    await _clean_up(knows, topic)


@STAGE.check(
    "replies about one durable topic never overtake each other, and Closed comes after all of them",
    hint="A reply waits for the disk with its batch, in the topic's queue. Count the replies that "
    "a connection is still owed: Closed waits for them.",
    sentences="id.2 close.1 close.3",
)
async def in_order(trial: Trial) -> None:
    """Two durable topics, one in memory, and Pings, all at once, then Close; and a reader."""
    client, reader = await trial.client(), await trial.client()
    topics = [trial.topic("a"), trial.topic("b"), await _in_memory(trial, client)]
    for topic in topics[:2]:
        await make_durable(client, topic, {})
    subscriptions = [await reader.subscribe(topic) for topic in topics]
    sent: list[list[tuple[bytes, bytes]]] = [[], [], []]
    due: list[list[int]] = [[], [], []]
    for _ in range(30):
        which = trial.rng.randrange(3)
        sent[which].append(trial.message())
        due[which].append(await client.send("Publish", topic=topics[which], batch=sent[which][-1:]))
        due[2].append(await client.send("Ping"))
    close = await client.send("Close")
    offsets = [0, 0, 0]
    for _ in range(sum(map(len, due))):
        frame = await client.read(awaited="a reply")
        which = next((index for index, ids in enumerate(due) if ids and ids[0] == frame.id), -1)
        if which < 0:
            is_closed = frame.name == "Closed"
            problem = (
                "Closed came before replies that were due"
                if is_closed
                else "a reply came out of order"
            )
            expected = f"one with id {' or '.join(str(ids[0]) for ids in due if ids)}"
            raise Failure(problem, expected=expected, frame=frame)
        due[which].pop(0)
        if frame.name != "Pong":
            client.must_be(frame, "Published", first_offset=offsets[which], stored=1, subscribers=1)
            offsets[which] += 1
    await client.expect_frame("Closed", id=close)
    await client.expect_end()
    for subscription, messages in zip(subscriptions, sent, strict=True):
        await reader.expect_messages(subscription, 0, messages)
    await _clean_up(reader, *topics[:2])


@STAGE.check(
    "batches waiting for the disk when their topic is deleted are answered, and stored nowhere",
    hint="Delete answers waiting batches with NO_SUCH_TOPIC, then removes the log. Once Deleted is "
    "sent, the name is free.",
    sentences="durable.14 deletion.1 deletion.4",
)
async def deleted(trial: Trial) -> None:
    """Ten batches and a Delete at once; each is stored or refused; a new topic is empty."""
    client, topic = await deleting(trial), trial.topic()
    await make_durable(client, topic, {})
    ids = [await client.send("Publish", topic=topic, batch=[trial.message()]) for _ in range(10)]
    ids.append(await client.send("Delete", topic=topic))
    while ids:
        frame = await client.read(awaited="a reply")
        if frame.id not in ids:
            raise Failure("a reply came to no request, or a second one to the same", frame=frame)
        if frame.name == "Error":
            client.must_be_error(frame, "NO_SUCH_TOPIC", request_type=TYPES["Publish"])
        else:
            client.must_be(frame, "Deleted" if ids[-1] == frame.id else "Published")
        ids.remove(frame.id)
    await make_durable(client, topic, {})
    await client.publish(topic, trial.message(), first_offset=0, subscribers=0)
    await _clean_up(client, topic)


@STAGE.check(
    "a durable topic can be read from its beginning, however little its ring holds",
    hint="Capacity and max_bytes limit memory. What has left the ring is still in the log.",
    sentences="start.1 start.3 start.4 start.5 publish.4 durable.10 durable.13",
)
async def beyond_the_ring(trial: Trial) -> None:
    """Ten messages and a ring of three; each kind of start; with and without a retention."""
    client = await trial.client()
    messages = [trial.message() for _ in range(10)]
    for label, retention in (("forever", FOREVER), ("hour", HOUR_MS)):
        topic = trial.topic(label)
        await make_durable(client, topic, {CAPACITY: 3, MAX_BYTES: 10_000, TTL: retention})
        await client.expect_error("BATCH_TOO_LARGE", "Publish", topic=topic, batch=messages[:4])
        await client.publish_singly(topic, messages, first_offset=0)
        for how, start in (
            ({}, 0),
            ({"start": 2, "value": 4}, 4),
            ({"start": TIME, "value": 0}, 0),
        ):
            subscribe = await client.send("Subscribe", topic=topic, **how)
            ping = await client.send("Ping")
            client.must_be(
                await client.reply(subscribe), "Subscribed", start=start, live=10, committed=start
            )
            client.must_be(await client.reply(ping), "Pong")
            await client.expect_messages(subscribe, start, messages[start:])
        await _clean_up(client, topic)


@STAGE.check(
    "log_bytes limits what a durable topic keeps, or what it accepts if it rejects",
    hint="Remove whole files, the oldest first. If the topic rejects, keep what a reader needs.",
    sentences="ring.3 ring.4 durable.11 error.4",
    once=True,
)
async def bounded(trial: Trial) -> None:
    """Four times what the log holds; then a topic that rejects, with a reader and without."""
    client, topic, rejects = await trial.client(), trial.topic(), trial.topic("rejects")
    piece = [(b"", bytes(PIECE))]
    frame = await client.ask(
        "CreateTopic", topic=trial.topic("least"), settings={KEPT: 1, LOG_BYTES: LOG}
    )
    if frame.name == "Error" and frame["code"] == ERROR_CODES["INVALID_FIELD"]:
        raise Skipped(f"this broker does not make logs as small as {LOG:,} bytes, and need not")
    await make_durable(client, topic, {LOG_BYTES: LOG})
    await client.publish_singly(topic, piece * PIECES, first_offset=0)
    frame = await client.ok("Subscribe", topic=topic, credit=1)
    if not 0 < frame["start"] < PIECES:
        bytes_ = f"{PIECES * PIECE:,} bytes were published to a log of {LOG:,}"
        problem = f"{bytes_}, and offset {frame['start']} is the head"
        raise Failure(problem, expected=f"a head between 0 and {PIECES}", frame=frame)
    await client.expect_messages(frame.id, frame["start"], piece)
    await make_durable(client, rejects, {LOG_BYTES: LOG, OVERFLOW: REJECT})
    reader = await client.subscribe(rejects, credit=1)
    for offset in range(PIECES):
        frame = await client.ask("Publish", topic=rejects, batch=piece)
        if frame.name == "Error":
            break
        client.must_be(frame, "Published", first_offset=offset)
    client.must_be_error(frame, "TOPIC_FULL")
    await client.ok("Unsubscribe", subscription=reader)
    await client.publish(rejects, *piece, first_offset=offset)
    await _clean_up(client, topic, rejects, trial.topic("least"))


@STAGE.check(
    "a producer's numbers count separately in each durable topic, and go with it",
    hint="Keep a producer's numbers and replies in the topic: they come and go together.",
    sentences="producer.13 deletion.3",
)
async def numbers(trial: Trial) -> None:
    """The same numbers in two durable topics and in one in memory; again; after a Delete."""
    client, producer = await trial.client(), Producer(trial)
    topics = [trial.topic("a"), trial.topic("b")]
    for topic in topics:
        await make_durable(client, topic, {})
    await producer.publish_first(client, topic=topics[0])
    await producer.expect_stored(client, 1, 1, topic=topics[0])
    await producer.expect_error(client, 1, "PRODUCER_UNKNOWN", topic=topics[1])
    for topic in (topics[1], await _in_memory(trial, client)):
        await producer.expect_stored(client, 0, 0, topic=topic)
    await producer.expect_stored(client, 1, 1, DUPLICATE, topic=topics[0])
    await producer.expect_stored(client, 0, 0, DUPLICATE, topic=topics[1])
    if (await client.ask("Delete", topic=topics[0])).name == "Deleted":
        await make_durable(client, topics[0], {})
        await producer.expect_stored(client, 0, 0, topic=topics[0])
    await _clean_up(client, *topics)
