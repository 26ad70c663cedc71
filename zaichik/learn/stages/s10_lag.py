"""S10: Lag, reported exactly.

Goal: A topic keeps its newest messages, at most `capacity`. A reader whose next message is gone is
sent one Lagged, from its position to the oldest message left, as soon as it has free credit; the
report uses no credit. Nothing is lost in silence.

Tested: A topic with room for 5, a reader that waits, 13 messages. The report must be exact, come
once, come only when there is credit, and go to nobody else.

Real systems: Kafka answers such a fetch with OFFSET_OUT_OF_RANGE, and the client then jumps
(auto.offset.reset); NATS drops and counts; Redis Streams trims and says nothing: a reader can tell
by the ids, if it checks. The first zaichik had no case for lag in its pattern match, and the reader
froze.

How: head = the oldest offset in the ring. Before each send: is the cursor below head? Then
Lagged(cursor, head), and cursor = head. Only with free credit, or you would have to report it
again.

Where: tutorial/tiny_broker.py: `Topic.publish` drops from the front, `Topic.head` is what is left,
`Subscription.next_event` has the three cases in order: no credit, lag, next message.
"""

from zaichik.learn import docstrings
from zaichik.learn.connection import Connection, Pair
from zaichik.learn.layouts import CAPACITY
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

ROOM = 5

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=9, frames="Lagged")


def _numbered(first: int, end: int) -> list[Pair]:
    """A message per offset, with the offset as its only byte."""
    return [(b"", bytes([offset])) for offset in range(first, end)]


async def _fallen_behind(trial: Trial, credit: int = 1) -> tuple[Connection, Connection, int]:
    """A topic with room for 5, and a reader that got the first `credit` of 13 messages."""
    reader, writer, subscription = await trial.make_reader({CAPACITY: ROOM}, credit=credit)
    await writer.publish(trial.topic(), *_numbered(0, credit))
    await reader.expect_messages(subscription, 0, _numbered(0, credit))
    await writer.publish_singly(trial.topic(), _numbered(credit, 13), first_offset=credit)
    return reader, writer, subscription


@STAGE.check(
    "a reader that fell behind is told exactly what it missed, and goes on after that",
    hint="to_offset is the oldest message left: next offset - capacity. That message comes next.",
    sentences="ring.1 ring.3 lag.1",
)
async def exact(trial: Trial) -> None:
    """Offset 0 read, 1 to 7 gone, 8 to 12 left."""
    reader, _, subscription = await _fallen_behind(trial)
    await reader.commit(subscription, 1)
    await reader.expect_lag(subscription, 1, 8)
    for offset in range(8, 13):
        await reader.expect_messages(subscription, offset, _numbered(offset, offset + 1))
        await reader.commit(subscription, offset + 1)
    await reader.expect_no_event("all that was left had been read, and the lag had been reported")


@STAGE.check(
    "a reader without credit gets no Lagged yet, and later a single one",
    hint="Check credit before lag. An early report is wrong once more messages have gone.",
    sentences="lag.3",
)
async def not_before_credit(trial: Trial) -> None:
    """More messages go while it waits; one report covers them all."""
    reader, writer, subscription = await _fallen_behind(trial)
    await reader.expect_no_event("a message was in flight, and credit was 1")
    await writer.publish(trial.topic(), (b"", b"more"), first_offset=13)
    await reader.commit(subscription, 1)
    await reader.expect_lag(subscription, 1, 9)
    await reader.expect_messages(subscription, 9, _numbered(9, 10))


@STAGE.check(
    "a report of lag uses no credit, and skipped offsets are settled with the next commit",
    hint="Only what was delivered is in flight. Skipped offsets never were.",
    sentences="commit.1 lag.2",
)
async def no_credit_used(trial: Trial) -> None:
    """With credit 2 and one settled, the free credit goes to the message after the lag."""
    reader, _, subscription = await _fallen_behind(trial, credit=2)
    await reader.commit(subscription, 1)
    await reader.expect_lag(subscription, 2, 8)
    await reader.expect_messages(subscription, 8, _numbered(8, 9))
    await reader.expect_no_event("offsets 1 and 8 were in flight, and credit was 2")
    await reader.commit(subscription, 9)
    await reader.expect_messages(subscription, 9, _numbered(9, 11))


@STAGE.check(
    "one reader's lag is not reported to others",
    hint="Each subscription has its own cursor; only the ring is shared.",
    sentences="lag.5",
)
async def nobody_elses(trial: Trial) -> None:
    """A quick reader of the topic gets no Lagged; two slow ones on a connection get one each."""
    slow, quick, writer = [await trial.client() for _ in range(3)]
    await writer.create(trial.topic(), {CAPACITY: ROOM})
    lagging = await slow.subscribe(trial.topic(), credit=1)
    beside = await slow.subscribe(trial.topic(), credit=1)
    reading = await quick.subscribe(trial.topic())
    for offset, message in enumerate(_numbered(0, 13)):
        await writer.publish(trial.topic(), message, subscribers=3)
        await quick.expect_messages(reading, offset, [message])
    for subscription in (lagging, beside):
        await slow.expect_messages(subscription, 0, [(b"", b"\0")])
    for subscription in (lagging, beside):
        await slow.commit(subscription, 1)
        await slow.expect_lag(subscription, 1, 8)
    await writer.publish(trial.topic(), (b"", b"last"), first_offset=13)
    await quick.expect_messages(reading, 13, [(b"", b"last")])


@STAGE.check(
    "a batch larger than the ring is BATCH_TOO_LARGE, and nothing of it is stored",
    hint="A publisher that gets the error can split its batch. Else its beginning would be lost.",
    how="Before you store anything: does the batch have more messages than the topic's capacity? "
    "The whole batch is "
    "refused, and no offset is used.",
    where="tutorial/tiny_broker.py, `Connection.publish`: the second `require`, before "
    "`topic.publish`.",
    sentences="publish.4",
)
async def too_large(trial: Trial) -> None:
    """Six messages to a ring of five; then five."""
    client, topic = await trial.make_topic({CAPACITY: ROOM})
    batch = [trial.message() for _ in range(ROOM + 1)]
    await client.expect_error("BATCH_TOO_LARGE", "Publish", topic=topic, batch=batch)
    await client.publish(topic, *batch[:ROOM], first_offset=0, stored=ROOM)


@STAGE.check(
    "skipped offsets may be committed, up to where delivery goes on",
    hint="A commit settles everything below next, whether or not it was delivered.",
    sentences="commit.1 commit.3 lag.1",
)
async def skipped(trial: Trial) -> None:
    """In the middle of the gap; beyond what was sent; what has left the ring since."""
    reader, writer, subscription = await _fallen_behind(trial, credit=2)
    await reader.commit(subscription, 1)
    await reader.expect_lag(subscription, 2, 8)
    await reader.expect_messages(subscription, 8, _numbered(8, 9))
    await reader.expect_error("NOT_IN_FLIGHT", "Commit", subscription=subscription, next=10)
    await reader.commit(subscription, 5)
    await reader.expect_messages(subscription, 9, _numbered(9, 10))
    await writer.publish_singly(trial.topic(), _numbered(13, 20), first_offset=13)
    await reader.commit(subscription, 10)
    await reader.expect_lag(subscription, 10, 15)
    await reader.expect_messages(subscription, 15, _numbered(15, 17))


@STAGE.check(
    "lag is reported as soon as there is any free credit, even if no message fits",
    hint="Free credit means that less is in flight than each of the two limits. It need not be "
    "enough for the next message.",
    sentences="lag.1 lag.2 lag.4",
)
async def with_some_credit(trial: Trial) -> None:
    """Three in flight; one settled after all that follows has gone. Then the same with bytes."""
    reader, writer, subscription = await _fallen_behind(trial, credit=3)
    await reader.expect_no_event("three messages were in flight, and credit was 3")
    await reader.commit(subscription, 1)
    await reader.expect_lag(subscription, 3, 8)
    await reader.expect_messages(subscription, 8, _numbered(8, 9))
    await reader.expect_no_event("the lag was reported, and three messages were in flight")
    heavy, topic = (b"", bytes(100)), trial.topic("bytes")
    await writer.create(topic, {CAPACITY: 1})
    subscription = await reader.subscribe(topic, credit_bytes=100)
    await writer.publish(topic, heavy)
    await reader.expect_messages(subscription, 0, [heavy])
    await writer.publish_singly(topic, [heavy] * 3)
    await reader.expect_no_event("100 bytes were in flight, and credit_bytes was 100")
    await reader.commit(subscription, 1)
    await reader.expect_lag(subscription, 1, 3)
    await reader.expect_messages(subscription, 3, [heavy])
    lighter, topic = (b"", bytes(60)), trial.topic("roomy")
    await writer.create(topic, {CAPACITY: 1})
    roomy = await reader.subscribe(topic, credit_bytes=150)
    for offset in range(2):
        await writer.publish(topic, lighter)
        await reader.expect_messages(roomy, offset, [lighter])
    await writer.publish_singly(topic, [heavy] * 2)
    await reader.commit(roomy, 1)
    await reader.expect_lag(roomy, 2, 3)
    await reader.expect_no_event("60 bytes were in flight, and 100 more would exceed 150")
    await reader.commit(roomy, 3)
    await reader.expect_messages(roomy, 3, [heavy])
