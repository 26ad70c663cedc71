"""S16, continued: what a broker tells those who draw pictures of it."""

import json
from base64 import b64decode
from typing import Any

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failed, Skipped
from zaichik.learn.layouts import CAPACITY, ERROR_CODES, FOREVER, TTL, WINDOW
from zaichik.learn.stages.s16_explaining import STAGE as STAGE
from zaichik.learn.stages.s16_options import skip_if_unsupported
from zaichik.learn.trial import Trial

BROKER, SUBSCRIPTIONS, COUNTERS, WINDOWS, MARKS, FURTHEST = 0, 2, 4, 5, 6, 7
ROWS = {BROKER: "boot", SUBSCRIPTIONS: "subscriptions", COUNTERS: "rows", WINDOWS: "windows", MARKS: "marks"}
ROWS[FURTHEST] = "subscriptions"
STORED, ROOM = 5, 4


async def _page(client: Connection, kind: int, **fields: Any) -> dict[str, Any]:
    """A page, which must be the last one."""
    frame = await client.ask("Describe", kind=kind, **fields)
    skip_if_unsupported(frame, "Describe")
    if frame.name == "Error" and (frame["code"], frame["field"]) == (ERROR_CODES["INVALID_FIELD"], "kind"):
        raise Skipped("this broker tells nothing for pictures, and need not")
    client.must_be(frame, "Described", more=0)
    try:
        page = dict(json.loads(frame["json"]))
        return {"rows": page[ROWS[kind]], "now_us": page["now_us"], "boot": page["boot"], **page}
    except (ValueError, KeyError, TypeError):
        wanted = f"a JSON object with {ROWS[kind]}, now_us and boot"
        raise Failed(f"a page of kind {kind} is wrong", expected=wanted, came=str(frame["json"])[:200]) from None


def _must_tell(what: str, expected: Any, came: Any) -> None:
    if came != expected:
        raise Failed(f"what Describe says of {what} is wrong", expected=str(expected), came=str(came))


@STAGE.check(
    "a broker that tells what pictures need tells it of the right messages and readers",
    hint="All of it is there already: the table of windows from its end, the batches, the readers by what they need.",
    how="A picture is asked for ten times a second. Count nothing for it, and go through what is there only as far as "
    "the page is long: 256 windows from the newest on, every n-th batch.",
    where="zaichik/observing/describe.py, zaichik/observing/rows.py; docs/describe.md lists the fields.",
    sentences="describe.4 describe.5 describe.6 describe.7 describe.8",
)
async def looks(trial: Trial) -> None:
    """Five batches, of which one has no room; three readers; and a topic that is not there."""
    client, topic = await trial.client(), trial.topic()
    await _page(client, COUNTERS, prefix=topic)  # or else there is nothing to check
    of_broker = await _page(client, BROKER)
    await client.ok("CreateTopic", topic=topic, settings={CAPACITY: ROOM, TTL: FOREVER, WINDOW: FOREVER})
    readers = [await client.subscribe(topic, credit=1) for _ in range(2)]
    keys = [b"key %d" % number for number in range(STORED)]
    for offset, key in enumerate(keys):
        await client.publish(topic, (key, b"x"), first_offset=offset)
    await client.publish(topic, (keys[0], b"y"), stored=0, compacted=1)
    for subscription in readers:
        await client.messages(subscription, 0, [(keys[0], b"x")])
    await client.commit(readers[0], 1)
    await client.messages(readers[0], 1, [(keys[1], b"x")])
    page = await _page(client, COUNTERS, prefix=topic)
    _must_tell("boot, with its counters", of_broker["boot"], page["boot"])
    columns = ("name", "head", "next_offset", "published", "compacted", "evicted", "needed", "capacity")
    counted = [dict(zip(page["columns"], row, strict=False)) for row in page["rows"]]
    came = [[row.get(name) for name in columns] for row in counted]
    _must_tell(f"the counters {', '.join(columns)}", [[topic, 1, STORED, STORED + 1, 1, 1, 1, ROOM]], came)
    windows = (await _page(client, WINDOWS, prefix=topic, limit=STORED - 1))["rows"]
    _must_tell("its windows, the newest first", keys[:0:-1], [b64decode(key) for key, _ in windows])
    marks = (await _page(client, MARKS, prefix=topic, limit=2))["rows"]
    _must_tell("its marks, the oldest batch and the newest", [1, STORED - 1], [offset for offset, _ in marks])
    furthest = (await _page(client, FURTHEST, prefix=topic, limit=9))["rows"]
    _must_tell("its readers, the furthest behind first", readers[::-1], [row["id"] for row in furthest])
    listed = (await _page(client, SUBSCRIPTIONS, prefix=topic))["rows"]
    _must_tell("its readers, as of kind 2", sorted(listed, key=str), sorted(furthest, key=str))
    for kind in (WINDOWS, MARKS, FURTHEST):
        _must_tell("what is not there", [], (await _page(client, kind, prefix=trial.topic("nothing")))["rows"])
