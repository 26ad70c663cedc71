"""S16: Topics that go, and names with owners.

Goal: What the protocol lets a broker leave out, above all: Delete takes a topic away and tells its readers; a Subscribe
that says which owner asks for a name is refused if another one has taken the name over; Disconnect ends a connection;
Explain says why a message did not arrive; AdvanceClock moves a clock that stands still; a durable topic is kept on a
disk. A broker that answers UNSUPPORTED skips these checks.

Tested: Deleting a topic that is read, one that is not empty, one that is not there, and the same name again and again;
an owner that comes back after it was replaced, and a request of its that comes late; durable topics, while the broker
runs, and after it was killed.

Real systems: Kafka deletes topics some time after it has said so, and a topic made anew under the name is told from the
old one by an id (KIP-516). Its static members of a group are fenced as here: who was replaced gets FENCED_INSTANCE_ID,
or two consumers would throw each other out for ever.

How: To delete is one step, like to create: the topic leaves the table, its readers are marked as ended with the code,
and the greatest epoch that was ever deleted is remembered in one number.

Where: zaichik/broker/topic_registry.py: `delete`; zaichik/broker/position.py: `claim`, with the last owner and attempt,
and the owners that were replaced, in a deque of 64.
"""

from typing import Any

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failed, Skipped
from zaichik.learn.layouts import FOREVER, OWNER, TTL
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

IF_EMPTY = OWNED = 1  # flags of Delete and of Subscribe
TAKEN_OVER, DELETED = 2, 4  # codes of SubscriptionEnded
NOBODY = 2**64 - 1  # no connection has this number
LIVES = 5  # of one name

STAGE = Stage.told(
    __doc__,
    chapter=16,
    frames="Describe Described Delete Deleted Disconnect Disconnected Explain Explained AdvanceClock ClockAdvanced",
)


async def deleting(trial: Trial) -> Connection:
    """A client of a broker that can delete topics."""
    client = await trial.client()
    frame = await client.offered("Delete", topic=trial.topic("nothing"))
    client.must_be_error(frame, "NO_SUCH_TOPIC", at="topic")
    return client


async def granted(connection: Connection, name: str, feature: int) -> Connection:
    """Say Hello, and ask for a feature, without which there is nothing left to check."""
    if not (await connection.hello(features=feature))["features"] & feature:
        raise Skipped(f"this broker does not offer {name}, and need not")
    return connection


async def named(client: Connection, topic: str, name: str = "worker", **how: Any) -> Frame:
    """What answers a Subscribe with a name, if the broker keeps positions."""
    return await client.offered("Subscribe", "named subscriptions", unless="name", topic=topic, name=name, **how)


@STAGE.check(
    "a topic that is deleted is gone, and its readers are told as the last thing",
    hint="What a reader was not sent yet is gone with the topic: SubscriptionEnded with code 4 comes in its place.",
    sentences="ended.1 ended.2 delete.1 delete.4 deletion.1 deletion.2 deletion.4",
)
async def deleted(trial: Trial) -> None:
    """One message delivered, one waiting for credit; then the name begins anew."""
    writer, topic = await deleting(trial), trial.topic()
    reader = await trial.client()
    await writer.create(topic, {TTL: FOREVER})
    subscription = await reader.subscribe(topic, credit=1)
    first, second = trial.message(), trial.message()
    await writer.publish(topic, first)
    await writer.publish(topic, second)
    await reader.messages(subscription, 0, [first])
    await writer.ok("Delete", topic=topic)
    await reader.told(subscription, "SubscriptionEnded", code=DELETED, next=1)
    await writer.create(topic, {TTL: FOREVER}, created=1)
    await writer.publish(topic, second, first_offset=0, subscribers=0)
    await reader.commit(subscription, 1)
    await reader.nothing("its topic was deleted, and the new one of that name is another topic")


@STAGE.check(
    "what cannot be deleted stays as it was",
    hint="Look at everything before you change anything: the name, the epoch, then with IF_EMPTY messages and readers.",
    sentences="delete.2 delete.3 delete.5 delete.6",
)
async def refused(trial: Trial) -> None:
    """The broker's own names; another epoch; a topic that is not empty."""
    client, topic = await deleting(trial), trial.topic()
    made = await client.create(topic, {TTL: FOREVER})
    await client.refused("INVALID_FIELD", "Delete", topic="$mine", at="topic")
    await client.refused("EPOCH_CHANGED", "Delete", topic=topic, epoch=made["epoch"] + 1)
    subscription = await client.subscribe(topic)
    await client.refused("NOT_EMPTY", "Delete", topic=topic, flags=IF_EMPTY)
    message = trial.message()
    await client.publish(topic, message, first_offset=0, subscribers=1)
    await client.messages(subscription, 0, [message])
    await client.ok("Unsubscribe", subscription=subscription)
    await client.refused("NOT_EMPTY", "Delete", topic=topic, flags=IF_EMPTY)
    await client.ok("Delete", topic=topic, epoch=made["epoch"])
    await client.create(topic, created=1)
    await client.ok("Delete", topic=topic, flags=IF_EMPTY)


@STAGE.check(
    "a topic's epoch is greater than that of any deleted one of its name",
    hint="The clock may stand between two requests. Keep the greatest epoch deleted so far, and give more than that.",
    sentences="deletion.5",
)
async def epochs(trial: Trial) -> None:
    """Made and deleted as fast as can be."""
    client, before = await deleting(trial), 0
    for _ in range(LIVES):
        epoch = (await client.create(trial.topic()))["epoch"]
        if epoch <= before:
            problem = f"a topic has epoch {epoch}, and a deleted one of its name had {before}"
            raise Failed(problem, expected=f"{before + 1} or more", came=str(epoch))
        before = epoch
        await client.ok("Delete", topic=trial.topic())


async def _asking(trial: Trial, owner: int, attempt: int) -> tuple[Connection, Frame]:
    """A connection on which an owner asks for the name, and the answer."""
    client = await granted(await trial.dial(), "OWNER", OWNER)
    return client, await named(client, trial.topic(), owner=owner, attempt=attempt, flags=OWNED)


@STAGE.check(
    "an owner whose name was taken over does not get it back",
    hint="With each name, keep the owners that others have replaced. One of them that asks again is TAKEN_OVER.",
    how="With each name, keep the last owner, its last attempt, and those it has replaced. Same owner: its attempt "
    "must be greater. Another one: it takes over, unless it was replaced before.",
    where="zaichik/broker/position.py: `claim`, with the owners that were replaced in a deque of 64.",
    sentences="hello.10 hello.13 name.6 name.7 owner.4 owner.5 owner.6 owner.7 owner.8",
)
async def owners(trial: Trial) -> None:
    """A hangs, B takes over and reconnects, A wakes up; then a request of B's old connection comes late."""
    first, second = trial.rng.sample(range(1, 2**63), 2)
    hung, frame = await _asking(trial, first, 1)
    hung.must_be(frame, "Subscribed", start=0)
    old, answer = await _asking(trial, second, 1)
    old.must_be(answer, "Subscribed", start=0)
    await hung.told(frame.id, "SubscriptionEnded", code=TAKEN_OVER)
    present, subscribed = await _asking(trial, second, 2)
    present.must_be(subscribed, "Subscribed", start=0)
    woken, frame = await _asking(trial, first, 2)
    woken.must_be_error(frame, "TAKEN_OVER", at="owner")
    late, frame = await _asking(trial, second, 2)
    late.must_be_error(frame, "TAKEN_OVER", at="attempt")
    message = trial.message()
    await woken.publish(trial.topic(), message)
    await present.messages(subscribed.id, 0, [message])


@STAGE.check(
    "there is no ending a connection that is not there",
    hint="Look the number up among those that there are. For its own connection a client has Close.",
    how="A table of connections by their numbers, which Describe shows; one that is not in it is INVALID_FIELD. Who "
    "may end others is for you to decide.",
    where="zaichik/broker/subscription_manager.py: `_operate`; protocol/README.md says who it is meant for.",
    sentences="disconnect.3",
)
async def disconnect(trial: Trial) -> None:
    """And the connection goes on."""
    client = await trial.client()
    frame = await client.offered("Disconnect", connection=NOBODY)
    client.must_be_error(frame, "INVALID_FIELD", at="connection")
    await client.ping()
