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

from zaichik.learn.layouts import CAPACITY, FOREVER, TTL, WINDOW
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

# A window; a repeat inside it, and until when it surely is; a moment after its end that a prolonged window would still
# cover, and for how long after the repeat that surely holds.
WINDOW_S, REPEAT_S, SURELY_INSIDE_S, AFTER_S, SURELY_PROLONGED_S = 0.8, 0.45, 0.65, 1.0, 0.75

STAGE = Stage.told(__doc__, chapter=11)


@STAGE.check(
    "of one key in one batch the first message is stored, and the publisher is told which were not",
    hint="dropped is a bitmap over the batch's messages; first_offset and offsets count only what was stored.",
    sentences="bytes.6 published.1 published.2 published.3 publish.1 compaction.3 compaction.6",
)
async def in_one_batch(trial: Trial) -> None:
    """Eleven messages, so that the bitmap has two bytes."""
    client = await trial.client()
    await client.ok("CreateTopic", topic=trial.topic(), settings={WINDOW: FOREVER, TTL: FOREVER})
    keys = [b"a", b"b", b"a", b"", b"b", b"c", b"a", b"", b"c", b"a", b"d"]
    batch = [(key, b"%d" % index) for index, key in enumerate(keys)]
    kept = [0, 1, 3, 5, 7, 10]
    dropped = sum(1 << index for index in range(len(keys)) if index not in kept).to_bytes(2, "little")
    told = {"first_offset": 0, "stored": len(kept), "compacted": len(keys) - len(kept), "dropped": dropped}
    await client.publish(trial.topic(), *batch, **told)
    subscription = await client.subscribe(trial.topic())
    await client.messages(subscription, 0, [batch[index] for index in kept])


@STAGE.check(
    "a repeat is dropped whoever sends it, and takes no offset",
    hint="Windows belong to the topic. If all of a batch is dropped, first_offset is the next offset to come.",
    sentences="published.2 compaction.2 compaction.4",
)
async def across(trial: Trial) -> None:
    """Two publishers, one reader."""
    one, two, reader = [await trial.client() for _ in range(3)]
    await one.ok("CreateTopic", topic=trial.topic(), settings={WINDOW: FOREVER})
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
    client = await trial.client()
    await client.ok("CreateTopic", topic=trial.topic(), settings={WINDOW: FOREVER})
    different = [b"a", b"A", b"a ", b"a\0", b"\xff", b"\xfe", b"\xc3", b"", b"", b""]
    batch = [(key, trial.payload()) for key in different]
    await client.publish(trial.topic(), *batch, stored=len(batch), compacted=0)
    repeats = [(key, trial.payload()) for key in different[:7]]
    await client.publish(trial.topic(), *repeats, stored=0, compacted=7)
    await client.publish(trial.topic(), (b"", b"x"), stored=1, compacted=0)


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
    await client.ok("CreateTopic", topic=trial.topic(), settings={WINDOW: 0})
    await client.ok("CreateTopic", topic=trial.topic("on"), settings={WINDOW: FOREVER})
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
    await client.ok("CreateTopic", topic=trial.topic(), settings=window)
    asked = trial.elapsed
    await client.publish(trial.topic(), (b"k", b"first"), stored=1)
    answered = trial.elapsed
    await client.ok("CreateTopic", topic=trial.topic("forever"), settings={WINDOW: FOREVER})
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
    "a winner that has left the ring still keeps its window closed",
    hint="Ring and windows do not know of each other: evicting a message must not forget its key.",
    how="Two structures: messages, which capacity bounds, and windows, which only time ends. Evicting touches the "
    "first one alone.",
    where="tutorial/tiny_broker.py: `Topic.publish` deletes from `ring`; only `Broker.sweep` takes from `windows`, "
    "what has closed.",
    sentences="ring.1 compaction.7",
)
async def evicted(trial: Trial) -> None:
    """A ring of two, pushed out by others."""
    client = await trial.client()
    await client.ok("CreateTopic", topic=trial.topic(), settings={WINDOW: FOREVER, CAPACITY: 2})
    await client.publish(trial.topic(), (b"k", b"first"), stored=1)
    for index in range(4):
        await client.publish(trial.topic(), (b"other %d" % index, b""), stored=1)
    await client.publish(trial.topic(), (b"k", b"repeat"), first_offset=5, stored=0, compacted=1)
