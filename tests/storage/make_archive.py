"""Makes a folder of durable topics with the zaichik that is installed, and keeps it for later ones.

    git archive v0.3.0 | tar -x -C /tmp/that
    PYTHONPATH=/tmp/that:/tmp/that/protocol python tests/storage/make_archive.py 0.3.0

It writes two files beside itself, `written_by_0.3.0.tar.xz` and `written_by_0.3.0.json`: the
folder, with its modes and its empty folders; and what is in it, as the broker that wrote it has
answered. `test_archives.py` opens every archive with the broker of today. So only the public
interface is used here: this has to run with any zaichik that has tables and shared names. (What
`0.2.0` has was written before there were any, and by an earlier version of this program.)
"""

import json
import shutil
import sys
import tarfile
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from zaichik import ManualClock, connect, running_broker

START_US = 1_700_000_000_000_000
PRODUCER = 0x5EED_0000_0000_0001
KIB = 1024
HERE = Path(__file__).parent
KEPT = {"durable": True, "retention_ttl": "forever"}
TOPICS = {
    "empty": KEPT,
    "events": {**KEPT, "segment_bytes": 64 * KIB},
    "mended": KEPT,
    "sensors": {**KEPT, "compaction_window": 3600},
    "short": {**KEPT, "log_bytes": 1024 * KIB, "segment_bytes": 128 * KIB},
    "jobs": KEPT,
    "prices": {**KEPT, "table": True, "segment_bytes": 64 * KIB},
    "stock": {**KEPT, "table": True},
}


async def make(data):
    """Fills the folder, in three runs of the broker. Returns what is in it."""
    clock = ManualClock(START_US)
    facts = {"settings": TOPICS, "positions": {}, "producers": {}, "shared": {}}

    async with running(data, clock) as client:
        await client.create_topic("removed", **KEPT)
        await client.publish("removed", b"soon gone")
        await client.delete_topic("removed")
        for name, settings in TOPICS.items():
            await client.create_topic(name, **settings)
        await publish(client, clock, "events", 0, 60, size=2000)
        await publish(client, clock, "mended", 0, 30)
        await publish(client, clock, "short", 0, 150, size=10_000)
        await publish_readings(client, clock)
        await publish(client, clock, "jobs", 0, 30)
        await publish(client, clock, "stock", 0, 30)
        # Five goods have one price only, which stays when the rest of its file goes.
        await publish_prices(client, clock, range(1), goods=25)
        await publish_prices(client, clock, range(1, 30))

    damage(data, b"mended 17.")
    damage(data, b"stock 26.")
    repair = [sys.executable, "-m", "zaichik", "check", "--repair", str(data)]
    await anyio.run_process(repair)

    async with running(data, clock) as client:
        await publish(client, clock, "events", 60, 120, size=2000)
        await publish_prices(client, clock, range(30, 60))
        await client.publish("prices", None, key=b"good 7")
        await rewritten(client, "prices")
        for number in range(5):
            pairs = [(b"key", f"numbered {number}".encode()), (None, b"")]
            result = await client.publish_batch("events", pairs, producer=PRODUCER, number=number)
            clock.advance(0.25)
        facts["producers"]["events"] = {
            "id": PRODUCER,
            "next": 5,
            "last": [result.first_offset, result.stored],
        }
        facts["positions"]["events"] = {
            "billing": await commit(client, "events", "billing", 75),
            "audit": await commit(client, "events", "audit", 3),
        }
        facts["positions"]["mended"] = {"reader": await commit(client, "mended", "reader", 20)}
        facts["ticket"] = max(
            await work(client, "jobs", "thumbs", by_key=False),
            await work(client, "jobs", "ordered", by_key=True),
            await work(client, "prices", "mirror", by_key=False),
        )

    async with running(data, clock) as client:
        await publish(client, clock, "mended", 30, 40)
        await publish_prices(client, clock, range(60, 61), goods=5)
        facts["now_us"] = clock.now_us()
        facts["topics"] = {name: await everything(client, name) for name in TOPICS}

    # Workers change what they are asked for.
    copy = data.with_name("copy")
    shutil.copytree(data, copy)
    async with running(copy, clock) as client:
        for topic, name in (("jobs", "thumbs"), ("jobs", "ordered"), ("prices", "mirror")):
            facts["shared"].setdefault(topic, {})[name] = await shared(client, topic, name)
    return facts


@asynccontextmanager
async def running(data, clock):
    """A broker in the folder, and a client of it, for a block; then an orderly stop."""
    async with (
        running_broker(data=data, clock=clock) as server,
        connect(f"{server.host}:{server.port}") as client,
    ):
        yield client


async def publish(client, clock, topic, first, after, size=200):
    """Publishes messages that name their topic and their offset, in batches of 1 to 3."""
    number = first
    while number < after:
        count = min(1 + number % 3, after - number)
        pairs = [
            (b"key %d" % (each % 7), f"{topic} {each}".ljust(size, ".").encode())
            for each in range(number, number + count)
        ]
        await client.publish_batch(topic, pairs)
        clock.advance(0.001)
        number += count


async def publish_readings(client, clock):
    """Publishes two readings of each sensor: the second one falls into the window of the first."""
    for round_ in range(2):
        for sensor in range(10):
            await client.publish("sensors", b"round %d" % round_, key=b"sensor %d" % sensor)
            clock.advance(1)


async def publish_prices(client, clock, rounds, goods=20):
    """Publishes the prices of some goods, again and again."""
    for round_ in rounds:
        for good in range(goods):
            payload = f"price {round_}".ljust(100, ".").encode()
            await client.publish("prices", payload, key=b"good %d" % good)
            clock.advance(0.001)


async def rewritten(client, table):
    """Waits until a file was rewritten without what was superseded: not before a checkpoint."""
    before = (await client.topic(table))["log_bytes"]
    with anyio.fail_after(60):
        while (await client.topic(table))["log_bytes"] >= before:  # noqa: ASYNC110 (of no event)
            await anyio.sleep(0.1)


async def work(client, topic, name, *, by_key):
    """Settles some messages of a shared name, each in another way. Returns the last ticket."""
    last = 0
    options = {"shared": True, "credit": 8, "max_deliveries": 3, "by_key": by_key}
    async with client.subscribe(topic, name=name, **options) as subscription:
        # What is kept is given back when the block is left, and comes again after a while.
        verdicts = ["done", "done", "reject", "retry", "done", "keep", "keep"]
        for verdict in verdicts:
            message = await anext(subscription)
            last = max(last, message.ticket)
            if verdict == "done":
                await message.done()
            elif verdict == "reject":
                await message.reject(f"no use for {message.offset}")
            elif verdict == "retry":
                await message.retry(after=3600, reason="not yet")
    return last


async def shared(client, topic, name):
    """Returns what a shared name has: counts, the dead, and what a worker is handed out now."""
    (row,) = [row for row in await client.subscriptions(topic) if row["session"] == name]
    counts = ("done", "dead", "open", "delayed", "forgotten", "due_us", "by_key", "max_deliveries")
    dead = [
        [message.offset, message.deliveries, round(message.died * 1e6), message.reason]
        for message in await client.dead(topic, name)
    ]
    handed_out = []
    options = {"shared": True, "credit": 1000, "max_deliveries": 3}
    options["by_key"] = row["shared"]["by_key"]
    async with client.subscribe(topic, name=name, **options) as subscription:
        with anyio.move_on_after(1):
            async for message in subscription:
                handed_out.append([message.offset, message.delivery])
                await message.done()
    return {
        "committed": row["committed"],
        "cursor": row["cursor"],
        "counts": {name: row["shared"][name] for name in counts},
        "dead": dead,
        "handed_out": handed_out,
    }


async def commit(client, topic, name, count):
    """Reads and commits that many messages under a name. Returns the position."""
    async with client.subscribe(topic, name=name) as subscription:
        for _ in range(count):
            message = await anext(subscription)
        await subscription.commit(message)
        return subscription.committed


async def everything(client, topic):
    """Returns all messages of a topic, their payloads without the dots at the end."""
    found = []
    async with client.subscribe(topic) as subscription:
        with anyio.move_on_after(1):
            async for message in subscription:
                text = message.payload.decode()
                row = {
                    "offset": message.offset,
                    "time_us": round(message.timestamp * 1e6),
                    "key": None if message.key is None else message.key.decode(),
                    "payload": text.rstrip("."),
                    "size": len(text),
                }
                found.append(row)
    return found


def damage(data, payload):
    """Spoils the record with that payload: its whole batch will be lost."""
    for path in data.rglob("*.log"):
        content = path.read_bytes()
        at = content.find(payload)
        if at >= 0:
            path.write_bytes(content[:at] + b"M" + content[at + 1 :])


def write(version, data, facts):
    """Writes the archive, and what is in it."""

    def entry(info):
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = START_US // 1_000_000
        return info

    with tarfile.open(HERE / f"written_by_{version}.tar.xz", "w:xz") as archive:
        archive.add(data, "data", filter=entry)
    topics = facts.pop("topics")
    rows = [
        f"  {json.dumps(name)}: [\n"
        + ",\n".join(f"    {json.dumps(message)}" for message in messages)
        + "\n  ]"
        for name, messages in topics.items()
    ]
    about = json.dumps(facts, indent=1)
    text = f'{{\n"about": {about},\n"topics": {{\n' + ",\n".join(rows) + "\n}}\n"
    (HERE / f"written_by_{version}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        DATA = Path(folder) / "data"
        FACTS = anyio.run(make, DATA)
        write(sys.argv[1], DATA, FACTS)
