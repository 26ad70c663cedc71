"""S16, continued: topics that reject, pages of names, and disconnecting others."""

import json
from collections.abc import Mapping
from typing import Any

import anyio

from zaichik.learn.backlog import ASKED, clear, pile_up
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import CAPACITY, FOREVER, MAX_BYTES, OVERFLOW, TTL, WINDOW
from zaichik.learn.stages.s16_names import STAGE as STAGE
from zaichik.learn.stages.s16_options import IF_EMPTY, deleting, named
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame, encode_batch

REJECT, DISCONNECTED = 1, 2  # a value of overflow; a code of GoAway
TOPICS, CONNECTIONS, UNKNOWN = 1, 3, 255  # kinds of Describe
ROOM, TTL_MS = 3, 100
FORGET = 1
NO_MORE: Mapping[int, int] = {}


async def _rejecting(
    trial: Trial, label: str = "t", more: Mapping[int, int] = NO_MORE
) -> tuple[Connection, str]:
    """A topic with room for three messages, that rejects."""
    client, topic = await trial.client(), trial.topic(label)
    settings = {CAPACITY: ROOM, TTL: FOREVER, MAX_BYTES: 10_000, OVERFLOW: REJECT} | dict(more)
    frame = await client.ask_optional(
        "CreateTopic", "topics that reject", unless="settings", topic=topic, settings=settings
    )
    client.must_be(frame, "TopicCreated", created=1)
    return client, topic


async def _full(client: Connection, topic: str, *batch: tuple[bytes, bytes]) -> None:
    await client.expect_error(
        "TOPIC_FULL", "Publish", topic=topic, batch=batch or [(b"", b"too much")]
    )


@STAGE.check(
    "a topic that rejects drops nothing that a reader has yet to be sent",
    hint="Before you store: would this evict a message that some reader has not been sent yet? If "
    "so, answer TOPIC_FULL, for the whole batch.",
    sentences="ring.4 error.4",
)
async def rejects(trial: Trial) -> None:
    """Without readers it evicts; with one, sent messages may go; by capacity and by max_bytes."""
    five = (b"", bytes(5))
    size = len(encode_batch([five]))
    for label, more in (("messages", NO_MORE), ("bytes", {CAPACITY: 1000, MAX_BYTES: ROOM * size})):
        writer, topic = await _rejecting(trial, label, more)
        reader = await trial.client()
        await writer.publish_singly(topic, [five] * 5, first_offset=0)
        subscription = await reader.subscribe(topic, credit=1, expect={"start": 2})
        await reader.expect_messages(subscription, 2, [five])
        await writer.publish(topic, five, first_offset=5)
        await _full(writer, topic, five)
        await _full(writer, topic, *[(b"", b"")] * 2)
        await reader.commit(subscription, 3)
        await reader.expect_messages(subscription, 3, [five])
        await writer.publish(topic, five, first_offset=6)
        await _full(writer, topic, five)
        for offset in (4, 5, 6):
            await reader.commit(subscription, offset)
            await reader.expect_messages(subscription, offset, [five])
        await writer.publish(topic, five, first_offset=7)
        await reader.ok("Unsubscribe", subscription=subscription)
        await writer.publish_singly(topic, [five] * 4, first_offset=8)


@STAGE.check(
    "a topic that rejects keeps what a name has not settled, even while its reader is away",
    hint="A name needs everything from its committed offset on: it may all have to be sent again.",
    sentences="ring.4 name.9",
)
async def rejects_for_names(trial: Trial) -> None:
    """Delivered but not settled; away; settled; forgotten."""
    writer, topic = await _rejecting(trial)
    frame = await named(writer, topic)
    batch = [(b"", b"x")] * ROOM
    await writer.publish(topic, *batch, first_offset=0)
    await writer.expect_messages(frame.id, 0, batch)
    await _full(writer, topic)
    await writer.commit(frame.id, 1)
    await writer.publish(topic, (b"", b"x"), first_offset=3)
    await writer.ok("Unsubscribe", subscription=frame.id)
    await _full(writer, topic)
    frame = await writer.ask("Subscribe", topic=topic, name="worker")
    writer.must_be(frame, "Subscribed", start=1)
    await writer.ok("Unsubscribe", subscription=frame.id, flags=FORGET)
    await writer.publish(topic, *batch, first_offset=4)


@STAGE.check(
    "a batch that a topic rejects counts as it came, and changes nothing",
    hint="Check first: the whole batch counts, with repeats. Only stored messages open windows.",
    sentences="ring.4 ring.5 publish.4",
)
async def rejected(trial: Trial) -> None:
    """An endless window; refused keys stay free; a batch above the ring's size; repeats."""
    writer, topic = await _rejecting(trial, more={WINDOW: FOREVER})
    reader = await trial.client()
    subscription = await reader.subscribe(topic, credit=1)
    await writer.publish(topic, (b"a", b""), (b"b", b""), first_offset=0)
    await reader.expect_messages(subscription, 0, [(b"a", b"")])
    await _full(writer, topic, (b"a", b""), (b"b", b""), (b"c", b""))
    await writer.expect_error(
        "BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"a", b"")] * (ROOM + 1)
    )
    await writer.publish(topic, (b"c", b""), first_offset=2, stored=1, compacted=0)
    await writer.publish(topic, (b"c", b""), first_offset=3, stored=0, compacted=1)


async def _page(client: Connection, kind: int, **fields: Any) -> tuple[Frame, list[dict[str, Any]]]:
    """A page of names."""
    frame = await client.ask_optional("Describe", kind=kind, **fields)
    client.must_be(frame, "Described", flags=0)
    key = {TOPICS: "topics", CONNECTIONS: "connections"}[kind]
    try:
        return frame, list(json.loads(frame["json"])[key])
    except (ValueError, KeyError, TypeError):
        raise Failure(f"Described.json is not a JSON object with {key}", frame=frame) from None


@STAGE.check(
    "all names are listed by Describe, page by page and in order",
    hint="Sort the names by their bytes. Send those after `after` that begin with `prefix`, at "
    "most `limit`; more is 1 if any are left.",
    sentences="describe.1 describe.2 describe.3 describe.4",
)
async def describe(trial: Trial) -> None:
    """Eight topics with one prefix, in pages of four, by bytes; an unknown kind, and limit 0."""
    client = await trial.client()
    # In UTF-16 the last would come before the one before it.
    endings = [*map(str, range(6)), "\uff5e", "\U0001f430"]
    names = [trial.topic(f"page-{ending}") for ending in endings]
    for name in trial.rng.sample([*names, trial.topic("other")], 9):
        await client.create(name)
    found: list[str] = []
    more = 1
    while more:
        after = found[-1] if found else ""
        frame, page = await _page(client, TOPICS, prefix=trial.topic("page"), after=after, limit=4)
        came, more = [topic["name"] for topic in page], frame["more"]
        found += came
        if (
            not 0 < len(came) <= 4
            or found != names[: len(found)]
            or more != (len(found) < len(names))
        ):
            wanted = f"1 to 4 of {names[len(found) - len(came) :]}, and more if any are left"
            raise Failure(
                "a page of names is wrong", expected=wanted, came=f"{came}, more = {more}"
            )
    await client.expect_error("INVALID_FIELD", "Describe", kind=UNKNOWN, at="kind")
    await client.expect_error("INVALID_FIELD", "Describe", kind=TOPICS, limit=0, at="limit")
    await client.expect_error("INVALID_FIELD", "Describe", kind=0, limit=0, at="limit")
    client.must_be(
        await client.ask("Describe", kind=0, limit=1, prefix="x", after="y"), "Described", more=0
    )


@STAGE.check(
    "a connection that is disconnected gets what was on its way, then GoAway",
    hint="Send waiting replies, GoAway (code 2, id 0) and FIN. Its subscriptions end at once.",
    sentences="disconnect.1 disconnect.2 disconnect.3 disconnect.4 stop.6 goaway.1 event.1",
)
async def disconnects(trial: Trial) -> None:
    """By its number, from Describe; not one's own. Then one that has replies waiting."""
    client, other, stuck = [
        await trial.client(client=trial.topic(label)) for label in ("me", "other", "stuck")
    ]
    subscription = await other.subscribe(trial.topic(), credit=1)
    numbers: dict[str, int] = {}
    after, more = "", 1
    while more:
        frame, page = await _page(client, CONNECTIONS, after=after, limit=50)
        numbers |= {each["client"]: each["connection"] for each in page}
        # Those on the last page may have left meanwhile.
        after, more = page[-1]["name"] if page else after, frame["more"]
    mine, its = (numbers[trial.topic(label)] for label in ("me", "other"))
    frame = await client.ask_optional("Disconnect", connection=its + 2**40)
    client.must_be_error(frame, "INVALID_FIELD", at="connection")
    await client.expect_error("INVALID_FIELD", "Disconnect", connection=mine, at="connection")
    message = trial.message()
    await client.publish(trial.topic(), message, subscribers=1)
    await other.expect_messages(subscription, 0, [message])
    await client.ok("Disconnect", connection=its)
    await other.expect_frame("GoAway", code=DISCONNECTED, id=0)
    await other.expect_end()
    await client.publish(trial.topic(), message, subscribers=0)
    backlog = await pile_up(trial, stuck, client)
    await client.ok("Disconnect", connection=numbers[trial.topic("stuck")])
    last, _ = await clear(stuck, backlog, ASKED)
    stuck.must_be(last or await stuck.read(awaited="GoAway"), "GoAway", code=DISCONNECTED, id=0)
    await stuck.expect_end()


@STAGE.check(
    "a deleted topic leaves nothing behind, and an empty one may be deleted",
    hint="Positions and windows go with the topic. Empty means: no readable message, no reader "
    "that has not ended, no position.",
    sentences="delete.3 delete.6 deletion.1 deletion.2",
)
async def leftovers(trial: Trial) -> None:
    """Readers, a window, a position; then IF_EMPTY with an expired message, an ended reader."""
    client, topic = await deleting(trial), trial.topic()
    for name in ("", "x" * 201, "\0"):
        await client.expect_error("INVALID_FIELD", "Delete", topic=name, at="topic")
    await client.create(topic, {TTL: FOREVER, WINDOW: FOREVER})
    readers = [await trial.client() for _ in range(2)]
    subscriptions = [await reader.subscribe(topic) for reader in readers]
    has_names = (await client.ask("Subscribe", topic=topic, name="worker")).name == "Subscribed"
    await client.publish(topic, (b"k", b"x"))
    await client.ok("Delete", topic=topic)
    for reader, subscription in zip(readers, subscriptions, strict=True):
        frame = await reader.event(subscription)
        frame = await reader.event(subscription) if frame.name == "Messages" else frame
        reader.must_be(frame, "SubscriptionEnded", code=4)
    await client.create(topic, {TTL: TTL_MS, WINDOW: FOREVER}, created=1)
    await client.publish(topic, (b"k", b"x"), first_offset=0, stored=1, subscribers=0)
    ended = await client.subscribe(topic, until=0)
    client.must_be(await client.event(ended), "SubscriptionEnded", code=1)
    if has_names:
        frame = await client.ask("Subscribe", topic=topic, name="worker")
        client.must_be(frame, "Subscribed", flags=1)
        await client.ok("Unsubscribe", subscription=frame.id)
        await anyio.sleep(TTL_MS / 1000)
        await client.expect_error("NOT_EMPTY", "Delete", topic=topic, flags=IF_EMPTY)
        frame = await client.ask("Subscribe", topic=topic, name="worker")
        await client.ok("Unsubscribe", subscription=frame.id, flags=FORGET)
    else:
        await anyio.sleep(TTL_MS / 1000)
    await client.ok("Delete", topic=topic, flags=IF_EMPTY)
    await client.create(topic, {TTL: TTL_MS})
    await client.publish(topic, (b"", b"x"))
    await anyio.sleep(TTL_MS / 1000)
    await client.ok("Delete", topic=topic, flags=IF_EMPTY)
