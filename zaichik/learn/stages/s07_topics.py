"""S7: No subscribers, and topics that create themselves.

Goal: Publish works when nobody listens: the message gets its offset, and is gone when retention says so. Topics come
into being by being used; CreateTopic makes one with settings, and tells the settings in force.

Tested: Publishing to nobody; coming late; creating twice, with the same settings and with others; eight clients that
create the same topic at once.

Real systems: Kafka creates topics on first use unless auto.create.topics.enable is false; NATS JetStream never does; in
MQTT a topic is nothing but a name. The first zaichik asked whether a topic exists and created it in two steps: two
clients at once got two topics, and the readers of the first one heard nothing ever again.

How: Look up and create must be one step, without anybody in between: a dict's setdefault, or one lock around both.

Where: tutorial/tiny_broker.py: `Broker.find` and `Connection.create_topic`. `settings is DEFAULTS` tells whether
anybody has named any: an automatic topic in which nothing was stored yet still takes them.
"""

import anyio

from zaichik.learn import shown
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failed
from zaichik.learn.layouts import (
    CAPACITY,
    CENTURY_MS,
    ERROR_CODES,
    FOREVER,
    LATEST,
    MAX_BYTES,
    MAX_KEYS,
    OVERFLOW,
    TTL,
    WINDOW,
)  # fmt: skip
from zaichik.learn.stage import Stage
from zaichik.learn.trace import frame_line
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

STAGE = Stage.told(__doc__, chapter=7, frames="CreateTopic TopicCreated")

CREATORS = 8
SETTINGS = 5
GONE_S = 2.5


@STAGE.check(
    "a message that nobody reads is published all the same",
    hint="Offsets belong to the topic. They grow whether somebody reads or not; subscribers is then 0.",
    how="The topic counts its offsets itself: next offset += messages stored. Who is subscribed decides only about "
    "`subscribers` in the answer.",
    where="tutorial/tiny_broker.py: `Topic.publish` counts, `Connection.publish` asks `live_readers` afterwards.",
    sentences="topic.1 topic.2 publish.2 publish.5",
)
async def nobody(trial: Trial) -> None:
    """Offsets grow."""
    writer = await trial.client()
    for offset in (0, 1):
        await writer.publish(trial.topic(), trial.message(), first_offset=offset, stored=1, subscribers=0)
    await writer.publish(trial.topic(), trial.message(), trial.message(), first_offset=2, stored=2, subscribers=0)


@STAGE.check(
    "with retention 0 a latecomer gets what comes, and nothing old",
    hint="With retention_ttl 0, the default, earliest means the same as latest: the next offset.",
    how="Where a subscription begins is decided when it is made: with retention 0 that is the topic's next offset, "
    "whatever the ring still holds for others.",
    where="tutorial/tiny_broker.py, `Connection.subscribe`: `earliest` is the head, or the end if the topic's TTL is "
    "0.",
    sentences="retention.3 start.1",
)
async def latecomer(trial: Trial) -> None:
    """Two messages before, one after."""
    client, topic = await trial.making({TTL: 0})
    await client.publish(topic, trial.message(), trial.message())
    subscription = await client.subscribe(topic, expect={"start": 2, "live": 2, "committed": 2})
    await client.nothing("both messages were there before the subscription")
    message = trial.message()
    await client.publish(topic, message, first_offset=2)
    await client.messages(subscription, 2, [message])


@STAGE.check(
    "CreateTopic tells all settings in force, in the order of their numbers",
    hint="Five pairs of u8 and u64, whatever the request named; those it did not name have your defaults. Settings of "
    "your own may follow.",
    how="Keep a topic's settings as a table from number to value, with a default for each; what a request names "
    "replaces the default. Write the table out in order.",
    where="tutorial/tiny_broker.py: `DEFAULTS`, and the last two lines of `Connection.create_topic`.",
    sentences="bytes.5 setting.2 create.1 create.2 topic.5",
)
async def settings(trial: Trial) -> None:
    """What was named has that value, and the epoch is that of the topic."""
    client = await trial.client()
    named = {TTL: FOREVER, WINDOW: 500, CAPACITY: 77, MAX_BYTES: 5000, MAX_KEYS: 33}
    frame = await client.create(trial.topic(), named, created=1)
    told = frame["settings"]
    numbers = [number for number, _ in told]
    in_order = numbers == sorted(set(numbers)) and numbers[:SETTINGS] == list(range(1, SETTINGS + 1))
    if not in_order or not named.items() <= dict(told).items():
        numbered = f"settings 1 to {SETTINGS} and then what others there are"
        expected = f"{numbered}, among them {shown.settings(named.items())}"
        raise Failed("TopicCreated does not tell the settings in force", expected=expected, frame=frame)
    again = {"created": 0, "epoch": frame["epoch"], "settings": told}
    await client.create(trial.topic(), {CAPACITY: 77}, **again)
    await client.create(trial.topic(), **again)
    await client.ok("Subscribe", topic=trial.topic(), expect={"epoch": frame["epoch"]})


@STAGE.check(
    "creating a topic again with other settings is TOPIC_EXISTS",
    hint="Compare only what the request names. A topic in use is never changed.",
    sentences="topic.5 topic.6",
)
async def exists(trial: Trial) -> None:
    """And the settings stay as they were."""
    client, topic = await trial.making({CAPACITY: 77})
    await client.refused("TOPIC_EXISTS", "CreateTopic", topic=topic, settings={CAPACITY: 78})
    await client.create(topic, {CAPACITY: 77}, created=0)


@STAGE.check(
    "a topic that created itself takes settings as long as nothing was stored in it",
    hint="Remember whether anybody has named settings. After the first CreateTopic, or the first message, they stay.",
    sentences="topic.6 topic.7",
)
async def automatic(trial: Trial) -> None:
    """Subscribed to, then created, then created otherwise; published to, then created."""
    client = await trial.client()
    await client.subscribe(trial.topic())
    frame = await client.create(trial.topic(), {CAPACITY: 5}, created=0)
    if dict(frame["settings"])[CAPACITY] != 5:
        raise Failed("an automatic topic did not take the capacity 5", expected="capacity 5", frame=frame)
    await client.refused("TOPIC_EXISTS", "CreateTopic", topic=trial.topic(), settings={CAPACITY: 6})
    await client.publish(trial.topic("used"), trial.message())
    await client.refused("TOPIC_EXISTS", "CreateTopic", topic=trial.topic("used"), settings={CAPACITY: 5})


@STAGE.check(
    "clients that create the same topic at once get the same topic",
    hint='Between "is it there?" and "make it", can another client come? Then there are two topics of one name.',
    sentences="topic.4 publish.2",
)
async def at_once(trial: Trial) -> None:
    """One of them is told that it made it; all are told one epoch; a message reaches all."""
    clients = [await trial.client() for _ in range(CREATORS)]
    replies: list[Frame] = []
    subscriptions: list[tuple[Connection, int]] = []

    async def create(client: Connection) -> None:
        replies.append(await client.create(trial.topic(), {TTL: FOREVER}))
        subscriptions.append((client, await client.subscribe(trial.topic(), start=LATEST)))

    await trial.at_once(create, [(client,) for client in clients])
    made = sum(frame["created"] for frame in replies)
    epochs = {frame["epoch"] for frame in replies}
    if made != 1 or len(epochs) != 1:
        problem = f"{made} of {CREATORS} clients were told that they made the topic, and {len(epochs)} epochs"
        raise Failed(problem, expected="1, and one epoch", came=", ".join(map(frame_line, replies)))
    message = trial.message()
    await clients[0].publish(trial.topic(), message, subscribers=CREATORS)
    for client, subscription in subscriptions:
        await client.messages(subscription, 0, [message])


@STAGE.check(
    "a topic's name has 1 to 200 bytes and does not begin with $",
    hint="Bytes, not letters: é is two of them. Anything else is INVALID_FIELD, and field says topic.",
    how="One function looks at a name, and everything that takes a topic calls it, before anything is made: the "
    "length of its bytes, the first byte, and that it is UTF-8.",
    where="tutorial/tiny_broker.py: `Broker.find` for length and $, `read_fields` for UTF-8.",
    sentences="topic.8 judge.6",
)
async def names(trial: Trial) -> None:
    """In every request that names a topic."""
    client = await trial.client()
    long = "é" * 100
    await client.publish(long, trial.message())
    for name in ("", long + "x", "$mine"):
        await client.refused("INVALID_FIELD", "CreateTopic", topic=name, at="topic")
        await client.refused("INVALID_FIELD", "Publish", topic=name, batch=[trial.message()], at="topic")
        await client.refused("INVALID_FIELD", "Subscribe", topic=name, at="topic")
    await client.refused("INVALID_FIELD", "Publish", topic=b"\xff\xfe", batch=[trial.message()], at="topic")


@STAGE.check(
    "a name without control characters is a name, and one with them is not",
    hint="U+0000 to U+001F and U+007F to U+009F, and no others. Names are compared byte by byte, and $ may be inside.",
    sentences="topic.8 topic.9 topic.10",
)
async def letters(trial: Trial) -> None:
    """The first and the last of the forbidden ones, and their neighbours; names that differ in one bit."""
    client = await trial.client()
    base = trial.topic()
    for letter in "\0\t\n\x1f\x7f\x80\x9f":
        for request, fields in (("CreateTopic", {}), ("Publish", {"batch": [trial.message()]}), ("Subscribe", {})):
            await client.refused("INVALID_FIELD", request, topic=f"{base}{letter}", at="topic", **fields)
    for name in (base.upper(), *(f"{base}{more}" for more in ("", " ", "~", "\xa0", "$", "e\u0301", "\xe9"))):
        await client.publish(name, trial.message(), first_offset=0)


@STAGE.check(
    "a setting that is unknown, named twice or out of range is refused",
    hint="UNSUPPORTED for numbers that you do not know, INVALID_FIELD for the rest, both with field settings. Judge "
    "them all before you make the topic.",
    sentences="setting.1 setting.2 setting.3 setting.4",
)
async def bad_settings(trial: Trial) -> None:
    """And at the bounds: a hundred years and forever are fine, one millisecond more than a hundred years is not."""
    client, topic = await trial.client(), trial.topic()
    for number in (0, 11, 200, 255):
        named = {CAPACITY: 3, number: 1}
        await client.refused("UNSUPPORTED", "CreateTopic", topic=topic, settings=named, at="settings")
    bad = [[(number, 0)] for number in (CAPACITY, MAX_BYTES, MAX_KEYS)]
    bad += [[(number, value)] for number in (TTL, WINDOW) for value in (CENTURY_MS + 1, FOREVER - 1)]
    bad += [[(CAPACITY, 5), (CAPACITY, 5)], [(TTL, 1), (CAPACITY, 5), (TTL, 2)]]
    for pairs in bad:
        await client.refused("INVALID_FIELD", "CreateTopic", topic=topic, settings=pairs, at="settings")
    overflow = await client.ask("CreateTopic", topic=topic, settings={OVERFLOW: 2})
    is_unknown = overflow.name == "Error" and overflow["code"] == ERROR_CODES["UNSUPPORTED"]
    client.must_be_error(overflow, "UNSUPPORTED" if is_unknown else "INVALID_FIELD", at="settings")
    for label, value in (("century", CENTURY_MS), ("forever", FOREVER)):
        named = {TTL: value, WINDOW: value}
        frame = await client.create(trial.topic(label), named, created=1)
        await client.create(trial.topic(label), named, settings=frame["settings"])
    await client.create(trial.topic("one"), {CAPACITY: 1, MAX_BYTES: 1, MAX_KEYS: 1})


@STAGE.check(
    "only the first CreateTopic gives settings to a topic that created itself, and only before its first message",
    hint="Remember that settings were named, and that something was stored; an empty ring is not an unused topic.",
    sentences="topic.5 topic.6 topic.7",
)
async def once_only(trial: Trial) -> None:
    """All settings are compared, not the first one; a topic from which everything has gone; one that nobody uses."""
    client, topic = await trial.client(), trial.topic()
    gone = await trial.client()
    unused = await gone.ok("Subscribe", topic=trial.topic("unused"))
    await gone.end()
    named = {TTL: 50, CAPACITY: 5}
    await client.subscribe(topic)
    await client.create(topic, named, created=0)
    for other in ({TTL: 50, CAPACITY: 6}, {WINDOW: 9}, {TTL: 51}):
        await client.refused("TOPIC_EXISTS", "CreateTopic", topic=topic, settings=other)
    await client.create(topic, named, created=0)
    used = trial.topic("used")
    await client.publish(used, trial.message())
    await anyio.sleep(GONE_S)  # with ttl 0 and no reader, a broker frees what was stored once a second
    await client.refused("TOPIC_EXISTS", "CreateTopic", topic=used, settings={CAPACITY: 5})
    await client.publish(used, trial.message(), first_offset=1)
    await client.ok("Subscribe", topic=trial.topic("unused"), expect={"epoch": unused["epoch"]})


@STAGE.check(
    "a CreateTopic with id 0 makes the topic, and says so to nobody",
    hint="Silence is about the answer alone. Leave it out where answers are sent, not where requests are carried out.",
    sentences="id.4 id.5 create.1",
)
async def silently(trial: Trial) -> None:
    """Made, and refused when it comes with another capacity."""
    client = await trial.client()
    await client.send("CreateTopic", frame_id=0, topic=trial.topic(), settings={CAPACITY: 5})
    await client.create(trial.topic(), {CAPACITY: 5}, created=0)
    await client.refused("TOPIC_EXISTS", "CreateTopic", frame_id=0, topic=trial.topic(), settings={CAPACITY: 6})
