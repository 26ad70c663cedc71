"""S16, continued: numbered batches, which may be sent again and are stored once."""

from random import SystemRandom
from typing import Any

from zaichik.learn.connection import Connection
from zaichik.learn.layouts import CAPACITY, FOREVER, MAX_BYTES, OVERFLOW, TTL
from zaichik.learn.stages.s16_options import STAGE as STAGE
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

DUPLICATE = 1  # flag of Published
KEPT = 64  # answers
KEY = 1024  # bytes that it may have
MOST_MESSAGES = 20_000  # to send in one batch


class Producer:
    """A producer's batches, each of one message.

    Args:
        trial: whose topic it publishes to.
    """

    def __init__(self, trial: Trial) -> None:
        # Not from the seed: a broker may remember it from an earlier run.
        self.number = SystemRandom().getrandbits(63) | 2**62
        self._topic = trial.topic()

    def about(self, sequence: int, **fields: Any) -> dict[str, Any]:
        """The fields of the Publish with this number."""
        own = {"topic": self._topic, "batch": [(b"", b"%d" % sequence)], "producer": self.number}
        return own | {"sequence": sequence} | fields

    async def publish_first(self, client: Connection, **fields: Any) -> None:
        """Publish its first batch, which must be stored, if the broker knows producers."""
        about = self.about(0, **fields)
        frame = await client.ask_optional("Publish", "numbered batches", unless="producer", **about)
        client.must_be(frame, "Published", flags=0, first_offset=0, stored=1)

    async def ask(self, client: Connection, sequence: int, **fields: Any) -> Frame:
        """The reply to the batch with this number."""
        return await client.ask("Publish", **self.about(sequence, **fields))

    async def expect_stored(
        self, client: Connection, sequence: int, offset: int, flags: int = 0, **fields: Any
    ) -> None:
        """Publish a batch, which must be, or have been, stored at this offset."""
        frame = await self.ask(client, sequence, **fields)
        client.must_be(frame, "Published", flags=flags, first_offset=offset, stored=1)

    async def expect_error(
        self, client: Connection, sequence: int, error: str, at: str | None = None, **more: Any
    ) -> None:
        """Publish a batch, which must be refused with this error."""
        await client.expect_error(error, "Publish", at=at, **self.about(sequence, **more))


async def _producing(trial: Trial) -> tuple[Connection, Producer]:
    """A client whose first numbered batch was stored."""
    client, producer = await trial.client(), Producer(trial)
    await producer.publish_first(client)
    return client, producer


@STAGE.check(
    "a numbered batch that comes again is stored once, and gets its first reply",
    hint="Keep replies with the producer, not the connection. An old number gets its old reply.",
    sentences="producer.2 producer.3 producer.4 producer.6 producer.8 deletion.3",
)
async def again(trial: Trial) -> None:
    """On another connection, after a crash; to another topic; a second producer; after a Delete."""
    client, producer = await _producing(trial)
    for sequence in (1, 2):
        await producer.expect_stored(client, sequence, sequence)
    await client.publish(trial.topic(), trial.message(), first_offset=3)
    await client.reset()
    other = await trial.client()
    for sequence in (1, 0, 2):
        await producer.expect_stored(other, sequence, sequence, DUPLICATE)
    await producer.expect_stored(other, 1, 1, DUPLICATE, topic=trial.topic("elsewhere"))
    await producer.expect_stored(other, 1, 1, DUPLICATE, topic="$")
    if (most := other.limits["max_batch"]) < MOST_MESSAGES:
        await producer.expect_stored(other, 1, 1, DUPLICATE, batch=[(b"", b"")] * (most + 1))
    await other.publish(trial.topic("elsewhere"), trial.message(), first_offset=0)
    await other.send("Publish", frame_id=0, **producer.about(3))
    await producer.expect_stored(other, 3, 4, DUPLICATE)
    # Others, whose numbers differ from it in one half, in the lowest bit, and in the highest.
    for offset, alike in enumerate(
        (producer.number & 0xFFFFFFFF or 1, producer.number ^ 1, producer.number | 2**63), 5
    ):
        similar = Producer(trial)
        similar.number = alike
        await similar.expect_stored(other, 0, offset)
    await producer.expect_stored(other, 4, 8)
    await other.ask("Delete", topic=trial.topic())
    await producer.expect_stored(other, 4, 8, DUPLICATE)


@STAGE.check(
    "a gap between numbers is SEQUENCE_GAP, and an unknown producer is PRODUCER_UNKNOWN",
    hint="Store only the next number. Only 0 introduces a producer. A refusal changes nothing.",
    sentences="producer.5 producer.10 producer.11",
)
async def gaps(trial: Trial) -> None:
    """One number too far, and many; the next one is still the next."""
    client, producer = await _producing(trial)
    for sequence in (2, 1000, 2**64 - 1):
        await producer.expect_error(client, sequence, "SEQUENCE_GAP")
    await producer.expect_stored(client, 1, 1)
    unknown = Producer(trial)
    for sequence in (1, 2**63):
        await unknown.expect_error(client, sequence, "PRODUCER_UNKNOWN")
    await unknown.expect_stored(client, 0, 2)
    await unknown.expect_stored(client, 0, 2, DUPLICATE)


@STAGE.check(
    "the last 64 replies are remembered, and an older number is INVALID_FIELD",
    hint="Use a deque of 64. Whether an older number is a repeat or a mistake is unknown.",
    sentences="producer.3 producer.6 producer.7",
)
async def remembered(trial: Trial) -> None:
    """70 batches; the 64th from the end again, and the one before it."""
    client, producer = await _producing(trial)
    for sequence in range(1, 70):
        await producer.expect_stored(client, sequence, sequence)
    await producer.expect_stored(client, 70 - KEPT, 70 - KEPT, DUPLICATE)
    for sequence in (70 - KEPT - 1, 0):
        await producer.expect_error(client, sequence, "INVALID_FIELD", "sequence")
    await producer.expect_stored(client, 70, 70)


@STAGE.check(
    "a final error uses up its number; a bad frame or a retryable error does not",
    hint="Keep the Error like any reply, unless it is RETRYABLE or the frame was malformed. A "
    "batch whose columns are right can be read, even if a key in it is too long.",
    sentences="producer.4 producer.6 producer.9 error.4",
)
async def errors(trial: Trial) -> None:
    """A batch larger than the ring, a key too long; bad UTF-8, bad columns; TOPIC_FULL."""
    client, topic = await trial.client(), trial.topic("small")
    _, producer = await _producing(trial)
    await client.create(topic, {CAPACITY: 1})
    two = [(b"", b"x")] * 2
    await producer.expect_error(client, 1, "BATCH_TOO_LARGE", topic=topic, batch=two)
    await producer.expect_error(client, 1, "BATCH_TOO_LARGE")
    too_long = [(bytes(KEY + 1), b"x")]
    await producer.expect_error(client, 2, "INVALID_FIELD", "batch", batch=too_long)
    await producer.expect_error(client, 2, "INVALID_FIELD", "batch")
    await producer.expect_error(client, 3, "INVALID_FIELD", "batch", batch=b"\0\0\0\0")
    await producer.expect_error(client, 3, "INVALID_FIELD", "topic", topic=b"\xff")
    await producer.expect_stored(client, 3, 1)
    full = trial.topic("full")
    settings = {CAPACITY: 1, TTL: FOREVER, MAX_BYTES: 1000, OVERFLOW: 1}
    if (await client.ask("CreateTopic", topic=full, settings=settings)).name == "TopicCreated":
        reader = await trial.client()
        subscription = await reader.subscribe(full, credit=1)
        await client.publish(full, (b"", b"a"), first_offset=0)
        await reader.expect_messages(subscription, 0, [(b"", b"a")])
        await client.publish(full, (b"", b"b"), first_offset=1)
        await producer.expect_error(client, 4, "TOPIC_FULL", topic=full)
        await producer.expect_error(client, 5, "SEQUENCE_GAP")
        await reader.commit(subscription, 1)
        await reader.expect_messages(subscription, 1, [(b"", b"b")])
        await producer.expect_stored(client, 4, 2, topic=full)
