"""S16: Deleting topics, and names with owners.

Goal: The optional parts of the protocol, above all: Delete removes a topic and tells its readers; a
Subscribe with an owner is refused if another owner has taken the name over; Disconnect ends a
connection; Explain says why a message did not arrive; AdvanceClock moves a clock that stands still;
a durable topic is kept on disk. If a broker answers UNSUPPORTED, these checks are skipped.

Tested: Deleting a topic that has readers, one that isn't empty, one that doesn't exist, and the
same name again and again; an owner that comes back after it was replaced, and a request from it
that comes late; durable topics, while the broker runs, and after it was killed.

Real systems: Kafka deletes topics some time after it has said so, and distinguishes a new topic of
the same name from the old one by an id (KIP-516). It fences static group members as we do: a
replaced one gets FENCED_INSTANCE_ID, or two consumers would evict each other forever.

How: Deleting is one step, like creating: remove the topic from the table, mark its readers as ended
with the code, and remember the greatest epoch ever deleted in one number.

Where: zaichik/core/topic_registry.py: `delete`; zaichik/core/position.py: `claim`, with the
last owner and attempt, and the replaced owners in a deque of 64.
"""

from typing import Any

from zaichik.learn import docstrings, wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.layouts import FOREVER, OWNER, TTL
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

IF_EMPTY = OWNED = 1  # flags of Delete and of Subscribe
TAKEN_OVER, DELETED = 2, 4  # codes of SubscriptionEnded
NOBODY = 2**64 - 1  # no connection has this number
LIVES = 5  # of one name

STAGE = Stage.parse(
    docstrings.of_module(__name__),
    chapter=16,
    frames="Describe Described Delete Deleted Disconnect Disconnected Explain Explained "
    "AdvanceClock ClockAdvanced",
)


async def deleting(trial: Trial) -> Connection:
    """A client of a broker that can delete topics."""
    client = await trial.client()
    frame = await client.ask_optional("Delete", topic=trial.topic("nothing"))
    client.must_be_error(frame, "NO_SUCH_TOPIC", at="topic")
    return client


async def granted(connection: Connection, name: str, feature: int) -> Connection:
    """Say Hello with a feature. Skips the check if the broker doesn't grant it."""
    if not (await connection.hello(features=feature))["features"] & feature:
        raise Skipped(f"this broker does not offer {name}, which is optional")
    return connection


async def named(client: Connection, topic: str, name: str = "worker", **how: Any) -> Frame:
    """The reply to a Subscribe with a name. Skips the check if the broker keeps no positions."""
    return await client.ask_optional(
        "Subscribe", "named subscriptions", unless="name", topic=topic, name=name, **how
    )


@STAGE.check(
    "a deleted topic is gone, and its readers are told last of all",
    hint="Unsent messages go with the topic: SubscriptionEnded with code 4 comes instead.",
    sentences="ended.1 ended.2 delete.1 delete.4 deletion.1 deletion.2 deletion.4 commit.3",
)
async def deleted(trial: Trial) -> None:
    """One message delivered, one waiting for credit; then a new topic of that name."""
    writer, topic = await deleting(trial), trial.topic()
    reader = await trial.client()
    await writer.create(topic, {TTL: FOREVER})
    subscription = await reader.subscribe(topic, credit=1)
    first, second = trial.message(), trial.message()
    await writer.publish(topic, first)
    await writer.publish(topic, second)
    await reader.expect_messages(subscription, 0, [first])
    await writer.ok("Delete", topic=topic)
    await reader.expect_event(subscription, "SubscriptionEnded", code=DELETED, next=1)
    await writer.create(topic, {TTL: FOREVER}, created=1)
    await writer.publish(topic, second, first_offset=0, subscribers=0)
    await reader.commit(subscription, 1)
    await reader.expect_error("NOT_IN_FLIGHT", "Commit", subscription=subscription, next=2)
    await reader.expect_no_event(
        "its topic was deleted, and the new one of that name is another topic"
    )


@STAGE.check(
    "a topic that cannot be deleted stays as it was",
    hint="Check everything before you change anything: name, epoch, and with IF_EMPTY the rest.",
    sentences="delete.2 delete.3 delete.5 delete.6",
)
async def refused(trial: Trial) -> None:
    """The broker's own names; another epoch; a topic that isn't empty."""
    client, topic = await deleting(trial), trial.topic()
    made = await client.create(topic, {TTL: FOREVER})
    await client.expect_error("INVALID_FIELD", "Delete", topic="$mine", at="topic")
    await client.expect_error("EPOCH_CHANGED", "Delete", topic=topic, epoch=made["epoch"] + 1)
    subscription = await client.subscribe(topic)
    await client.expect_error("NOT_EMPTY", "Delete", topic=topic, flags=IF_EMPTY)
    message = trial.message()
    await client.publish(topic, message, first_offset=0, subscribers=1)
    await client.expect_messages(subscription, 0, [message])
    await client.ok("Unsubscribe", subscription=subscription)
    await client.expect_error("NOT_EMPTY", "Delete", topic=topic, flags=IF_EMPTY)
    await client.ok("Delete", topic=topic, epoch=made["epoch"])
    await client.create(topic, created=1)
    await client.ok("Delete", topic=topic, flags=IF_EMPTY)


@STAGE.check(
    "a topic's epoch is greater than that of any deleted topic of its name",
    hint="The clock may not have moved. Assign an epoch above the greatest deleted so far.",
    sentences="deletion.5",
)
async def epochs(trial: Trial) -> None:
    """Created and deleted as fast as possible, then several times in one write."""
    client, before = await deleting(trial), 0
    for _ in range(LIVES):
        before = _later(await client.create(trial.topic()), before)
        await client.ok("Delete", topic=trial.topic())
    in_one_write = (
        wire.encode("CreateTopic", frame_id=1, topic=trial.topic()),
        wire.encode("Delete", frame_id=2, topic=trial.topic()),
    )
    await client.send_bytes(b"".join(in_one_write * LIVES), f"{LIVES} topics made and deleted")
    for _ in range(LIVES):
        before = _later(await client.expect_frame("TopicCreated", created=1), before)
        await client.expect_frame("Deleted")


def _later(created: Frame, before: int) -> int:
    """The epoch of a topic that was created; the one before of its name must have been less."""
    epoch: int = created["epoch"]
    if epoch <= before:
        problem = f"a topic has epoch {epoch}, but a deleted one of its name had {before}"
        raise Failure(problem, expected=f"{before + 1} or more", came=str(epoch))
    return epoch


async def _asking(trial: Trial, owner: int, attempt: int) -> tuple[Connection, Frame]:
    """A connection on which an owner asks for the name, and the reply."""
    client = await granted(await trial.dial(), "OWNER", OWNER)
    return client, await named(client, trial.topic(), owner=owner, attempt=attempt, flags=OWNED)


@STAGE.check(
    "an owner whose name was taken over does not get it back",
    hint="With each name, keep the replaced owners. If one asks again, answer TAKEN_OVER.",
    how="With each name, keep the last owner, its last attempt, and the owners replaced before. "
    "The same owner needs a greater attempt. Another one takes over, unless it was replaced "
    "before.",
    where="zaichik/core/position.py: `claim`, with the replaced owners in a deque of 64.",
    sentences="hello.10 hello.13 name.6 name.7 owner.4 owner.5 owner.6 owner.7 owner.8",
)
async def owners(trial: Trial) -> None:
    """A hangs, B takes over and reconnects, A wakes up; then an old request of B comes late."""
    first = trial.rng.getrandbits(63) | 2**63
    second = first ^ 1  # a number that a double rounds to the same
    hung, frame = await _asking(trial, first, 1)
    hung.must_be(frame, "Subscribed", start=0)
    old, answer = await _asking(trial, second, 1)
    old.must_be(answer, "Subscribed", start=0)
    await hung.expect_event(frame.id, "SubscriptionEnded", code=TAKEN_OVER)
    present, subscribed = await _asking(trial, second, 2)
    present.must_be(subscribed, "Subscribed", start=0)
    woken, frame = await _asking(trial, first, 2)
    woken.must_be_error(frame, "TAKEN_OVER", at="owner")
    late, frame = await _asking(trial, second, 2)
    late.must_be_error(frame, "TAKEN_OVER", at="attempt")
    message = trial.message()
    await woken.publish(trial.topic(), message)
    await present.expect_messages(subscribed.id, 0, [message])


@STAGE.check(
    "a connection that does not exist cannot be disconnected",
    hint="Look the number up among existing connections. For its own, a client has Close.",
    how="Keep a table of connections by number, the one that Describe shows. A number that isn't "
    "in it is INVALID_FIELD. You decide who may disconnect others.",
    where="zaichik/core/subscription_manager.py: `_operate`; see also protocol/README.md.",
    sentences="disconnect.3",
)
async def disconnect(trial: Trial) -> None:
    """A number without a connection; and the client's own connection goes on."""
    client = await trial.client()
    frame = await client.ask_optional("Disconnect", connection=NOBODY)
    client.must_be_error(frame, "INVALID_FIELD", at="connection")
    await client.ping()
