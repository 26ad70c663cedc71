"""S16, continued: what a broker says about itself, and what became of messages."""

import json
from base64 import b64decode
from typing import Any

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.layouts import CAPACITY, ERROR_CODES, FOREVER, TTL, TYPES, WINDOW
from zaichik.learn.stages.s16_clock import STAGE as STAGE
from zaichik.learn.trial import Trial

TO_COME = 2**63  # a time, µs since 1970
LONGEST_KEY = 1024
FIELDS = {"fate", "rule", "text", "next", "evidence"}
BROKER, SUBSCRIPTIONS, COUNTERS, WINDOWS, MARKS, FURTHEST = 0, 2, 4, 5, 6, 7
ROWS = {
    BROKER: "boot",
    SUBSCRIPTIONS: "subscriptions",
    COUNTERS: "rows",
    WINDOWS: "windows",
    MARKS: "marks",
}
ROWS[FURTHEST] = "subscriptions"
STORED, ROOM = 5, 4


async def _explained(client: Connection, topic: str, **message: Any) -> dict[str, dict[str, Any]]:
    """The verdicts on a message, by fate, in order."""
    frame = await client.ask_optional("Explain", topic=topic, **message)
    client.must_be(frame, "Explained")
    try:
        verdicts = json.loads(frame["json"])["verdicts"]
        return {verdict["fate"]: {name: verdict[name] for name in FIELDS} for verdict in verdicts}
    except (ValueError, KeyError, TypeError):
        wanted = f"JSON with a list of verdicts, each with {', '.join(sorted(FIELDS))}"
        came = str(frame["json"])[:200]
        raise Failure("this is not an explanation", expected=wanted, came=came) from None


def _must_begin(verdicts: dict[str, dict[str, Any]], fate: str, what: str) -> None:
    if next(iter(verdicts), None) != fate:
        problem = f"the first verdict on {what} is wrong"
        raise Failure(problem, expected=fate, came=next(iter(verdicts), "none"))


def _must_have(verdicts: dict[str, dict[str, Any]], fate: str, what: str, **evidence: Any) -> None:
    came = verdicts.get(fate, {}).get("evidence", {})
    for name, value in evidence.items():
        if came.get(name) != value:
            problem = f"the verdict {fate} on {what} is missing, or its {name} is wrong"
            raise Failure(
                problem,
                expected=f"{name}: {value}",
                came=f"{list(verdicts)}, {name}: {came.get(name)}",
            )


@STAGE.check(
    "a broker that explains says what became of a message",
    hint="Compare the offset with the head and the next offset, then with each subscription's "
    "start, position and cursor.",
    how="Most of the answer is in what the broker keeps anyway. You need to remember only why the "
    "head moved, and some of what was dropped or refused.",
    where="zaichik/core/report/answer.py puts the verdicts in order; docs/use/explain.md lists the "
    "fates, each with its rule.",
    sentences="explain.1 explain.2 explain.3 explain.4 explain.5 explain.6 explain.7",
)
async def explains(trial: Trial) -> None:
    """Evicted, settled, in flight, waiting, kept out, never seen; then refused questions."""
    client, topic = await trial.client(), trial.topic()
    frame = await client.ask_optional("Explain", topic=trial.topic("nothing"))
    client.must_be_error(frame, "NO_SUCH_TOPIC", request_type=TYPES["Explain"], at="topic")
    settings = {CAPACITY: 3, TTL: FOREVER, WINDOW: FOREVER}
    await client.create(topic, settings, created=1)
    subscription = await client.subscribe(topic, credit=1)
    await client.publish_singly(topic, [(key, b"x") for key in (b"a", b"b", b"c")], first_offset=0)
    await client.publish(topic, (b"b", b"y"), first_offset=3, stored=0, compacted=1)
    await client.expect_messages(subscription, 0, [(b"a", b"x")])
    await client.commit(subscription, 1)
    await client.expect_messages(subscription, 1, [(b"b", b"x")])
    for offset, fate in enumerate(("settled", "in_flight", "waits_for_credit")):
        what = f"offset {offset}"
        verdicts = await _explained(client, topic, offset=offset)
        _must_begin(verdicts, "readable", what)
        _must_have(verdicts, fate, what, committed=1)
    verdicts = await _explained(client, topic, key=b"b")
    _must_have(verdicts, "kept_out", "a repeat of key b", winner=1)
    _must_begin(
        await _explained(client, topic, offset=3), "never_seen", "offset 3, which is the next"
    )
    _must_begin(await _explained(client, topic, key=b"none"), "never_seen", "a key that never was")
    await client.publish(topic, (b"", b"x"), first_offset=3)
    verdicts = await _explained(client, topic, offset=0)
    _must_begin(verdicts, "evicted", "offset 0, of a ring of 3 that now ends at 3")
    await client.expect_error(
        "INVALID_FIELD", "Explain", topic=topic, key=b"k" * (LONGEST_KEY + 1), at="key"
    )
    await client.expect_error(
        "INVALID_FIELD", "Explain", topic=topic, key=b"k", time=TO_COME, at="time"
    )
    await client.expect_error(
        "NO_SUCH_SUBSCRIPTION", "Explain", topic=topic, subscription="nobody", at="subscription"
    )


async def _page(client: Connection, kind: int, **fields: Any) -> dict[str, Any]:
    """A page, which must be the last one."""
    frame = await client.ask_optional("Describe", kind=kind, **fields)
    if frame.name == "Error" and (frame["code"], frame["field"]) == (
        ERROR_CODES["INVALID_FIELD"],
        "kind",
    ):
        raise Skipped("this broker does not describe itself for pictures, and need not")
    client.must_be(frame, "Described", more=0)
    try:
        page = dict(json.loads(frame["json"]))
        return {"rows": page[ROWS[kind]], "now_us": page["now_us"], "boot": page["boot"], **page}
    except (ValueError, KeyError, TypeError):
        wanted = f"a JSON object with {ROWS[kind]}, now_us and boot"
        raise Failure(
            f"a page of kind {kind} is wrong", expected=wanted, came=str(frame["json"])[:200]
        ) from None


def _must_describe(what: str, expected: Any, came: Any) -> None:
    if came != expected:
        problem = f"what Describe says about {what} is wrong"
        raise Failure(problem, expected=str(expected), came=str(came))


@STAGE.check(
    "a broker that describes itself for pictures describes the right messages and readers",
    hint="It is all there: windows from the newest on, batches, readers by what they need.",
    how="A picture is drawn ten times a second. Count nothing for it, and visit no more than fits "
    "on the page: 256 windows from the newest on, every n-th batch.",
    where="zaichik/core/report/describe.py, zaichik/core/report/rows.py; docs/use/describe.md "
    "lists the fields.",
    sentences="describe.4 describe.5 describe.6 describe.7 describe.8",
)
async def describes(trial: Trial) -> None:
    """Five batches, one without room; two readers; and a topic that doesn't exist."""
    client, topic = await trial.client(), trial.topic()
    await _page(client, COUNTERS, prefix=topic)  # skips if there is nothing to check
    of_broker = await _page(client, BROKER)
    await client.create(topic, {CAPACITY: ROOM, TTL: FOREVER, WINDOW: FOREVER})
    readers = [await client.subscribe(topic, credit=1) for _ in range(2)]
    keys = [b"key %d" % number for number in range(STORED)]
    await client.publish_singly(topic, [(key, b"x") for key in keys], first_offset=0)
    await client.publish(topic, (keys[0], b"y"), stored=0, compacted=1)
    for subscription in readers:
        await client.expect_messages(subscription, 0, [(keys[0], b"x")])
    await client.commit(readers[0], 1)
    await client.expect_messages(readers[0], 1, [(keys[1], b"x")])
    page = await _page(client, COUNTERS, prefix=topic)
    _must_describe("boot, with its counters", of_broker["boot"], page["boot"])
    columns = (
        "name",
        "head",
        "next_offset",
        "published",
        "compacted",
        "evicted",
        "needed",
        "capacity",
    )
    counted = [dict(zip(page["columns"], row, strict=False)) for row in page["rows"]]
    came = [[row.get(name) for name in columns] for row in counted]
    _must_describe(
        f"the counters {', '.join(columns)}", [[topic, 1, STORED, STORED + 1, 1, 1, 1, ROOM]], came
    )
    windows = (await _page(client, WINDOWS, prefix=topic, limit=STORED - 1))["rows"]
    _must_describe(
        "its windows, the newest first", keys[:0:-1], [b64decode(key) for key, _ in windows]
    )
    marks = (await _page(client, MARKS, prefix=topic, limit=2))["rows"]
    _must_describe(
        "its marks, the oldest batch and the newest",
        [1, STORED - 1],
        [offset for offset, _ in marks],
    )
    furthest = (await _page(client, FURTHEST, prefix=topic, limit=9))["rows"]
    _must_describe(
        "its readers, the furthest behind first", readers[::-1], [row["id"] for row in furthest]
    )
    listed = (await _page(client, SUBSCRIPTIONS, prefix=topic))["rows"]
    _must_describe("its readers, as of kind 2", sorted(listed, key=str), sorted(furthest, key=str))
    for kind in (WINDOWS, MARKS, FURTHEST):
        rows = (await _page(client, kind, prefix=trial.topic("nothing")))["rows"]
        _must_describe("a topic that does not exist", [], rows)
