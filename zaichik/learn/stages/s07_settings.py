"""S7, continued: settings that are refused, and to whom they are given."""

import anyio

from zaichik.learn.layouts import (
    CAPACITY,
    CENTURY_MS,
    ERROR_CODES,
    FOREVER,
    MAX_BYTES,
    MAX_KEYS,
    OVERFLOW,
    TTL,
    TYPES,
    WINDOW,
)  # fmt: skip
from zaichik.learn.stages.s07_topics import STAGE as STAGE
from zaichik.learn.trial import Trial

GONE_S = 2.5


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
        await client.refused(
            "UNSUPPORTED", "CreateTopic", topic=topic, settings={CAPACITY: 3, number: 1}, at="settings"
        )
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
        frame = await client.ok("CreateTopic", topic=trial.topic(label), settings=named, expect={"created": 1})
        await client.ok("CreateTopic", topic=trial.topic(label), settings=named, expect={"settings": frame["settings"]})
    await client.ok("CreateTopic", topic=trial.topic("one"), settings={CAPACITY: 1, MAX_BYTES: 1, MAX_KEYS: 1})


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
    await client.ok("CreateTopic", topic=topic, settings=named, expect={"created": 0})
    for other in ({TTL: 50, CAPACITY: 6}, {WINDOW: 9}, {TTL: 51}):
        await client.refused("TOPIC_EXISTS", "CreateTopic", topic=topic, settings=other)
    await client.ok("CreateTopic", topic=topic, settings=named, expect={"created": 0})
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
    await client.ok("CreateTopic", topic=trial.topic(), settings={CAPACITY: 5}, expect={"created": 0})
    await client.send("CreateTopic", frame_id=0, topic=trial.topic(), settings={CAPACITY: 6})
    client.must_be_error(await client.reply(0), "TOPIC_EXISTS", request_type=TYPES["CreateTopic"], id=0)
