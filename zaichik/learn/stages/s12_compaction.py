"""S12: Compaction windows.

Goal: A message opens a window for its key; until the window ends, later messages with that key are
dropped: they get no offset and take no room, and the reply tells their publisher which they were.
Repeats do not extend the window.

Tested: Repeats in one batch, in several, from several publishers, with keys of any bytes, without
keys; windows that end; a winner that has left the ring.

Real systems: NATS JetStream calls this a duplicate window (2 minutes by default, by Nats-Msg-Id).
What Kafka calls log compaction is the opposite: the last message of a key wins, some time later.
The first zaichik dropped a repeat with other content without telling its publisher.

How: A dict from key to the end of its window. Go through the batch in order, all at the same time
`now`. Key known and now < end? Drop it, and set bit i. Otherwise store it, and set end = now +
window. A drop never changes an end.

Where: tutorial/tiny_broker.py, `Topic.publish`: one loop, one bitmap. Bit i of dropped is bit i % 8
of byte i // 8, lowest first; if nothing was dropped, the field is empty.
"""

from zaichik.learn import docstrings, wire
from zaichik.learn.layouts import CAPACITY, FOREVER, MAX_BYTES, MAX_KEYS, TTL, WINDOW
from zaichik.learn.stage import Stage
from zaichik.learn.ticks import Ticks
from zaichik.learn.trial import Trial

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=11)

# A window; a repeat inside it, and until when it surely is inside; a moment after the window's end
# that an extended window would still cover, and for how long after the repeat that surely holds.
WINDOW_S, REPEAT_S, SURELY_INSIDE_S, AFTER_S, SURELY_PROLONGED_S = 0.8, 0.45, 0.65, 1.0, 0.75
WINDOW_MS = 400
MANY_KEYS = 3000


@STAGE.check(
    "of a key's messages in one batch the first is stored, and the reply marks the others",
    hint="dropped is a bitmap over the batch's messages. Offsets count only what was stored.",
    sentences="bytes.6 published.1 published.2 published.3 publish.1 compaction.3 compaction.6",
)
async def in_one_batch(trial: Trial) -> None:
    """Eleven messages, so that the bitmap has two bytes."""
    client, topic = await trial.make_topic({WINDOW: FOREVER, TTL: FOREVER})
    keys = [b"a", b"b", b"a", b"", b"b", b"c", b"a", b"", b"c", b"a", b"d"]
    batch = [(key, b"%d" % index) for index, key in enumerate(keys)]
    kept = [0, 1, 3, 5, 7, 10]
    dropped = sum(1 << index for index in range(len(keys)) if index not in kept).to_bytes(
        2, "little"
    )
    reply = {
        "first_offset": 0,
        "stored": len(kept),
        "compacted": len(keys) - len(kept),
        "dropped": dropped,
    }
    await client.publish(topic, *batch, **reply)
    subscription = await client.subscribe(topic)
    await client.expect_messages(subscription, 0, [batch[index] for index in kept])


@STAGE.check(
    "a repeat from any publisher is dropped, and takes no offset",
    hint="Windows belong to the topic. If all is dropped, first_offset is the next offset.",
    sentences="published.2 compaction.2 compaction.4",
)
async def across(trial: Trial) -> None:
    """Two publishers, one reader."""
    one, two, reader = [await trial.client() for _ in range(3)]
    await one.create(trial.topic(), {WINDOW: FOREVER})
    subscription = await reader.subscribe(trial.topic())
    await one.publish(
        trial.topic(), (b"k", b"first"), first_offset=0, stored=1, compacted=0, dropped=b""
    )
    await two.publish(
        trial.topic(), (b"k", b"other"), first_offset=1, stored=0, compacted=1, dropped=b"\1"
    )
    await two.publish(
        trial.topic(), (b"l", b"new"), first_offset=1, stored=1, compacted=0, dropped=b""
    )
    await reader.expect_messages(subscription, 0, [(b"k", b"first"), (b"l", b"new")])
    await reader.expect_no_event("the repeat was dropped")


@STAGE.check(
    "keys are compared byte by byte, and a message without a key is never dropped",
    hint="No key means an empty key. Don't decode or trim keys, or change their case.",
    how="Use the key's bytes unchanged as the key of your table, and first check that there are "
    "any: an empty key neither looks up a window nor opens one.",
    where="tutorial/tiny_broker.py, `Topic.publish`: `if key and …`; keys stay bytes throughout.",
    sentences="compaction.5 compaction.6",
)
async def keys(trial: Trial) -> None:
    """Upper and lower case, zero bytes, bytes that aren't UTF-8, words, no key."""
    client, topic = await trial.make_topic({WINDOW: FOREVER})
    keyed = [b"a", b"A", b"a ", b"a\0", b"\xff", b"\xfe", b"\xc3", b"\xef\xbb\xbfa"]
    keyed += [b"constructor", b"toString", b"__proto__"]
    batch = [(key, trial.payload()) for key in (*keyed, b"", b"", b"")]
    await client.publish(topic, *batch[:8], stored=8, compacted=0)
    await client.publish(topic, *batch[8:], stored=len(batch) - 8, compacted=0)
    repeats = [(key, trial.payload()) for key in keyed]
    await client.publish(topic, *repeats, stored=0, compacted=len(keyed))
    await client.publish(topic, (b"", b"x"), stored=1, compacted=0)


@STAGE.check(
    "with a window of 0, the default, nothing is dropped",
    hint="Off means off, even for two messages of one batch, which have the same time.",
    how="A window of 0 ends as it begins: now < now + 0 is never true. If your code works "
    "differently, check for 0 first.",
    where="tutorial/tiny_broker.py, `Topic.publish`: `now < end` with end = now + 0 drops nothing, "
    "without a special case.",
    sentences="compaction.6",
)
async def off(trial: Trial) -> None:
    """The same key many times; the same key in two topics, one with a window."""
    client = await trial.client()
    batch = [(b"k", trial.payload()) for _ in range(3)]
    await client.create(trial.topic(), {WINDOW: 0})
    await client.create(trial.topic("on"), {WINDOW: FOREVER})
    await client.publish(trial.topic("on"), batch[0], stored=1)
    for _ in range(2):
        await client.publish(trial.topic(), *batch, stored=3, compacted=0)


@STAGE.check(
    "a window's length counts from its first message; repeats do not extend it",
    hint="Set the window's end when a message is stored, and only then. The setting is in "
    "milliseconds.",
    sentences="compaction.1 compaction.2",
)
async def ends(trial: Trial) -> None:
    """Of 800 ms: a repeat at 450 is dropped, and one at 1000 is stored."""
    client = await trial.client()
    window = {WINDOW: round(WINDOW_S * 1000 * trial.scale)}
    await client.create(trial.topic(), window)
    asked = trial.elapsed
    await client.publish(trial.topic(), (b"k", b"first"), stored=1)
    answered = trial.elapsed
    await client.create(trial.topic("forever"), {WINDOW: FOREVER})
    await client.publish(trial.topic("forever"), (b"k", b"first"), stored=1)
    await trial.wait(asked, REPEAT_S)
    repeated = trial.elapsed
    frame = await client.ok("Publish", topic=trial.topic(), batch=[(b"k", b"repeat")])
    trial.in_time(asked, SURELY_INSIDE_S)
    client.must_be(frame, "Published", stored=0, compacted=1)
    await trial.wait(answered, AFTER_S)
    frame = await client.ok("Publish", topic=trial.topic(), batch=[(b"k", b"second")])
    trial.in_time(repeated, SURELY_PROLONGED_S)
    client.must_be(frame, "Published", stored=1, compacted=0)
    await client.publish(trial.topic("forever"), (b"k", b"repeat"), stored=0)


@STAGE.check(
    "a window stays open after its first message has left the ring",
    hint="Windows don't depend on the ring: evicting a message must not forget its key.",
    how="Two structures: messages, which are bounded by capacity, and windows, which end only with "
    "time. Eviction touches only the first.",
    where="tutorial/tiny_broker.py: `Topic.publish` deletes from `ring`; only `Broker.sweep` "
    "deletes from `windows`, and only closed ones.",
    sentences="ring.1 compaction.7",
)
async def evicted(trial: Trial) -> None:
    """In a ring of two, other messages push it out."""
    client, topic = await trial.make_topic({WINDOW: FOREVER, CAPACITY: 2})
    await client.publish(topic, (b"k", b"first"), stored=1)
    await client.publish_singly(topic, [(b"other %d" % index, b"") for index in range(4)], stored=1)
    await client.publish(topic, (b"k", b"repeat"), first_offset=5, stored=0, compacted=1)


@STAGE.check(
    "a window lasts exactly as long as it says, by the broker's own clock",
    hint="The window is [t, t + window): at its very end, the next message is stored. Check at "
    "each publish, and don't round.",
    sentences="compaction.1 compaction.2 time.1 time.3",
)
async def exactly(trial: Trial) -> None:
    """Repeats, again and again; a publish before and after each shows the broker's time."""
    client, topic = await trial.client(), trial.topic()
    ticks = await Ticks.of(trial, client)
    await client.create(topic, {WINDOW: WINDOW_MS, TTL: FOREVER})
    watching = await client.subscribe(topic)
    await client.publish(topic, (b"k", b"first"), stored=1)
    end = (await client.event(watching, awaited="the message"))["accepted_us"] + WINDOW_MS * 1000
    await ticks.until(end)
    while True:
        repeat = wire.encode(
            "Publish",
            frame_id=(frame_id := next(client.ids)),
            topic=topic,
            batch=[(b"k", b"again")],
        )
        frame, before, after = await ticks.around(repeat, frame_id)
        client.must_be(frame, "Published", first_offset=1)
        ticks.check_end("a repeat was dropped", end, before if frame["compacted"] else None, after)
        if frame["stored"]:
            return


@STAGE.check(
    "at most max_keys windows are remembered, and the oldest are forgotten",
    hint="After each batch, not within it, forget the oldest windows until max_keys are left.",
    sentences="compaction.8",
)
async def max_keys(trial: Trial) -> None:
    """Room for three; four in one batch, all open until it has ended; then thousands."""
    client, topic = await trial.make_topic({WINDOW: FOREVER, MAX_KEYS: 3})

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
    await client.create(many, {WINDOW: FOREVER, MAX_KEYS: MANY_KEYS})
    keys = [(b"%d" % number, b"") for number in range(MANY_KEYS)]
    for stored in (True, False):
        for first in range(0, MANY_KEYS, most):
            batch = keys[first : first + most]
            reply = {
                "stored": len(batch) if stored else 0,
                "compacted": 0 if stored else len(batch),
            }
            await client.publish(many, *batch, **reply)


@STAGE.check(
    "a batch that is refused opens no windows",
    hint="Check the size of a batch before you look at its keys.",
    sentences="publish.4 compaction.1",
)
async def refused(trial: Trial) -> None:
    """Three keys to a ring of two, at once and then one by one."""
    client, topic = await trial.make_topic({WINDOW: FOREVER, CAPACITY: 2})
    batch = [(key, b"") for key in (b"a", b"b", b"c")]
    await client.expect_error("BATCH_TOO_LARGE", "Publish", topic=topic, batch=batch)
    await client.publish_singly(topic, batch, first_offset=0, stored=1)
    repeats = [(b"a", b"")] * 3  # the batch counts as it arrives, including what would be dropped
    await client.expect_error("BATCH_TOO_LARGE", "Publish", topic=topic, batch=repeats)


@STAGE.check(
    "dropped has one bit per message, in as many bytes as that takes",
    hint="(count + 7) // 8 bytes: 1 for 8 messages, 2 for 9. Long keys are compared to their ends.",
    sentences="published.1 published.2 published.3 compaction.5",
)
async def bits(trial: Trial) -> None:
    """7, 8, 9, 16 and 17 messages with one key; long keys that differ only in the last byte."""
    client, topic = await trial.make_topic({WINDOW: FOREVER})
    await client.publish(
        topic, *[(b"%d" % number, b"") for number in range(17)], stored=17, compacted=0, dropped=b""
    )
    for count in (7, 8, 9, 16, 17):
        key = bytes(1000) + bytes([count])
        dropped = ((1 << count) - 2).to_bytes((count + 7) // 8, "little")
        reply = {"stored": 1, "compacted": count - 1, "dropped": dropped}
        await client.publish(topic, *[(key, b"")] * count, **reply)
        all_of_them = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
        await client.publish(
            topic, *[(key, b"")] * count, stored=0, compacted=count, dropped=all_of_them
        )


@STAGE.check(
    "a reopened window counts as a new one when the oldest are forgotten",
    hint="Remove the key before you insert it again: many tables would keep its old position.",
    sentences="compaction.8",
)
async def reopened(trial: Trial) -> None:
    """Room for two: a, b; when a has closed and b has not, a again, then c: b is forgotten."""
    client, topic = await trial.client(), trial.topic()
    window = round(WINDOW_S * 1000 * trial.scale)
    await client.create(topic, {WINDOW: window, MAX_KEYS: 2})
    await client.publish(topic, (b"a", b""), stored=1)
    opened = trial.elapsed
    await trial.wait(opened, WINDOW_S / 2)
    later = trial.elapsed
    await client.publish(topic, (b"b", b""), stored=1)
    await trial.wait(opened, WINDOW_S * 1.1)
    again = trial.elapsed
    frames = [
        await client.ok("Publish", topic=topic, batch=[(key, b"")])
        for key in (b"a", b"c", b"a", b"c")
    ]
    trial.in_time(later, WINDOW_S)
    trial.in_time(again, WINDOW_S)
    for frame, stored in zip(frames, (1, 1, 0, 0), strict=True):
        client.must_be(frame, "Published", stored=stored)


@STAGE.check(
    "messages dropped by compaction do not count towards max_bytes",
    hint="A batch counts with the bytes that are stored: encode what is left, and count that.",
    sentences="ring.2 compaction.4",
)
async def room(trial: Trial) -> None:
    """Room for four messages; one of each batch is dropped, and must not evict another."""
    client, topic = await trial.client(), trial.topic()
    message = (b"k", bytes(100))
    size = len(wire.encode_batch([message]))
    await client.create(topic, {WINDOW: FOREVER, TTL: FOREVER, MAX_BYTES: 4 * size})
    await client.publish(topic, message, stored=1)
    for offset, head in ((1, 0), (2, 0), (3, 0), (4, 1)):
        other = (bytes([offset]), bytes(100))
        await client.publish(topic, message, other, first_offset=offset, stored=1, compacted=1)
        subscription = await client.subscribe(topic, expect={"start": head})
        await client.ok("Unsubscribe", subscription=subscription)
