"""S12, continued: how long windows are, how many are remembered, and what is said of what they drop."""

from zaichik.learn import wire
from zaichik.learn.layouts import CAPACITY, FOREVER, MAX_BYTES, MAX_KEYS, TTL, WINDOW
from zaichik.learn.stages.s12_compaction import STAGE as STAGE
from zaichik.learn.ticks import Ticks
from zaichik.learn.trial import Trial

WINDOW_S, WINDOW_MS = 0.8, 400
MANY_KEYS = 3000


@STAGE.check(
    "a window is as long as it says, by the broker's own clock",
    hint="[t, t + window): at its very end the next message is stored. Look at each publish; round nothing.",
    sentences="compaction.1 compaction.2 time.1 time.3",
)
async def exactly(trial: Trial) -> None:
    """Repeats come again and again. A publish before and behind each of them tells the time at which it was judged."""
    client, topic = await trial.client(), trial.topic()
    ticks = await Ticks.of(trial, client)
    await client.ok("CreateTopic", topic=topic, settings={WINDOW: WINDOW_MS, TTL: FOREVER})
    watching = await client.subscribe(topic)
    await client.publish(topic, (b"k", b"first"), stored=1)
    end = (await client.event(watching, awaited="the message"))["accepted_us"] + WINDOW_MS * 1000
    await ticks.until(end)
    while True:
        repeat = wire.encode("Publish", frame_id=(frame_id := next(client.ids)), topic=topic, batch=[(b"k", b"again")])
        frame, before, after = await ticks.around(repeat, frame_id)
        client.must_be(frame, "Published", first_offset=1)
        ticks.judge("a repeat was dropped", end, before if frame["compacted"] else None, after)
        if frame["stored"]:
            return


@STAGE.check(
    "no more than max_keys windows are remembered, and the oldest are forgotten",
    hint="After each batch, not inside it, forget the windows that were opened first until max_keys are left.",
    sentences="compaction.8",
)
async def max_keys(trial: Trial) -> None:
    """Room for three; four in one batch, all of which count as open until it is over; thousands."""
    client, topic = await trial.client(), trial.topic()
    await client.ok("CreateTopic", topic=topic, settings={WINDOW: FOREVER, MAX_KEYS: 3})

    async def publish(keys: bytes, kept: bytes) -> None:
        batch = [(bytes([key]), b"") for key in keys]
        await client.publish(topic, *batch, stored=len(kept), compacted=len(keys) - len(kept))

    await publish(b"abc", b"abc")
    await publish(b"abc", b"")
    await publish(b"d", b"d")  # forgets a
    await publish(b"bcd", b"")
    await publish(b"a", b"a")  # forgets b
    await publish(b"cda", b"")
    await publish(b"wxyzw", b"wxyz")  # forgets c, d, a and w
    await publish(b"xyz", b"")
    await publish(b"w", b"w")
    many, most = trial.topic("many"), min(client.limits["max_batch"], MANY_KEYS)
    await client.ok("CreateTopic", topic=many, settings={WINDOW: FOREVER, MAX_KEYS: MANY_KEYS})
    keys = [(b"%d" % number, b"") for number in range(MANY_KEYS)]
    for stored in (True, False):
        for first in range(0, MANY_KEYS, most):
            batch = keys[first : first + most]
            told = {"stored": len(batch) if stored else 0, "compacted": 0 if stored else len(batch)}
            await client.publish(many, *batch, **told)


@STAGE.check(
    "a batch that is refused opens no windows",
    hint="Judge the size of a batch before you look at its keys.",
    sentences="publish.4 compaction.1",
)
async def refused(trial: Trial) -> None:
    """Three keys for a ring of two, then one by one."""
    client, topic = await trial.client(), trial.topic()
    await client.ok("CreateTopic", topic=topic, settings={WINDOW: FOREVER, CAPACITY: 2})
    batch = [(key, b"") for key in (b"a", b"b", b"c")]
    await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=batch)
    for offset, message in enumerate(batch):
        await client.publish(topic, message, first_offset=offset, stored=1)
    repeats = [(b"a", b"")] * 3  # it counts as it arrives, also what would be dropped
    await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=repeats)


@STAGE.check(
    "dropped has a bit for each message, in as many bytes as that takes",
    hint="(count + 7) // 8 bytes: 1 for 8 messages, 2 for 9. Long keys are compared to their ends.",
    sentences="published.1 published.2 published.3 compaction.5",
)
async def bits(trial: Trial) -> None:
    """All but the first of 1, 7, 8, 9, 16 and 17 messages with one key; long keys that differ in the last byte."""
    client, topic = await trial.client(), trial.topic()
    await client.ok("CreateTopic", topic=topic, settings={WINDOW: FOREVER})
    await client.publish(topic, *[(b"%d" % number, b"") for number in range(17)], stored=17, compacted=0, dropped=b"")
    for count in (7, 8, 9, 16, 17):
        key = bytes(1000) + bytes([count])
        told = {"stored": 1, "compacted": count - 1, "dropped": ((1 << count) - 2).to_bytes((count + 7) // 8, "little")}
        await client.publish(topic, *[(key, b"")] * count, **told)
        all_of_them = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
        await client.publish(topic, *[(key, b"")] * count, stored=0, compacted=count, dropped=all_of_them)


@STAGE.check(
    "a window that is opened again counts as a new one when the oldest are forgotten",
    hint="Take the key out before you put it in again: most tables keep the place that it had.",
    sentences="compaction.8",
)
async def reopened(trial: Trial) -> None:
    """Room for two: a, then b; when a has closed and b has not, a again, then c: it is b that is forgotten."""
    client, topic = await trial.client(), trial.topic()
    window = round(WINDOW_S * 1000 * trial.scale)
    await client.ok("CreateTopic", topic=topic, settings={WINDOW: window, MAX_KEYS: 2})
    await client.publish(topic, (b"a", b""), stored=1)
    opened = trial.elapsed
    await trial.wait(opened, WINDOW_S / 2)
    later = trial.elapsed
    await client.publish(topic, (b"b", b""), stored=1)
    await trial.wait(opened, WINDOW_S * 1.1)
    again = trial.elapsed
    frames = [await client.ok("Publish", topic=topic, batch=[(key, b"")]) for key in (b"a", b"c", b"a", b"c")]
    trial.in_time(later, WINDOW_S)
    trial.in_time(again, WINDOW_S)
    for frame, stored in zip(frames, (1, 1, 0, 0), strict=True):
        client.must_be(frame, "Published", stored=stored)


@STAGE.check(
    "what compaction drops takes no room among max_bytes",
    hint="A batch counts with the bytes it is stored with: encode what is left of it, and count that.",
    sentences="ring.2 compaction.4",
)
async def room(trial: Trial) -> None:
    """Room for four messages; of each batch one is dropped, and counted it would push others out."""
    client, topic = await trial.client(), trial.topic()
    message = (b"k", bytes(100))
    size = len(wire.encode_batch([message]))
    await client.ok("CreateTopic", topic=topic, settings={WINDOW: FOREVER, TTL: FOREVER, MAX_BYTES: 4 * size})
    await client.publish(topic, message, stored=1)
    for offset, head in ((1, 0), (2, 0), (3, 0), (4, 1)):
        other = (bytes([offset]), bytes(100))
        await client.publish(topic, message, other, first_offset=offset, stored=1, compacted=1)
        subscription = await client.subscribe(topic, expect={"start": head})
        await client.ok("Unsubscribe", subscription=subscription)
