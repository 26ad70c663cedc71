"""S5, continued: batches as large as allowed, and batches in silence."""

from zaichik.learn import layouts
from zaichik.learn.stages.s05_publish import STAGE as STAGE
from zaichik.learn.trial import Trial

MOST_MESSAGES, MOST_BYTES = 100_000, 4 * 2**20  # that a check sends in one batch, if a broker allows so much


@STAGE.check(
    "keys, batches and messages as large as allowed are stored, and larger ones are refused",
    hint="A key has 1,024 bytes at most; Welcome tells max_batch and max_message. What is exactly as large is right.",
    sentences="batch.4 batch.5 batch.6",
)
async def sizes(trial: Trial) -> None:
    """Each at its limit, then one more; keys count with payloads."""
    client, topic = await trial.client(), trial.topic()
    most, count = client.limits["max_message"], client.limits["max_batch"]
    key, long = bytes(1024), bytes(1025)
    await client.refused("INVALID_FIELD", "Publish", topic=topic, batch=[(b"k", b"x"), (long, b"")], at="batch")
    await client.publish(topic, (b"k", b"x"), (key, b""), first_offset=0, stored=2)
    if count <= MOST_MESSAGES:
        await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"", b"")] * (count + 1))
        await client.publish(trial.topic("many"), *[(b"", b"")] * count, stored=count)
    if most <= MOST_BYTES:
        await client.refused("MESSAGE_TOO_LARGE", "Publish", topic=topic, batch=[(key, bytes(most - 1023))])
        await client.publish(topic, (key, bytes(most - 1024)), first_offset=2, stored=1)
        half = bytes(most // 2)
        await client.refused(
            "BATCH_TOO_LARGE", "Publish", topic=topic, batch=[(b"k", half), (b"", bytes(most - len(half)))]
        )
        await client.publish(topic, (b"", half), (b"", bytes(most - len(half))), first_offset=3, stored=2)


@STAGE.check(
    "a Publish with id 0 is stored and delivered in silence, and refused aloud",
    hint="Success is not answered, failure is, by an Error with id 0. All else is as with any other id.",
    sentences="id.4 id.5 producer.1",
)
async def silent(trial: Trial) -> None:
    """Three good ones, a bad one, a Ping; sequence is not looked at without a producer."""
    client = await trial.client()
    subscription = await client.subscribe(trial.topic())
    messages = [trial.message() for _ in range(3)]
    for number, message in enumerate(messages):
        await client.send("Publish", frame_id=0, topic=trial.topic(), batch=[message], sequence=7 * number)
    await client.send("Publish", frame_id=0, topic="", batch=[trial.message()])
    frame = await client.reply(0)
    client.must_be_error(frame, "INVALID_FIELD", request_type=layouts.TYPES["Publish"], at="topic", id=0)
    await client.ping()
    await client.messages(subscription, 0, messages)
