"""S6: The same order for everyone.

Goal: However many clients publish at once, a topic is one sequence of messages, and every reader
reads that same sequence. A batch stays together: no other message comes in between.

Tested: Three clients publish at the same time, and three read. What they read is compared, offset
by offset, with one another and with the publishers' replies.

Real systems: Kafka promises order within a partition, and none across partitions; so does every
log. With one queue for each subscriber (as in RabbitMQ's fan-out exchanges) order holds within each
queue, but no number tells you what is missing.

How: Keep each message once, in the topic, and give each subscription nothing but an offset. With
copies, one queue per reader, orders begin to differ.

Where: tutorial/tiny_broker.py, `Topic.publish`: the whole batch is stored without an await, so
nothing can come in between. With threads you need a lock per topic, held from the first message of
a batch to its last.
"""

from zaichik.learn import docstrings, notation
from zaichik.learn.connection import Connection, Pair
from zaichik.learn.failure import Failure
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

PUBLISHERS, READERS, BATCHES = 3, 3, 8

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=6)


@STAGE.check(
    "all readers see the same messages at the same offsets, without a gap",
    hint="What assigns offsets? It must be the topic, once per message, when it is stored.",
    sentences="topic.1 publish.1 start.5",
)
async def same_order(trial: Trial) -> None:
    """Three readers of a topic that three clients publish to, in batches of one to four."""
    writers = [await trial.client() for _ in range(PUBLISHERS)]
    readers = [await trial.client() for _ in range(READERS)]
    ids = [await reader.subscribe(trial.topic()) for reader in readers]
    batches = [
        [[trial.message() for _ in range(trial.rng.randint(1, 4))] for _ in range(BATCHES)]
        for _ in writers
    ]
    total = sum(len(batch) for own in batches for batch in own)

    async def write(writer: Connection, own: list[list[Pair]]) -> None:
        for batch in own:
            await writer.publish(trial.topic(), *batch, stored=len(batch))

    await trial.at_once(write, zip(writers, batches, strict=True))
    rows = [await reader.take(i, total) for reader, i in zip(readers, ids, strict=True)]
    for row in rows:
        offsets = [message.offset for message in row]
        if offsets != list(range(total)):
            problem = "offsets have gaps, or do not begin at 0"
            raise Failure(problem, expected=f"0 to {total - 1}", came=notation.numbers(offsets))
        if row != rows[0]:
            first = next(mine for mine, other in zip(row, rows[0], strict=True) if mine != other)
            problem = f"two readers were sent different messages at offset {first.offset}"
            raise Failure(
                problem,
                expected=notation.message(rows[0][first.offset]),
                came=notation.message(first),
            )


@STAGE.check(
    "a batch stays together, at the offset that Published gives",
    hint="Take the lock once for the whole batch (or don't yield inside it), not once per message.",
    sentences="publish.1",
)
async def together(trial: Trial) -> None:
    """Publishers don't wait for replies; then each batch must be where its reply said."""
    writers = [await trial.client() for _ in range(PUBLISHERS)]
    reader = await trial.client()
    subscription = await reader.subscribe(trial.topic())
    sent: list[tuple[Connection, int, list[Pair]]] = []
    for _ in range(BATCHES):
        for writer in writers:
            batch = [trial.message() for _ in range(trial.rng.randint(2, 5))]
            sent.append(
                (writer, await writer.send("Publish", topic=trial.topic(), batch=batch), batch)
            )
    for writer in writers:
        await writer.flush()
    places = []
    for writer, request, batch in sent:
        frame = await writer.reply(request)
        writer.must_be(frame, "Published", stored=len(batch))
        places.append((frame["first_offset"], batch))
    row = await reader.take(subscription, sum(len(batch) for _, batch in places))
    for first, batch in places:
        found = [(message.key, message.payload) for message in row[first : first + len(batch)]]
        if found != batch:
            problem = f"the batch that was published at offset {first} is not there"
            raise Failure(problem, expected=notation.batch(batch), came=notation.batch(found))
