"""S7: No subscribers, and topics that create themselves.

Goal: Publish works without subscribers: the message gets its offset, and goes when retention says
so. Topics are created by being used; CreateTopic creates one with settings, and reports the
settings in force.

Tested: Publishing without subscribers; subscribing late; creating a topic twice, with the same
settings and with others; eight clients that create the same topic at once.

Real systems: Kafka creates topics on first use unless auto.create.topics.enable is false; NATS
JetStream never does; in MQTT a topic is nothing but a name. The first zaichik checked whether a
topic existed and created it in two steps: two clients at once got two topics, and the readers of
the first one never got anything again.

How: Lookup and creation must be one step that nothing can interrupt: a dict's setdefault, or one
lock around both.

Where: tutorial/tiny_broker.py: `Broker.find` and `Connection.create_topic`. `settings is DEFAULTS`
tells whether anyone has set any: an automatic topic still takes settings as long as nothing was
stored in it.
"""

import anyio

from zaichik.learn import docstrings, notation
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure
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

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=7, frames="CreateTopic TopicCreated")

# What a table of some language already has before anything was put into it.
WORDS = ("constructor", "toString", "__proto__", "__class__", "null")
# Some decoders swallow the first; the second is two units of UTF-16.
BYTE_ORDER_MARK, ASTRAL = "\ufeff", "\U0001f430"

CREATORS = 8
SETTINGS = 5
GONE_S = 2.5


@STAGE.check(
    "a message without readers is published all the same",
    hint="Offsets belong to the topic, and grow even if nobody reads; subscribers is then 0.",
    how="The topic counts its own offsets: next offset += messages stored. Subscriptions affect "
    "only `subscribers` in the reply.",
    where="tutorial/tiny_broker.py: `Topic.publish` counts; `live_readers` is called afterwards.",
    sentences="topic.1 topic.2 publish.2 publish.5",
)
async def without_readers(trial: Trial) -> None:
    """Offsets grow, and subscribers is 0."""
    writer = await trial.client()
    for offset in (0, 1):
        await writer.publish(
            trial.topic(), trial.message(), first_offset=offset, stored=1, subscribers=0
        )
    await writer.publish(
        trial.topic(), trial.message(), trial.message(), first_offset=2, stored=2, subscribers=0
    )


@STAGE.check(
    "with retention 0 a latecomer gets new messages, and no old ones",
    hint="With a retention_ttl of 0, the default, earliest means latest: the next offset.",
    how="A subscription's start is decided when it is created: with retention 0 it is the topic's "
    "next offset, whatever the ring still holds for others.",
    where="tutorial/tiny_broker.py, `Connection.subscribe`: `earliest` is the head, or the end if "
    "the topic's TTL is "
    "0.",
    sentences="retention.3 start.1",
)
async def latecomer(trial: Trial) -> None:
    """Two messages before, one after."""
    client, topic = await trial.make_topic({TTL: 0})
    await client.publish(topic, trial.message(), trial.message())
    subscription = await client.subscribe(topic, expect={"start": 2, "live": 2, "committed": 2})
    await client.expect_no_event("both messages were there before the subscription")
    message = trial.message()
    await client.publish(topic, message, first_offset=2)
    await client.expect_messages(subscription, 2, [message])


@STAGE.check(
    "CreateTopic reports all settings in force, in the order of their numbers",
    hint="Five pairs of u8 and u64, whatever the request named; the others have your defaults. "
    "Settings of your own may follow.",
    how="Keep a topic's settings in a table from number to value, starting with the defaults; "
    "whatever a request names replaces the default. Write the table out in order.",
    where="tutorial/tiny_broker.py: `DEFAULTS`, and the last two lines of "
    "`Connection.create_topic`.",
    sentences="bytes.5 setting.2 create.1 create.2 topic.5",
)
async def settings(trial: Trial) -> None:
    """Settings that were named have their values, and the epoch is the topic's."""
    client = await trial.client()
    named = {TTL: FOREVER, WINDOW: 500, CAPACITY: 77, MAX_BYTES: 5000, MAX_KEYS: 33}
    frame = await client.create(trial.topic(), named, created=1)
    reported = frame["settings"]
    numbers = [number for number, _ in reported]
    in_order = numbers == sorted(set(numbers)) and numbers[:SETTINGS] == list(
        range(1, SETTINGS + 1)
    )
    if not in_order or not named.items() <= dict(reported).items():
        numbered = f"settings 1 to {SETTINGS}, then any others"
        expected = f"{numbered}, including {notation.settings(named.items())}"
        problem = "TopicCreated does not report the settings in force"
        raise Failure(problem, expected=expected, frame=frame)
    again = {"created": 0, "epoch": frame["epoch"], "settings": reported}
    await client.create(trial.topic(), {CAPACITY: 77}, **again)
    await client.create(trial.topic(), **again)
    await client.ok("Subscribe", topic=trial.topic(), expect={"epoch": frame["epoch"]})


@STAGE.check(
    "creating a topic again with other settings is TOPIC_EXISTS",
    hint="Compare only the settings that the request names. A topic in use never changes.",
    sentences="topic.5 topic.6",
)
async def exists(trial: Trial) -> None:
    """And the settings stay unchanged."""
    client, topic = await trial.make_topic({CAPACITY: 77})
    await client.expect_error("TOPIC_EXISTS", "CreateTopic", topic=topic, settings={CAPACITY: 78})
    await client.create(topic, {CAPACITY: 77}, created=0)


@STAGE.check(
    "an automatic topic takes settings as long as nothing was stored in it",
    hint="Remember whether anyone has set them. After the first CreateTopic or the first message, "
    "they stay as they are.",
    sentences="topic.6 topic.7",
)
async def automatic(trial: Trial) -> None:
    """Subscribed to, created, then created with another capacity; published to, then created."""
    client = await trial.client()
    await client.subscribe(trial.topic())
    frame = await client.create(trial.topic(), {CAPACITY: 5}, created=0)
    if dict(frame["settings"])[CAPACITY] != 5:
        raise Failure(
            "an automatic topic did not take the capacity 5", expected="capacity 5", frame=frame
        )
    await client.expect_error(
        "TOPIC_EXISTS", "CreateTopic", topic=trial.topic(), settings={CAPACITY: 6}
    )
    await client.publish(trial.topic("used"), trial.message())
    await client.expect_error(
        "TOPIC_EXISTS", "CreateTopic", topic=trial.topic("used"), settings={CAPACITY: 5}
    )


@STAGE.check(
    "clients that create the same topic at once get the same topic",
    hint='Between "does it exist?" and "create it", can another client get in?',
    sentences="topic.4 publish.2",
)
async def at_once(trial: Trial) -> None:
    """One reply says created; all have the same epoch; a message reaches everyone."""
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
        problem = (
            f"{made} of {CREATORS} clients were told that they created it, with "
            f"{len(epochs)} epochs"
        )
        raise Failure(
            problem, expected="1, with one epoch", came=", ".join(map(frame_line, replies))
        )
    message = trial.message()
    await clients[0].publish(trial.topic(), message, subscribers=CREATORS)
    for client, subscription in subscriptions:
        await client.expect_messages(subscription, 0, [message])


@STAGE.check(
    "a topic's name has 1 to 200 bytes and does not begin with $",
    hint="Bytes, not letters: é has two. Anything else is INVALID_FIELD, with topic in field.",
    how="Let one function check names, and call it wherever a request has a topic, before anything "
    "is created: the number of bytes, the first byte, and that it is UTF-8.",
    where="tutorial/tiny_broker.py: `Broker.find` for length and $, `read_fields` for UTF-8.",
    sentences="topic.8 judge.6",
)
async def names(trial: Trial) -> None:
    """In every request that names a topic."""
    client = await trial.client()
    long = "é" * 100
    await client.publish(long, trial.message())
    for name in ("", long + "x", "$mine"):
        await client.expect_error("INVALID_FIELD", "CreateTopic", topic=name, at="topic")
        await client.expect_error(
            "INVALID_FIELD", "Publish", topic=name, batch=[trial.message()], at="topic"
        )
        await client.expect_error("INVALID_FIELD", "Subscribe", topic=name, at="topic")
    await client.expect_error(
        "INVALID_FIELD", "Publish", topic=b"\xff\xfe", batch=[trial.message()], at="topic"
    )


@STAGE.check(
    "a topic's name may have any characters but control characters",
    hint="U+0000 to U+001F and U+007F to U+009F, and no others. Names are compared byte by byte, "
    "and $ may be inside. Does your table have entries of its own, such as constructor?",
    sentences="topic.8 topic.9 topic.10",
)
async def letters(trial: Trial) -> None:
    """Forbidden characters, their neighbours, nearly equal names, words of some language."""
    client = await trial.client()
    base = trial.topic()
    for letter in "\0\t\n\x1f\x7f\x80\x9f":
        for request, fields in (
            ("CreateTopic", {}),
            ("Publish", {"batch": [trial.message()]}),
            ("Subscribe", {}),
        ):
            await client.expect_error(
                "INVALID_FIELD", request, topic=f"{base}{letter}", at="topic", **fields
            )
    for name in (
        base.upper(),
        *(f"{base}{more}" for more in ("", " ", "~", "\xa0", "$", "e\u0301", "\xe9")),
        *(f"{more}{base}" for more in (" ", "\xa0", BYTE_ORDER_MARK)),
        base + ASTRAL,
    ):
        await client.publish(name, trial.message(), first_offset=0)
    for name in (*WORDS, BYTE_ORDER_MARK):
        await _is_a_topic(trial, name)


async def _is_a_topic(trial: Trial, name: str) -> None:
    """Check that a name makes a topic. Other trials may use it at the same time.

    A reader stays one until its connection ends: Unsubscribe comes in a later stage.
    """
    client = await trial.client()
    epoch = (await client.create(name))["epoch"]
    subscribed = await client.ok(
        "Subscribe", topic=name, start=LATEST, expect={"epoch": epoch}, credit_bytes=2**32 - 1
    )
    own = (b"", f"{trial.topic()} {trial.payload(8).hex()}".encode())
    await client.publish(name, own, stored=1)
    while own not in [
        (message.key, message.payload) for message in await client.next_messages(subscribed.id)
    ]:
        pass


@STAGE.check(
    "a setting that is unknown, named twice or out of range is refused",
    hint="UNSUPPORTED for unknown numbers, INVALID_FIELD for the rest, both with settings in "
    "field. Check all of them before you create the topic.",
    sentences="setting.1 setting.2 setting.3 setting.4",
)
async def bad_settings(trial: Trial) -> None:
    """A hundred years and forever are fine; a millisecond more than a hundred years isn't."""
    client, topic = await trial.client(), trial.topic()
    for number in (0, 100, 200, 255):
        named = {CAPACITY: 3, number: 1}
        await client.expect_error(
            "UNSUPPORTED", "CreateTopic", topic=topic, settings=named, at="settings"
        )
    bad = [[(number, 0)] for number in (CAPACITY, MAX_BYTES, MAX_KEYS)]
    bad += [
        [(number, value)] for number in (TTL, WINDOW) for value in (CENTURY_MS + 1, FOREVER - 1)
    ]
    bad += [[(CAPACITY, 5), (CAPACITY, 5)], [(TTL, 1), (CAPACITY, 5), (TTL, 2)]]
    for pairs in bad:
        await client.expect_error(
            "INVALID_FIELD", "CreateTopic", topic=topic, settings=pairs, at="settings"
        )
    overflow = await client.ask("CreateTopic", topic=topic, settings={OVERFLOW: 2})
    is_unknown = overflow.name == "Error" and overflow["code"] == ERROR_CODES["UNSUPPORTED"]
    client.must_be_error(overflow, "UNSUPPORTED" if is_unknown else "INVALID_FIELD", at="settings")
    for label, value in (("century", CENTURY_MS), ("forever", FOREVER)):
        named = {TTL: value, WINDOW: value}
        frame = await client.create(trial.topic(label), named, created=1)
        await client.create(trial.topic(label), named, settings=frame["settings"])
    await client.create(trial.topic("one"), {CAPACITY: 1, MAX_BYTES: 1, MAX_KEYS: 1})


@STAGE.check(
    "only the first CreateTopic can set up an automatic topic, and only before its first message",
    hint="Remember that settings were given, and that something was stored. A topic whose ring is "
    "empty has been used all the same.",
    sentences="topic.5 topic.6 topic.7",
)
async def once_only(trial: Trial) -> None:
    """All settings count; a topic whose messages have gone; one whose only reader has left."""
    client, topic = await trial.client(), trial.topic()
    gone = await trial.client()
    unused = await gone.ok("Subscribe", topic=trial.topic("unused"))
    await gone.end()
    named = {TTL: 50, CAPACITY: 5}
    await client.subscribe(topic)
    await client.create(topic, named, created=0)
    for other in ({TTL: 50, CAPACITY: 6}, {WINDOW: 9}, {TTL: 51}):
        await client.expect_error("TOPIC_EXISTS", "CreateTopic", topic=topic, settings=other)
    await client.create(topic, named, created=0)
    used = trial.topic("used")
    await client.publish(used, trial.message())
    # With a ttl of 0 and no reader, a broker frees stored messages once a second.
    await anyio.sleep(GONE_S)
    await client.expect_error("TOPIC_EXISTS", "CreateTopic", topic=used, settings={CAPACITY: 5})
    await client.publish(used, trial.message(), first_offset=1)
    await client.ok("Subscribe", topic=trial.topic("unused"), expect={"epoch": unused["epoch"]})


@STAGE.check(
    "a CreateTopic with id 0 creates the topic without a reply",
    hint="Id 0 affects only the reply: skip that, and carry the request out as usual.",
    sentences="id.4 id.5 create.1",
)
async def silently(trial: Trial) -> None:
    """Created, and refused when sent again with another capacity."""
    client = await trial.client()
    await client.send("CreateTopic", frame_id=0, topic=trial.topic(), settings={CAPACITY: 5})
    await client.create(trial.topic(), {CAPACITY: 5}, created=0)
    await client.expect_error(
        "TOPIC_EXISTS", "CreateTopic", frame_id=0, topic=trial.topic(), settings={CAPACITY: 6}
    )
