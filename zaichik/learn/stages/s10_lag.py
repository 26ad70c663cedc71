"""S10: who falls behind is told exactly how far."""

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.layouts import CAPACITY, FOREVER, MAX_BYTES, OFFSET, TTL
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

ROOM = 5

STAGE = Stage(
    number=10,
    title="Lag, told exactly",
    chapter=7,
    frames=("Lagged",),
    goal=(
        "A topic keeps its newest messages, at most `capacity`. A reader whose next message is gone is sent "
        "one Lagged: from its place to the oldest message left, as soon as it has free credit; it uses none of "
        "it. Nothing is lost in silence."
    ),
    tested=(
        "A topic of 5 messages, a reader that waits, 13 messages. The report must be exact, come once, come "
        "only when there is credit, and concern nobody else."
    ),
    real=(
        "Kafka answers such a fetch with OFFSET_OUT_OF_RANGE, and the client then jumps (auto.offset.reset); "
        "NATS drops and counts; Redis Streams trims and says nothing: a reader sees by the ids, if it looks. "
        "The first zaichik met a lag with a pattern that did not match, and the reader froze."
    ),
    hints=(
        (
            "head = the oldest offset in the ring. Before each send: is the cursor below head? Then "
            "Lagged(cursor, head), and cursor = head. Only with free credit, else it would have to be told "
            "again."
        ),
        (
            "tutorial/tiny_broker.py: `Topic.publish` drops from the front, `Topic.head` says what is left, "
            "`Subscription.next_event` has the three cases in order: no credit, behind, next message."
        ),
    ),
)


async def _fallen_behind(trial: Trial, credit: int = 1) -> tuple[Connection, Connection, int]:
    """A topic with room for 5, of whose 13 messages the reader has got the first `credit`."""
    reader, writer = await trial.client(), await trial.client()
    await writer.ok("CreateTopic", topic=trial.topic(), settings={CAPACITY: ROOM, TTL: FOREVER})
    subscription = await reader.subscribe(trial.topic(), credit=credit)
    first = [(b"", bytes([offset])) for offset in range(credit)]
    await writer.publish(trial.topic(), *first)
    await reader.messages(subscription, 0, first)
    for offset in range(credit, 13):
        await writer.publish(trial.topic(), (b"", bytes([offset])), first_offset=offset)
    return reader, writer, subscription


async def _head_is(client: Connection, topic: str, offset: int) -> None:
    await client.ok("Unsubscribe", subscription=await client.subscribe(topic, expect={"start": offset}))


@STAGE.check(
    "a reader that fell behind is told from where to where, and goes on there",
    hint="to_offset is the oldest message left: next offset - capacity. Then comes that message.",
    sentences="ring.1 ring.3 lag.1",
)
async def exact(trial: Trial) -> None:
    """Offset 0 read, 1 to 7 gone, 8 to 12 left."""
    reader, _, subscription = await _fallen_behind(trial)
    await reader.commit(subscription, 1)
    await reader.lagged(subscription, 1, 8)
    for offset in range(8, 13):
        await reader.messages(subscription, offset, [(b"", bytes([offset]))])
        await reader.commit(subscription, offset + 1)
    await reader.nothing("all that was left had been read, and the lag had been told")


@STAGE.check(
    "a reader without credit is told nothing yet, and later all in one",
    hint="Check credit before you look for lag. What is told too early is wrong when more has gone meanwhile.",
    sentences="lag.3",
)
async def not_before_credit(trial: Trial) -> None:
    """More messages go while it waits; one report tells them all."""
    reader, writer, subscription = await _fallen_behind(trial)
    await reader.nothing("a message was in flight, and credit was 1")
    await writer.publish(trial.topic(), (b"", b"more"), first_offset=13)
    await reader.commit(subscription, 1)
    await reader.lagged(subscription, 1, 9)
    await reader.messages(subscription, 9, [(b"", bytes([9]))])


@STAGE.check(
    "a report of lag uses no credit, and skipped offsets are settled with the next commit",
    hint="In flight is what was delivered. Offsets that were skipped never were.",
    sentences="commit.1 lag.2",
)
async def no_credit_used(trial: Trial) -> None:
    """Credit 2, one settled, and the free one serves the message after the lag."""
    reader, _, subscription = await _fallen_behind(trial, credit=2)
    await reader.commit(subscription, 1)
    await reader.lagged(subscription, 2, 8)
    await reader.messages(subscription, 8, [(b"", bytes([8]))])
    await reader.nothing("offsets 1 and 8 were in flight, and credit was 2")
    await reader.commit(subscription, 9)
    await reader.messages(subscription, 9, [(b"", bytes([9])), (b"", bytes([10]))])


@STAGE.check(
    "the lag of one reader is nobody else's",
    hint="Each subscription has a cursor of its own; only the ring is shared.",
    sentences="lag.5",
)
async def nobody_elses(trial: Trial) -> None:
    """Another reader of the same topic gets everything, and is told of no lag."""
    slow, quick, writer = [await trial.client() for _ in range(3)]
    await writer.ok("CreateTopic", topic=trial.topic(), settings={CAPACITY: ROOM, TTL: FOREVER})
    lagging = await slow.subscribe(trial.topic(), credit=1)
    reading = await quick.subscribe(trial.topic())
    for offset in range(13):
        message = (b"", bytes([offset]))
        await writer.publish(trial.topic(), message, subscribers=2)
        await quick.messages(reading, offset, [message])
    await slow.messages(lagging, 0, [(b"", b"\0")])
    await slow.commit(lagging, 1)
    await slow.lagged(lagging, 1, 8)
    await writer.publish(trial.topic(), (b"", b"last"), first_offset=13)
    await quick.messages(reading, 13, [(b"", b"last")])


@STAGE.check(
    "a subscription may start at an offset that is gone: first Lagged, then the oldest",
    hint="Start where you are told, below the head if need be. The next thing the reader gets is then its lag.",
    sentences="start.3 lag.1",
)
async def start_below(trial: Trial) -> None:
    """Offset 2 of a topic that begins at 8."""
    _, writer, _ = await _fallen_behind(trial)
    subscription = await writer.subscribe(trial.topic(), start=OFFSET, value=2, expect={"start": 2, "live": 13})
    await writer.lagged(subscription, 2, 8)
    await writer.messages(subscription, 8, [(b"", bytes([offset])) for offset in range(8, 13)])


@STAGE.check(
    "a batch that is larger than the ring is BATCH_TOO_LARGE, and nothing of it is stored",
    hint="A publisher that is told can split its batch. One that is not would lose the beginning of it.",
    sentences="publish.4",
)
async def too_large(trial: Trial) -> None:
    """Six messages for a ring of five; then five."""
    client = await trial.client()
    await client.ok("CreateTopic", topic=trial.topic(), settings={CAPACITY: ROOM})
    batch = [trial.message() for _ in range(ROOM + 1)]
    await client.refused("BATCH_TOO_LARGE", "Publish", topic=trial.topic(), batch=batch)
    await client.publish(trial.topic(), *batch[:ROOM], first_offset=0, stored=ROOM)


@STAGE.check(
    "a ring holds at most max_bytes of batches, and whole batches go",
    hint="A batch counts with all its bytes, columns and offsets too, until its last message has gone.",
    sentences="publish.4 ring.2 ring.3 lag.1",
)
async def in_bytes(trial: Trial) -> None:
    """Room for exactly three batches of two; the fourth pushes out the first, and no more."""
    client, topic = await trial.client(), trial.topic()
    pair = [(b"k", b"x" * 49), (b"", b"y" * 50)]
    size = len(wire.encode_batch(pair))
    await client.ok("CreateTopic", topic=topic, settings={MAX_BYTES: 3 * size, TTL: FOREVER})
    for number in range(4):
        await client.publish(topic, *pair, first_offset=2 * number, stored=2)
        await _head_is(client, topic, max(0, 2 * number - 4))
    late = await client.subscribe(topic, start=OFFSET, value=0, expect={"start": 0, "live": 8})
    await client.lagged(late, 0, 2)
    await client.messages(late, 2, pair * 3)
    largest = (b"", bytes(3 * size - len(wire.encode_batch([(b"", b"")]))))
    await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"", largest[1] + b"!")])
    await client.publish(topic, largest, first_offset=8, stored=1)
    await client.subscribe(topic, expect={"start": 8, "live": 9})


@STAGE.check(
    "the bytes of a batch that capacity has cut stay until its last message goes, and then no longer",
    hint="Count bytes by batch: add when it is stored, take away when the last of its messages has gone.",
    sentences="ring.1 ring.2",
)
async def cut_batches(trial: Trial) -> None:
    """Four messages at most: a batch of four is cut to one, and its bytes still count."""
    client, topic = await trial.client(), trial.topic()
    four, one = [(b"", bytes(100))] * 4, (b"", bytes(100))
    whole, single = len(wire.encode_batch(four)), len(wire.encode_batch([one]))
    await client.ok("CreateTopic", topic=topic, settings={CAPACITY: 4, MAX_BYTES: whole + 2 * single, TTL: FOREVER})
    await client.publish(topic, *four, first_offset=0)
    for offset, head in ((4, 1), (5, 2), (6, 4), (7, 4), (8, 5), (9, 6)):
        await client.publish(topic, one, first_offset=offset)
        await _head_is(client, topic, head)


@STAGE.check(
    "what is skipped may be committed, up to where delivery goes on",
    hint="A commit settles everything below next, also what was never delivered, or has left the ring meanwhile.",
    sentences="commit.1 commit.3 lag.1",
)
async def skipped(trial: Trial) -> None:
    """Into the middle of the gap, then beyond what was sent, then what has left the ring since."""
    reader, writer, subscription = await _fallen_behind(trial, credit=2)
    await reader.commit(subscription, 1)
    await reader.lagged(subscription, 2, 8)
    await reader.messages(subscription, 8, [(b"", bytes([8]))])
    await reader.refused("NOT_IN_FLIGHT", "Commit", subscription=subscription, next=10)
    await reader.commit(subscription, 5)
    await reader.messages(subscription, 9, [(b"", bytes([9]))])
    for offset in range(13, 20):
        await writer.publish(trial.topic(), (b"", bytes([offset])), first_offset=offset)
    await reader.commit(subscription, 10)
    await reader.lagged(subscription, 10, 15)
    await reader.messages(subscription, 15, [(b"", bytes([15])), (b"", bytes([16]))])


@STAGE.check(
    "lag is told as soon as there is any free credit, also if there is room for nothing else",
    hint="Free credit means less in flight than both limits. It need not be enough for the next message.",
    sentences="lag.1 lag.2 lag.4",
)
async def with_some_credit(trial: Trial) -> None:
    """Three in flight of four; one settled while all that follows has gone."""
    reader, writer, topic = await trial.client(), await trial.client(), trial.topic()
    await writer.ok("CreateTopic", topic=topic, settings={CAPACITY: ROOM, TTL: FOREVER})
    subscription = await reader.subscribe(topic, credit=3)
    await writer.publish(topic, *[(b"", bytes([offset])) for offset in range(3)])
    await reader.messages(subscription, 0, [(b"", bytes([offset])) for offset in range(3)])
    for offset in range(3, 13):
        await writer.publish(topic, (b"", bytes([offset])))
    await reader.nothing("three messages were in flight, and credit was 3")
    await reader.commit(subscription, 1)
    await reader.lagged(subscription, 3, 8)
    await reader.messages(subscription, 8, [(b"", bytes([8]))])
    await reader.nothing("the lag was told, and three messages were in flight")
