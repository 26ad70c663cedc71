"""S16, continued: a durable table after SIGKILL and a restart with the same folder."""

from zaichik.learn.connection import Pair
from zaichik.learn.layouts import KEPT, TABLE, TABLES
from zaichik.learn.stages.s16_explaining import STAGE as STAGE
from zaichik.learn.stages.s16_killed import first_life, next_life
from zaichik.learn.stages.s17_full import store
from zaichik.learn.stages.s17_tables import late, readable
from zaichik.learn.trial import Trial

BATCHES, LIVES, KEYS = 6, 3, 4


@STAGE.check(
    "a durable table has the newest message of each key after kill -9, deleted keys stay deleted",
    hint="Superseding is a fold over the log: read it from its beginning, and do with each message "
    "what you did when it came. A tombstone is a message.",
    how="Read the log twice: first for the newest offset of each key, then for the messages that "
    "have one of these.",
    where="zaichik/storage/cleaning/loading.py: `load` makes the table again, and "
    "zaichik/storage/cleaning/rewriting.py leaves out what was superseded.",
    sentences="durable.5 durable.6 table.4 table.5 table.12 table.20 table.21",
    once=True,
)
async def table_comes_back(trial: Trial) -> None:
    """A few keys, changed and deleted in three lives; a reader that comes late in each."""
    topic = trial.topic()
    async with first_life(trial) as (server, first):
        frame = await first.ask_optional(
            "CreateTopic",
            "durable tables",
            unless="settings",
            topic=topic,
            settings={TABLE: 1, KEPT: 1},
        )
        first.must_be(frame, "TopicCreated", created=1)
        published: list[Pair] = []
        for _ in range(LIVES):
            client = await trial.client(server.target, features=TABLES)
            for _ in range(BATCHES):
                key = b"key %d" % trial.rng.randrange(KEYS)
                batch = [trial.message(key), trial.message(b"other"), (b"gone", b"")]
                await store(client, topic, *batch, at=len(published))
                published += batch
            await late(client, topic, readable(published))
            await next_life(trial, server)
            client = await trial.client(server.target, features=TABLES)
            await late(client, topic, readable(published), epoch=frame["epoch"])
