"""S17, continued: `$topics`, the table from which a client learns which topics there are."""

import json
from typing import Any

import anyio

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.layouts import ERROR_CODES, LATEST, OFFSET, TTL
from zaichik.learn.notation import message as shown
from zaichik.learn.stages.s17_changes import STAGE as STAGE
from zaichik.learn.stages.s17_tables import knowing
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Message

TOPICS = "$topics"
MEMBERS = ("epoch", "earlier", "first", "gone")
TWO_SWEEPS_S = 2.2  # a broker frees once a second what no subscription of a topic waits for

Record = dict[str, Any]


async def follow(trial: Trial, **how: Any) -> tuple[Connection, int]:
    """A client that follows topics. Skips the check if the broker has no such table."""
    client = await knowing(trial)
    frame = await client.ask("Subscribe", topic=TOPICS, **how)
    if frame.name == "Error" and frame["code"] == ERROR_CODES["INVALID_FIELD"]:
        client.must_be_error(frame, "INVALID_FIELD", at="topic")
        raise Skipped("this broker does not offer following topics, which is optional")
    client.must_be(frame, "Subscribed")
    return client, frame.id


async def next_record(client: Connection, subscription: int, topic: str) -> Record:
    """The next record of a topic. Other topics may come and go meanwhile."""
    while True:
        for message in await client.next_messages(subscription):
            if message.key == topic.encode():
                return parsed(message)


async def names_before(client: Connection, subscription: int, topic: str) -> list[str]:
    """Which topics have records before the next record of this one."""
    names: list[str] = []
    while True:
        for message in await client.next_messages(subscription):
            name = message.key.decode(errors="replace")
            if name == topic:
                return names
            names.append(name)


def parsed(message: Message) -> Record:
    """What a record tells: only what every client must know."""
    try:
        record = json.loads(message.payload)
    except (ValueError, RecursionError):
        record = None
    known: list[str] = []
    if isinstance(record, dict):
        known = [name for name in record if name in MEMBERS]
    if known != [name for name in MEMBERS if name in known] or known[:2] != ["epoch", "earlier"]:
        expected = 'JSON with "epoch" and "earlier" first'
        raise Failure("a record of $topics is malformed", expected=expected, came=shown(message))
    return {name: record[name] for name in known}


async def expect_record(client: Connection, subscription: int, topic: str, **due: Any) -> None:
    """Receive the next record of a topic, which must be this one."""
    record = await next_record(client, subscription, topic)
    if record != due:
        problem = f"the record of topic {topic!r} is wrong"
        raise Failure(problem, expected=json.dumps(due), came=json.dumps(record))


@STAGE.check(
    "each topic has a record in $topics, and gets a new one whenever it comes or goes",
    hint="Write the record where you create a topic, and where you delete one; also if a Publish "
    "or a Subscribe has created it.",
    how="Keep a table of the broker's own, from the first Subscribe that asks for it. A topic that "
    "goes leaves a record with gone, so that the next topic of the name can count it.",
    where="zaichik/core/following/topics_table.py: `came` and `went`, which the registry of topics "
    "calls.",
    sentences="follow.1 follow.2 follow.3",
)
async def announced(trial: Trial) -> None:
    """A topic that was there, is deleted and made again; one by use; a reader that comes late."""
    maker = await trial.client()
    there, used = trial.topic("there"), trial.topic("used")
    epoch = (await maker.create(there))["epoch"]
    client, subscription = await follow(trial, credit=100_000)
    await expect_record(client, subscription, there, epoch=epoch, earlier=0)
    await maker.publish(used, (b"", b"x"))
    await next_record(client, subscription, used)
    deleted = await maker.ask_optional("Delete", "deleting topics", topic=there)
    maker.must_be(deleted, "Deleted")
    await expect_record(client, subscription, there, epoch=epoch, earlier=0, gone=True)
    again = (await maker.create(there))["epoch"]
    due = {"epoch": again, "earlier": 1, "first": epoch}
    await expect_record(client, subscription, there, **due)
    late, subscription = await follow(trial, credit=100_000)
    await expect_record(late, subscription, there, **due)


@STAGE.check(
    "nobody but the broker creates $topics, publishes to it or deletes it",
    hint="Names that begin with $ are the broker's own: refuse them before you look for the topic.",
    how="One function that checks a topic's name, called wherever a request names a topic, and a "
    "single exception, for a Subscribe to $topics.",
    where="zaichik/core/checks.py: `check_name` and `check_publish`, for all names with a $.",
    sentences="follow.5 topic.8 topic.10",
)
async def its_own(trial: Trial) -> None:
    """While it is there: each request is refused, and nothing comes of it.

    A topic that is made afterwards has its record behind whatever came of them.
    """
    client, subscription = await follow(trial, start=LATEST, credit=100_000)
    forged, last = trial.topic("forged"), trial.topic("last")
    record = (forged.encode(), b'{"epoch": 1, "earlier": 0}')
    await client.expect_error("INVALID_FIELD", "CreateTopic", topic=TOPICS, at="topic")
    await client.expect_error("INVALID_FIELD", "Publish", topic=TOPICS, batch=[record], at="topic")
    deleted = await client.ask_optional("Delete", "deleting topics", topic=TOPICS)
    client.must_be_error(deleted, "INVALID_FIELD", at="topic")
    await client.create(last)
    before = await names_before(client, subscription, last)
    if forged in before:
        raise Failure("$topics has a record that was refused", expected="none", came=forged)


@STAGE.check(
    "while somebody follows topics, a new one keeps what it is given for those who come to it",
    hint="Without retention, a topic frees what no subscription waits for. A new one must not yet: "
    "its readers have only just been told of it.",
    how="When a topic is made, note until when it keeps everything, if $topics has a subscription "
    "then. Where you free what all have passed, leave those topics out whose time is not over.",
    where="zaichik/core/following/following.py: `came` sets the time; zaichik/core/in_memory.py: "
    "`sweep`.",
    sentences="follow.8",
)
async def kept(trial: Trial) -> None:
    """A message that is published at once, and read when a broker would have freed it."""
    client, _ = await follow(trial, start=LATEST)
    topic = trial.topic()
    await client.create(topic, {TTL: 0}, created=1)
    await client.publish(topic, (b"", b"at once"), first_offset=0)
    await anyio.sleep(TWO_SWEEPS_S)
    subscription = await client.subscribe(topic, start=OFFSET, value=0)
    await client.expect_messages(subscription, 0, [(b"", b"at once")])


@STAGE.check(
    "a subscription to $topics has no name",
    hint="Refuse the name in a Subscribe to $topics, whoever asks.",
    how="Where you check the name of a subscription, look at the topic as well. Everybody may "
    "follow topics, and each name would be a position to keep.",
    where="zaichik/core/following/following.py: `check_follower`, which each Subscribe passes.",
    sentences="follow.9",
)
async def anonymous(trial: Trial) -> None:
    """While $topics is there: a name is refused, and without one it can be read as before."""
    client, _ = await follow(trial, start=LATEST)
    await client.expect_error("INVALID_FIELD", "Subscribe", topic=TOPICS, name="n", at="name")
    client.must_be(await client.ask("Subscribe", topic=TOPICS, start=LATEST), "Subscribed")
