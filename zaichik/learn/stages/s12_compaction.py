"""S12: Compaction windows.

Goal: A message opens a window for its key; until the window ends, later messages of that key are dropped: no offset, no
place, and their publisher is told which they were. Repeats do not prolong the window.

Tested: Repeats in one batch, in several, by several publishers, with keys of any bytes, without keys; windows that end;
a winner that has left the ring.

Real systems: NATS JetStream calls this rule a duplicate window (2 minutes by default, by Nats-Msg-Id). What Kafka calls
log compaction is the opposite: the last one of a key wins, some time later. The first zaichik dropped a repeat with
other content without a word to its publisher.

How: A dict from key to the end of its window. In order of the batch, at one time: key known and now < end? Drop, and
set bit i. Else store, and end = now + window. Never touch an end on a drop.

Where: tutorial/tiny_broker.py, `Topic.publish`: one loop, one bitmap. Bit i of dropped is bit i % 8 of byte i // 8,
lowest first; without a drop the field has no bytes.
"""

from zaichik.learn import wire
from zaichik.learn.layouts import CAPACITY, FOREVER, MAX_BYTES, MAX_KEYS, TTL, WINDOW
from zaichik.learn.stage import Stage
from zaichik.learn.ticks import Ticks
from zaichik.learn.trial import Trial

STAGE = Stage.told(__doc__, chapter=11)

# A window; a repeat inside it, and until when it surely is; a moment after its end that a prolonged window would still
# cover, and for how long after the repeat that surely holds.
WINDOW_S, REPEAT_S, SURELY_INSIDE_S, AFTER_S, SURELY_PROLONGED_S = 0.8, 0.45, 0.65, 1.0, 0.75
WINDOW_MS = 400
MANY_KEYS = 3000


@STAGE.check(
    "of one key in one batch the first message is stored, and the publisher is told which were not",
    hint="dropped is a bitmap over the batch's messages; first_offset and offsets count only what was stored.",
    sentences="bytes.6 published.1 published.2 published.3 publish.1 compaction.3 compaction.6",
)
async def in_one_batch(trial: Trial) -> None:
    """Eleven messages, so that the bitmap has two bytes."""
    client, topic = await trial.making({WINDOW: FOREVER, TTL: FOREVER})
    keys = [b"a", b"b", b"a", b"", b"b", b"c", b"a", b"", b"c", b"a", b"d"]
    batch = [(key, b"%d" % index) for index, key in enumerate(keys)]
    kept = [0, 1, 3, 5, 7, 10]
    dropped = sum(1 << index for index in range(len(keys)) if index not in kept).to_bytes(2, "little")
    told = {"first_offset": 0, "stored": len(kept), "compacted": len(keys) - len(kept), "dropped": dropped}
    await client.publish(topic, *batch, **told)
    subscription = await client.subscribe(topic)
    await client.messages(subscription, 0, [batch[index] for index in kept])


@STAGE.check(
    "a repeat is dropped whoever sends it, and takes no offset",
    hint="Windows belong to the topic. If all of a batch is dropped, first_offset is the next offset to come.",
    sentences="published.2 compaction.2 compaction.4",
)
async def across(trial: Trial) -> None:
    """Two publishers, one reader."""
    one, two, reader = [await trial.client() for _ in range(3)]
    await one.create(trial.topic(), {WINDOW: FOREVER})
    subscription = await reader.subscribe(trial.topic())
    await one.publish(trial.topic(), (b"k", b"first"), first_offset=0, stored=1, compacted=0, dropped=b"")
    await two.publish(trial.topic(), (b"k", b"other"), first_offset=1, stored=0, compacted=1, dropped=b"\1")
    await two.publish(trial.topic(), (b"l", b"new"), first_offset=1, stored=1, compacted=0, dropped=b"")
    await reader.messages(subscription, 0, [(b"k", b"first"), (b"l", b"new")])
    await reader.nothing("the repeat was dropped")


@STAGE.check(
    "keys are compared byte by byte, and a message without a key is never dropped",
    hint="No key is an empty key. Do not decode, trim, or change the case of keys.",
    how="Use the bytes of the key as they came as the key of your table, and ask first whether there are any: an "
    "empty key neither looks nor opens a window.",
    where="tutorial/tiny_broker.py, `Topic.publish`: `if key and …`, and keys are bytes from `read_batch` on.",
    sentences="compaction.5 compaction.6",
)
async def keys(trial: Trial) -> None:
    """Large and small letters, zero bytes, bytes that are no UTF-8, no key."""
    client, topic = await trial.making({WINDOW: FOREVER})
    different = [b"a", b"A", b"a ", b"a\0", b"\xff", b"\xfe", b"\xc3", b"", b"", b""]
    batch = [(key, trial.payload()) for key in different]
    await client.publish(topic, *batch, stored=len(batch), compacted=0)
    repeats = [(key, trial.payload()) for key in different[:7]]
    await client.publish(topic, *repeats, stored=0, compacted=7)
    await client.publish(topic, (b"", b"x"), stored=1, compacted=0)


@STAGE.check(
    "with a window of 0, the default, nothing is dropped",
    hint="Off means off: also for two messages of one batch, which have the same time.",
    how="A window of 0 ends when it begins: now < now + 0 is never true. If your rule is different, ask for 0 first.",
    where="tutorial/tiny_broker.py, `Topic.publish`: `now < end` with end = now + 0 drops nothing, without a special "
    "case.",
    sentences="compaction.6",
)
async def off(trial: Trial) -> None:
    """The same key, many times; the same key in two topics, one of them with a window."""
    client = await trial.client()
    batch = [(b"k", trial.payload()) for _ in range(3)]
    await client.create(trial.topic(), {WINDOW: 0})
    await client.create(trial.topic("on"), {WINDOW: FOREVER})
    await client.publish(trial.topic("on"), batch[0], stored=1)
    for _ in range(2):
        await client.publish(trial.topic(), *batch, stored=3, compacted=0)


@STAGE.check(
    "a window lasts its length from its first message; repeats do not prolong it",
    hint="Set the window's end when a message is stored, and only then. The setting is in milliseconds.",
    sentences="compaction.1 compaction.2",
)
async def ends(trial: Trial) -> None:
    """800 ms: a repeat at about 450 is dropped, the next at 1000 is stored, as after a prolonged window it is not."""
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
    hint="Windows do not depend on the ring: evicting a message must not forget its key.",
    how="Two structures: messages, which capacity bounds, and windows, which only time ends. Evicting touches the "
    "first one alone.",
    where="tutorial/tiny_broker.py: `Topic.publish` deletes from `ring`; only `Broker.sweep` takes from `windows`, "
    "what has closed.",
    sentences="ring.1 compaction.7",
)
async def evicted(trial: Trial) -> None:
    """A ring of two, pushed out by others."""
    client, topic = await trial.making({WINDOW: FOREVER, CAPACITY: 2})
    await client.publish(topic, (b"k", b"first"), stored=1)
    await client.publish_singly(topic, [(b"other %d" % index, b"") for index in range(4)], stored=1)
    await client.publish(topic, (b"k", b"repeat"), first_offset=5, stored=0, compacted=1)


@STAGE.check(
    "a window is as long as it says, by the broker's own clock",
    hint="[t, t + window): at its very end the next message is stored. Look at each publish; round nothing.",
    sentences="compaction.1 compaction.2 time.1 time.3",
)
async def exactly(trial: Trial) -> None:
    """Repeats come again and again. A publish before and behind each of them tells the time at which it was judged."""
    client, topic = await trial.client(), trial.topic()
    ticks = await Ticks.of(trial, client)
    await client.create(topic, {WINDOW: WINDOW_MS, TTL: FOREVER})
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
    client, topic = await trial.making({WINDOW: FOREVER, MAX_KEYS: 3})

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
            told = {"stored": len(batch) if stored else 0, "compacted": 0 if stored else len(batch)}
            await client.publish(many, *batch, **told)


@STAGE.check(
    "a batch that is refused opens no windows",
    hint="Judge the size of a batch before you look at its keys.",
    sentences="publish.4 compaction.1",
)
async def refused(trial: Trial) -> None:
    """Three keys for a ring of two, then one by one."""
    client, topic = await trial.making({WINDOW: FOREVER, CAPACITY: 2})
    batch = [(key, b"") for key in (b"a", b"b", b"c")]
    await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=batch)
    await client.publish_singly(topic, batch, first_offset=0, stored=1)
    repeats = [(b"a", b"")] * 3  # it counts as it arrives, also what would be dropped
    await client.refused("BATCH_TOO_LARGE", "Publish", topic=topic, batch=repeats)


@STAGE.check(
    "dropped has a bit for each message, in as many bytes as that takes",
    hint="(count + 7) // 8 bytes: 1 for 8 messages, 2 for 9. Long keys are compared to their ends.",
    sentences="published.1 published.2 published.3 compaction.5",
)
async def bits(trial: Trial) -> None:
    """All but the first of 1, 7, 8, 9, 16 and 17 messages with one key; long keys that differ in the last byte."""
    client, topic = await trial.making({WINDOW: FOREVER})
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
    await client.create(topic, {WINDOW: window, MAX_KEYS: 2})
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
    await client.create(topic, {WINDOW: FOREVER, TTL: FOREVER, MAX_BYTES: 4 * size})
    await client.publish(topic, message, stored=1)
    for offset, head in ((1, 0), (2, 0), (3, 0), (4, 1)):
        other = (bytes([offset]), bytes(100))
        await client.publish(topic, message, other, first_offset=offset, stored=1, compacted=1)
        subscription = await client.subscribe(topic, expect={"start": head})
        await client.ok("Unsubscribe", subscription=subscription)
