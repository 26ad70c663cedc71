"""S16, continued: named subscriptions, whose positions outlive their connections."""

from typing import Any

from zaichik.learn.connection import Connection
from zaichik.learn.layouts import FOREVER, LATEST, OFFSET, OWNER, TTL
from zaichik.learn.stages.s16_numbered import STAGE as STAGE
from zaichik.learn.stages.s16_options import OWNED, TAKEN_OVER, granted, named
from zaichik.learn.trial import Trial

NAMED, RESUMED = 1, 2  # flags of Subscribed
REDELIVERED = 2  # of Messages
FORGET = 1  # of Unsubscribe
REMEMBERED = 64  # owners that were replaced


async def _named(client: Connection, topic: str, at: int, flags: int = NAMED, **how: Any) -> int:
    """Subscribe with a name, which must start there. Returns the subscription's id."""
    frame = await named(client, topic, **how)
    client.must_be(frame, "Subscribed", flags=flags, start=at, committed=at)
    return frame.id


async def delivered(
    client: Connection, subscription: int, first: int, last: int, flags: int
) -> None:
    """Expect all messages from one offset to before another, in frames with these flags."""
    while first < last:
        frame = await client.event(subscription, awaited=f"the message with offset {first}")
        client.must_be(frame, "Messages", base=first, flags=flags | frame.flags & 1)
        first += len(frame.messages)
    client.must_be(frame, "Messages", base=last - len(frame.messages))


async def _six(trial: Trial) -> tuple[Connection, str]:
    """A topic with a history of six messages in two batches."""
    client, topic = await trial.make_topic({TTL: FOREVER})
    await client.publish(topic, *[(b"", b"%d" % offset) for offset in range(4)])
    await client.publish(topic, *[(b"", b"%d" % offset) for offset in range(4, 6)])
    return client, topic


@STAGE.check(
    "a reader that comes back under its name continues from its commit",
    hint="Keep committed and delivered with the name, in the topic. Messages in between come "
    "again, marked REDELIVERED, in frames without new ones.",
    sentences="name.1 name.3 name.4 name.5 name.9 messages.2 messages.3",
)
async def comes_back(trial: Trial) -> None:
    """Two of five settled; then Close, a crash, FIN, Unsubscribe, and a Close amid repeats."""
    writer, topic = await _six(trial)
    reader = await trial.client()
    subscription = await _named(reader, topic, 0, credit=3)
    await delivered(reader, subscription, 0, 3, 0)
    await reader.commit(subscription, 1)
    await delivered(reader, subscription, 3, 4, 0)
    await reader.commit(subscription, 2)
    await delivered(reader, subscription, 4, 5, 0)
    await reader.ok("Close")
    for leave in ("crash", "end", "unsubscribe", "early", ""):
        reader = await trial.client()
        if leave == "early":
            subscription = await _named(reader, topic, 2, NAMED | RESUMED, credit=1)
            await delivered(reader, subscription, 2, 3, REDELIVERED)
            await reader.ok("Close")
            continue
        how = {"start": OFFSET, "value": 2**40} if leave == "crash" else {"start": LATEST}
        subscription = await _named(
            reader, topic, 2, NAMED | RESUMED, **how, credit=3 if leave else 100
        )
        await delivered(reader, subscription, 2, 5, REDELIVERED)
        if leave == "crash":
            await reader.reset()
        elif leave == "end":
            await reader.end()
        elif leave:
            await reader.ok("Unsubscribe", subscription=subscription)
    await delivered(reader, subscription, 5, 6, 0)
    await writer.publish(topic, trial.message(), first_offset=6, subscribers=1)


@STAGE.check(
    "with FORGET a name's position is gone, while other names and topics keep theirs",
    hint="A position belongs to a name in a topic. FORGET drops that one.",
    sentences="name.2 name.9 name.10 unsubscribe.3 publish.2",
)
async def forgets(trial: Trial) -> None:
    """Two names in one topic, one also in another topic; a reader that is away isn't counted."""
    client, topic = await _six(trial)
    other = trial.topic("other")
    await client.create(other, {TTL: FOREVER})
    for name, where, settled in (("worker", topic, 2), ("other", topic, 3), ("worker", other, 0)):
        subscription = await _named(client, where, 0, name=name)
        await client.take(subscription, settled)
        await client.commit(subscription, settled)
        await client.ok("Unsubscribe", subscription=subscription)
    await client.publish(other, trial.message(), subscribers=0)
    subscription = await _named(client, topic, 2, NAMED | RESUMED)
    await client.ok("Unsubscribe", subscription=subscription, flags=FORGET)
    await _named(client, topic, 6, start=LATEST)
    await _named(client, topic, 3, NAMED | RESUMED, name="other")
    await _named(client, other, 0, NAMED | RESUMED, start=LATEST)


@STAGE.check(
    "a name has one reader, the newest; the previous one is told, and can change nothing any more",
    hint="On a Subscribe with a name in use, end the old subscription with code 2, and pass its "
    "position on to the new one.",
    sentences="name.6 name.7 name.8 ended.1 publish.3 commit.3",
)
async def taken_over(trial: Trial) -> None:
    """From another connection, then from the same; commits and FORGET of the previous reader."""
    writer, topic = await _six(trial)
    first, second = await trial.client(), await trial.client()
    old = await _named(first, topic, 0, credit=3)
    await delivered(first, old, 0, 3, 0)
    await first.commit(old, 1)
    await delivered(first, old, 3, 4, 0)
    new = await _named(second, topic, 1, NAMED | RESUMED, credit=2)
    await first.expect_event(old, "SubscriptionEnded", code=TAKEN_OVER, next=4)
    await delivered(second, new, 1, 3, REDELIVERED)
    first.must_be(await first.ask("Commit", subscription=old, next=4), "Committed")
    await first.expect_error("NOT_IN_FLIGHT", "Commit", subscription=old, next=5)
    await first.ok("Unsubscribe", subscription=old, flags=FORGET)
    await first.expect_no_event("its subscription had ended")
    await writer.publish(topic, trial.message(), subscribers=1)
    newest = await _named(second, topic, 1, NAMED | RESUMED, credit=1)
    await second.expect_event(new, "SubscriptionEnded", code=TAKEN_OVER)
    await delivered(second, newest, 1, 2, REDELIVERED)


@STAGE.check(
    "a name has 1 to 200 bytes, no control characters, and what is refused leaves it as it was",
    hint="As with topics, but it may begin with $. A subscription that ended by until keeps its "
    "name as long as it exists. Make a position last of all, when nothing can be refused any more.",
    sentences="name.2 name.11 name.13 until.1",
)
async def shapes(trial: Trial) -> None:
    """At the limits; ended by until, then again; a Subscribe that is refused."""
    client, topic = await _six(trial)
    for name in ("$mine", "é" * 100, "a b", "a", "\ufeffa", "constructor", "__proto__"):
        await _named(client, topic, 0, name=name)
    for name in ("x" * 201, "é" * 101, "\t", "a\x7f", "a\x85"):
        await client.expect_error("INVALID_FIELD", "Subscribe", topic=topic, name=name, at="name")
    subscription = await _named(client, topic, 0, until=2)
    await delivered(client, subscription, 0, 2, 0)
    client.must_be(await client.event(subscription), "SubscriptionEnded", code=1, next=2)
    await client.commit(subscription, 2)
    await _named(client, topic, 2, NAMED | RESUMED, until=2)
    await _refused(trial, client, topic)


async def _refused(trial: Trial, client: Connection, topic: str) -> None:
    """Refused for five reasons, with a name that is new and with one that has a reader."""
    epoch = (await client.create(topic))["epoch"]
    held = await _named(client, topic, 6, name="held", start=LATEST)
    for name in ("new", "held"):
        for error, why in (
            ("EPOCH_CHANGED", {"epoch": epoch + 1}),
            ("INVALID_FIELD", {"credit": 0}),
            ("INVALID_FIELD", {"frame_id": 1}),
        ):
            await client.expect_error(error, "Subscribe", topic=topic, name=name, **why)
    for error, start, value in (("OFFSET_AHEAD", OFFSET, 7), ("INVALID_FIELD", 4, 0)):
        await client.expect_error(
            error, "Subscribe", topic=topic, name="new", start=start, value=value
        )
    await _named(client, topic, 6, name="new", start=LATEST)
    message = trial.message()
    await client.publish(topic, message, first_offset=6)
    await client.expect_messages(held, 6, [message])


async def _owned(
    client: Connection, topic: str, owner: int, attempt: int, error: str = "", **how: Any
) -> None:
    """Subscribe as an owner; `error` is the field that must be refused, if any."""
    who = {"owner": owner, "attempt": attempt, "flags": OWNED}
    frame = await named(client, topic, **(who | how))
    if error:
        client.must_be_error(frame, "INVALID_FIELD" if not owner else "TAKEN_OVER", at=error)
    else:
        client.must_be(frame, "Subscribed")


@STAGE.check(
    "a name remembers its last 64 replaced owners, and a refused request changes nothing",
    hint="Owner 0 is invalid. A Subscribe without an owner replaces one. FORGET drops all owners.",
    sentences="owner.1 owner.2 owner.3 owner.4 owner.5 owner.6 owner.7 owner.8 name.10",
)
async def owners(trial: Trial) -> None:
    """65 in a row; attempts that jump; one without an owner; no name; FORGET."""
    client, topic = await granted(await trial.dial(), "OWNER", OWNER), trial.topic()
    await _owned(client, topic, 1, 5)
    for attempt in (5, 4):
        await _owned(client, topic, 1, attempt, "attempt")
    for attempt in (6, 9):
        await _owned(client, topic, 1, attempt)
    await _owned(client, topic, 0, 1, "owner")
    await _owned(client, topic, 0, 1, "owner", name="")
    await _owned(client, topic, 9, 1, name="")
    frame = await named(client, topic)
    client.must_be(frame, "Subscribed", flags=NAMED | RESUMED)
    await _owned(client, topic, 1, 10, "owner")
    for owner in range(2, REMEMBERED + 3):
        await _owned(client, topic, owner, 1)
    for owner in (2, REMEMBERED + 1):
        await _owned(client, topic, owner, 9, "owner")
    frame = await named(client, topic)
    await client.ok("Unsubscribe", subscription=frame.id, flags=FORGET)
    await _owned(client, topic, 2, 1)
