"""S9: The commit gate.

Goal: A subscription is sent as many messages as it has credit for; those not yet settled by a
Commit are in flight. Free credit is computed, not stored: credit minus what is in flight.

Tested: Credit 1 and 3; commits of some messages, of all, twice, too far; two subscriptions, each
with its own credit; credit in bytes.

Real systems: The same under many names: RabbitMQ's prefetch (basic.qos), MQTT 5's Receive Maximum
(65,535 by default), NATS JetStream's MaxAckPending (1,000 by default). Kafka's consumers pull
instead. The first zaichik kept a flag: a commit with nothing outstanding bought a message, and so
did unsubscribing and subscribing again.

How: Keep the cursor, which is the next offset to send, and the offsets that were sent but not
settled. Another message may go while there are fewer of these than credit. A commit drops those
below next. From S10 on, some offsets in between were never sent, so their number is not cursor -
committed.

Where: tutorial/tiny_broker.py: `Subscription.next_event` decides, `Connection.commit` settles:
below committed it does nothing, beyond cursor it is NOT_IN_FLIGHT.
"""

from zaichik.learn import docstrings
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=9, frames="Commit Committed")


@STAGE.check(
    "with credit 1, the second message waits until the first is committed",
    hint="Before you send: is there free credit? After a commit: what wakes the writer?",
    sentences="credit.1 credit.2 credit.6 commit.1",
)
async def one_by_one(trial: Trial) -> None:
    """Three messages, two commits."""
    reader, writer, subscription = await trial.make_reader(credit=1)
    messages = [trial.message() for _ in range(3)]
    await writer.publish(trial.topic(), *messages)
    for offset, message in enumerate(messages):
        await reader.expect_messages(subscription, offset, [message])
        await reader.expect_no_event("one message was in flight, and credit was 1")
        await reader.commit(subscription, offset + 1)
    await reader.expect_no_event("all messages had been read")


@STAGE.check(
    "a commit is cumulative, and frees as much credit as it settles",
    hint="Commit(next) settles everything below next, not one message.",
    sentences="commit.1 credit.2 credit.6",
)
async def cumulative(trial: Trial) -> None:
    """With credit 3, three come; a commit of two brings two more; then commits one by one."""
    reader, writer, subscription = await trial.make_reader(credit=3)
    messages = [trial.message() for _ in range(8)]
    await writer.publish(trial.topic(), *messages)
    await reader.expect_messages(subscription, 0, messages[:3])
    await reader.expect_no_event("three messages were in flight, and credit was 3")
    await reader.commit(subscription, 2)
    await reader.expect_messages(subscription, 3, messages[3:5])
    await reader.expect_no_event("three messages were in flight again")
    await reader.commit(subscription, 5)
    await reader.expect_messages(subscription, 5, messages[5:])
    singly = await reader.subscribe(trial.topic("singly"), credit=3)
    await writer.publish_singly(trial.topic("singly"), messages[:4])
    await writer.publish(trial.topic("singly"), *messages[4:])
    await reader.expect_messages(singly, 0, messages[:3])
    await reader.commit(singly, 3)
    await reader.expect_messages(singly, 3, messages[3:6])
    for offset in (4, 5):
        await reader.commit(singly, offset)
        await reader.expect_messages(singly, offset + 2, messages[offset + 2 : offset + 3])
        await reader.expect_no_event("one message was settled, and one had come for it")


@STAGE.check(
    "a commit beyond what was delivered is NOT_IN_FLIGHT, and changes nothing",
    hint="The limit is the cursor, the next offset to send: only sent messages can be settled.",
    sentences="commit.3",
)
async def too_far(trial: Trial) -> None:
    """Nothing delivered, one committed; one delivered, two committed."""
    reader, writer, subscription = await trial.make_reader(credit=1)
    await reader.expect_error("NOT_IN_FLIGHT", "Commit", subscription=subscription, next=1)
    messages = [trial.message() for _ in range(3)]
    await writer.publish(trial.topic(), *messages)
    await reader.expect_messages(subscription, 0, messages[:1])
    await reader.expect_error("NOT_IN_FLIGHT", "Commit", subscription=subscription, next=2)
    await reader.expect_no_event("the commit was refused")
    await reader.commit(subscription, 1)
    await reader.expect_messages(subscription, 1, messages[1:2])


@STAGE.check(
    "a commit that settles nothing gives no credit",
    hint="Does every commit add to a counter? Compute free credit instead: credit - in flight.",
    sentences="commit.2 credit.5",
)
async def nothing_bought(trial: Trial) -> None:
    """Commits with nothing in flight; the same commit twice; a lower one."""
    reader, writer, subscription = await trial.make_reader(credit=2)
    for _ in range(3):
        await reader.commit(subscription, 0)
    messages = [trial.message() for _ in range(6)]
    await writer.publish(trial.topic(), *messages)
    await reader.expect_messages(subscription, 0, messages[:2])
    await reader.expect_no_event("two messages were in flight, and credit was 2")
    for following in (1, 1, 0):
        await reader.ok(
            "Commit", subscription=subscription, next=following, expect={"committed": 1}
        )
    await reader.expect_messages(subscription, 2, messages[2:3])
    await reader.expect_no_event("only one message was settled, and one had come for it")


@STAGE.check(
    "each subscription has its own credit",
    hint="Keep track of what is in flight per subscription, not per connection or topic.",
    sentences="credit.5 fair.1",
)
async def own_credit(trial: Trial) -> None:
    """Two on one connection; one is out of credit, which does not hold up the other. Then forty."""
    client, writer = await trial.client(), await trial.client()
    slow, quick = (
        await client.subscribe(trial.topic(), credit=1),
        await client.subscribe(trial.topic(), credit=10),
    )
    messages = [trial.message() for _ in range(5)]
    await writer.publish(trial.topic(), *messages)
    await client.expect_messages(quick, 0, messages)
    await client.expect_messages(slow, 0, messages[:1])
    await client.expect_no_event("the slow subscription had settled nothing")
    await client.commit(slow, 1)
    await client.expect_messages(slow, 1, messages[1:2])
    await client.commit(quick, 5)
    await client.expect_no_event("only the quick subscription had settled anything")
    for _ in range(2):
        await client.subscribe(trial.topic(), credit=1)  # out of credit at once, too
    for offset in range(5, 13):
        message = trial.message()
        await writer.publish(trial.topic(), message)
        await client.expect_messages(quick, offset, [message])
    pair = [await client.subscribe(trial.topic("pair"), credit=3) for _ in range(40)]
    await writer.publish(trial.topic("pair"), *messages)
    for subscription in pair:
        await client.expect_messages(subscription, 0, messages[:3])


@STAGE.check(
    "credit also counts bytes, but a single message is always allowed",
    hint="Keys and payloads in flight must not exceed credit_bytes; if nothing is in flight, one "
    "message of any size may go.",
    how="Keep the size of each message in flight. The next one may go if nothing is in flight, or "
    "if all sizes including its own add up to at most credit_bytes. A commit drops the sizes of "
    "what it settles.",
    where="tutorial/tiny_broker.py, `Subscription.next_event`: `used` is the sum of `in_flight`.",
    sentences="credit.2 credit.3 credit.6",
)
async def in_bytes(trial: Trial) -> None:
    """100 bytes of credit: 40 + 40 fit, another 40 do not; 500 go alone."""
    reader, writer, subscription = await trial.make_reader(credit=100, credit_bytes=100)
    messages = [(b"", trial.payload(size)) for size in (40, 40, 40, 500, 10)]
    await writer.publish_singly(trial.topic(), messages)
    await reader.expect_messages(subscription, 0, messages[:2])
    await reader.expect_no_event("80 bytes were in flight, and 40 more would exceed 100")
    await reader.commit(subscription, 2)
    await reader.expect_messages(subscription, 2, messages[2:3])
    await reader.expect_no_event("500 bytes go only when nothing is in flight")
    await reader.commit(subscription, 3)
    await reader.expect_messages(subscription, 3, messages[3:4])
    await reader.expect_no_event("500 bytes were in flight, and credit was 100")
    await reader.commit(subscription, 4)
    await reader.expect_messages(subscription, 4, messages[4:])


@STAGE.check(
    "a credit of 0 is INVALID_FIELD",
    hint="Without credit nothing would ever come. credit and credit_bytes must be at least 1.",
    how="Check both numbers when Subscribe is read, before anything is created; the Error's field "
    "names the one that is 0.",
    where="tutorial/tiny_broker.py: `RANGES`, which `read_fields` checks.",
    sentences="subscribe.5 subscribe.6",
)
async def zero(trial: Trial) -> None:
    """In messages, and in bytes."""
    client = await trial.client()
    await client.expect_error(
        "INVALID_FIELD", "Subscribe", topic=trial.topic(), credit=0, at="credit"
    )
    await client.expect_error(
        "INVALID_FIELD", "Subscribe", topic=trial.topic(), credit_bytes=0, at="credit_bytes"
    )


@STAGE.check(
    "a commit for a subscription that does not exist is NO_SUCH_SUBSCRIPTION",
    hint="As with Unsubscribe, look the id up among the connection's own subscriptions.",
    how="Look the subscription up first, and check `next` only if it exists. Commit and "
    "Unsubscribe can share the lookup.",
    where="tutorial/tiny_broker.py: the first line of `Connection.commit`.",
    sentences="unsubscribe.4",
)
async def unknown(trial: Trial) -> None:
    """One that never existed; another connection's."""
    client, other, subscription = await trial.make_reader(frame_id=700)
    await client.expect_error(
        "NO_SUCH_SUBSCRIPTION", "Commit", subscription=subscription + 1, next=0
    )
    await other.expect_error("NO_SUCH_SUBSCRIPTION", "Commit", subscription=subscription, next=0)
