"""S17, continued: a random history, after which every reader has the same table."""

import anyio

from zaichik.learn.connection import Connection, Pair
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import FOREVER, TOMBSTONES_MS
from zaichik.learn.notation import message as shown
from zaichik.learn.stages.s17_full import store
from zaichik.learn.stages.s17_tables import knowing, late, make_table, read_table, readable
from zaichik.learn.stages.s17_tombstones import STAGE as STAGE
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Message

BATCHES, LARGEST, KEYS = 60, 8, 12
END = (b"", b"the end")
CREDITS = (1, 3, 1000)


def _random_message(trial: Trial) -> Pair:
    """A value or a tombstone of one of a few keys, or a message without a key."""
    key = b"" if trial.rng.random() < 0.1 else b"key %d" % trial.rng.randrange(KEYS)
    if key and trial.rng.random() < 0.2:
        return key, b""
    return key, trial.payload()


async def _read(
    trial: Trial, reader: Connection, subscription: int, credit: int, came: list[Message]
) -> None:
    """Read up to the end, and commit now and then, somewhere in what is in flight."""
    committed = 0
    while not came or (came[-1].key, came[-1].payload) != END:
        came += await reader.next_messages(subscription)
        following = came[-1].offset + 1
        in_flight = sum(message.offset >= committed for message in came)
        if in_flight < credit:
            following = trial.rng.randint(committed, following)
        await reader.commit(subscription, following)
        committed = max(committed, following)


def _must_be_all(came: list[Message], published: list[Pair], credit: int) -> None:
    """Check what a reader got: in order, as published, and all that nothing has superseded."""
    who = f"the reader with credit {credit}"
    before = -1
    for message in came:
        if message.offset <= before:
            raise Failure(f"{who} got offset {message.offset} after {before}")
        before = message.offset
        if published[message.offset] != (message.key, message.payload):
            expected = shown(Message(message.offset, *published[message.offset]))
            problem = f"{who} got a message that was not published like this"
            raise Failure(problem, expected=expected, came=shown(message))
    got = {message.offset for message in came}
    for row in readable(published):
        if row[0] not in got:
            problem = f"{who} did not get a message that nothing has superseded"
            raise Failure(problem, expected=shown(Message(*row)), came="nothing")


@STAGE.check(
    "after any changes, readers with little credit and latecomers have the same table",
    hint="What is passed over must have been superseded, and by a message that still comes.",
    how="Write the plainest table that you can think of, a list and a loop, and let random batches "
    "go to both. Compare what a late reader gets after each.",
    where="docs/understand/semantics.md, TAB-2: what a reader may pass, and when. This check looks "
    "at the end only; it cannot know what had been superseded when a reader was there.",
    sentences="start.5 fair.1 credit.5 table.4 table.5 table.6 table.12",
)
async def changes(trial: Trial) -> None:
    """Sixty batches of values, tombstones, and messages without a key; four readers."""
    client, topic = await knowing(trial), trial.topic()
    await make_table(client, topic, {TOMBSTONES_MS: FOREVER})
    came: dict[int, list[Message]] = {}
    published: list[Pair] = []
    async with anyio.create_task_group() as tasks:
        for credit in CREDITS:
            reader = await knowing(trial)
            subscription = await read_table(reader, topic, credit=credit)
            came[credit] = []
            tasks.start_soon(_read, trial, reader, subscription, credit, came[credit])
        for _ in range(BATCHES):
            size = trial.rng.randint(1, LARGEST)
            batch = [_random_message(trial) for _ in range(size)]
            await store(client, topic, *batch, at=len(published))
            published += batch
        await store(client, topic, END, at=len(published))
        published.append(END)
    for credit in CREDITS:
        _must_be_all(came[credit], published, credit)
    await late(client, topic, readable(published))
