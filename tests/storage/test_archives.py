"""Folders that earlier versions have written: today's broker finds in them exactly what they had.

`make_archive.py` has made them, each with the code of its version. They are never made again.
"""

import json
import subprocess
import sys
import tarfile
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import zaichik

HERE = Path(__file__).parent
VERSIONS = [
    path.name.removeprefix("written_by_").removesuffix(".tar.xz")
    for path in sorted(HERE.glob("written_by_*.tar.xz"))
]


@pytest.fixture(params=VERSIONS)
def archive(request, tmp_path):
    """The folder, and what is in it."""
    return unpacked(request.param, tmp_path)


@pytest.fixture(params=[*VERSIONS, *(f"{version} without checkpoints" for version in VERSIONS)])
def logs(request, tmp_path):
    """As `archive`; and also one in which all that is known is in the records of the logs."""
    version, without, _ = request.param.partition(" without ")
    found = unpacked(version, tmp_path)
    if without:
        for checkpoint in tmp_path.rglob("*.state"):
            checkpoint.unlink()
    return found


def unpacked(version, folder):
    """Unpacks an archive there. Returns the folder, and what is in it."""
    with tarfile.open(HERE / f"written_by_{version}.tar.xz") as packed:
        packed.extractall(folder, filter="tar")
    facts = json.loads((HERE / f"written_by_{version}.json").read_text(encoding="utf-8"))
    return folder / "data", facts["about"], facts["topics"]


def checked(data):
    """What `zaichik check` says of each topic, if it calls the folder whole."""
    command = [sys.executable, "-m", "zaichik", "check", "--json", str(data)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return {topic["topic"]: topic for topic in map(json.loads, ended.stdout.splitlines())}


def content(data):
    """All files of the folder, with their modes."""
    return {
        path.relative_to(data): (path.stat().st_mode, path.is_file() and path.read_bytes())
        for path in data.rglob("*")
    }


def test_there_is_an_archive_of_each_version_that_could_write_one():
    # The first of them was made before there were tables and shared names.
    assert {"0.2.0", "0.2.0-format-2"} <= set(VERSIONS)


def test_a_check_calls_it_whole_and_changes_nothing(archive):
    data, about, topics = archive
    before = content(data)
    found = checked(data)
    assert content(data) == before
    assert sorted(found) == sorted(topics)
    for name, told in found.items():
        there = told["messages"]
        if about["settings"][name].get("table"):
            # Some of what was superseded is in the files still.
            assert there >= len(topics[name])
        else:
            assert there == len(topics[name])


@pytest.mark.anyio
async def test_a_broker_finds_exactly_what_is_in_it(logs):
    data, about, topics = logs
    async with running(data, about) as client:
        for name, messages in topics.items():
            settings = about["settings"][name]
            topic = await client.create_topic(name, **settings)
            assert not topic.created
            found = [as_told(it) for it in await read(client, name, len(messages))]
            assert found == messages
    checked(data)


@pytest.mark.anyio
async def test_a_named_subscription_goes_on_where_it_was(logs):
    data, about, topics = logs
    async with running(data, about) as client:
        for topic, positions in about["positions"].items():
            for name, committed in positions.items():
                following = [it for it in topics[topic] if it["offset"] >= committed]
                found = await read(client, topic, len(following), name=name)
                assert [as_told(it) for it in found] == following
                assert following


@pytest.mark.anyio
async def test_a_producer_goes_on_with_its_numbers(logs):
    data, about, topics = logs
    pairs = [(None, b"again"), (None, b"and again")]
    async with running(data, about) as client:
        for topic, known in about["producers"].items():
            last = known["next"] - 1
            result = await client.publish_batch(topic, pairs, producer=known["id"], number=last)
            assert [result.first_offset, result.stored] == known["last"]
            with pytest.raises(zaichik.SequenceGap):
                await client.publish_batch(topic, pairs, producer=known["id"], number=last + 2)
            new = await client.publish_batch(topic, pairs, producer=known["id"], number=last + 1)
            assert new.first_offset == topics[topic][-1]["offset"] + 1


@pytest.mark.anyio
async def test_a_shared_name_has_what_it_had(logs):
    """SHR-9: counts, the dead, and what is handed out; and no ticket is given again."""
    data, about, _ = logs
    async with running(data, about) as client:
        for topic, names in about.get("shared", {}).items():
            rows = {row["session"]: row for row in await client.subscriptions(topic)}
            for name, told in names.items():
                row = rows[name]
                assert (row["committed"], row["cursor"]) == (told["committed"], told["cursor"])
                counts = told["counts"]
                assert {count: row["shared"][count] for count in counts} == counts
                dead = [
                    [each.offset, each.deliveries, round(each.died * 1e6), each.reason]
                    for each in await client.dead(topic, name)
                ]
                assert dead == told["dead"]
                messages = await work(client, topic, name, counts, len(told["handed_out"]))
                assert [[it.offset, it.delivery] for it in messages] == told["handed_out"]
                assert min(it.ticket for it in messages) > about["ticket"]
    checked(data)


@pytest.mark.anyio
async def test_the_dead_of_a_shared_name_can_be_revived(archive):
    data, about, _ = archive
    async with running(data, about) as client:
        for topic, names in about.get("shared", {}).items():
            for name, told in names.items():
                dead = [offset for offset, *_ in told["dead"]]
                assert await client.revive(topic, name) == len(dead)
                expected = sorted([*dead, *(offset for offset, _ in told["handed_out"])])
                messages = await work(client, topic, name, told["counts"], len(expected))
                assert sorted(it.offset for it in messages) == expected


@pytest.mark.anyio
async def test_a_table_goes_on_with_its_keys(logs):
    """TAB-1: a new message supersedes the one that was there, in whichever file that is."""
    data, about, topics = logs
    tables = [name for name, settings in about["settings"].items() if settings.get("table")]
    for name in tables:
        first, *others = topics[name]
        async with running(data, about) as client:
            result = await client.publish(name, b"new", key=first["key"].encode())
            assert result.offset >= others[-1]["offset"] + 1
        # After another start, too.
        async with running(data, about) as client:
            *found, last = await read(client, name, len(topics[name]))
        assert [as_told(it) for it in found] == others
        assert (last.offset, last.payload) == (result.offset, b"new")
    checked(data)


@pytest.mark.anyio
async def test_compaction_windows_are_still_open(logs):
    data, about, topics = logs
    message, *_ = topics["sensors"]
    async with running(data, about) as client:
        again = await client.publish("sensors", b"", key=message["key"].encode())
        new = await client.publish("sensors", b"", key=b"a new sensor")
    assert again.compacted
    assert (new.compacted, new.offset) == (False, topics["sensors"][-1]["offset"] + 1)


@asynccontextmanager
async def running(data, about):
    """A broker in the folder, at the time when it was written, and a client of it."""
    clock = zaichik.ManualClock(about["now_us"])
    async with (
        zaichik.running_broker(data=data, clock=clock) as server,
        zaichik.connect(f"{server.host}:{server.port}") as client,
    ):
        yield client


async def read(client, topic, count, **more):
    """The first messages, that many, and whatever else there is."""
    found = []
    async with client.subscribe(topic, **more) as subscription:
        with anyio.fail_after(20):
            while len(found) < count:
                found.append(await anext(subscription))
        with anyio.move_on_after(0.05):
            found.append(await anext(subscription))
    return found


async def work(client, topic, name, counts, most):
    """The first messages that a worker of the name is handed out, at most that many; all done."""
    found = []
    agreed = {"max_deliveries": counts["max_deliveries"], "by_key": counts["by_key"]}
    async with client.subscribe(topic, name=name, shared=True, credit=most, **agreed) as worker:
        with anyio.fail_after(20):
            while len(found) < most:
                message = await anext(worker)
                found.append(message)
                await message.done()
    return found


def as_told(message):
    """A message as the archive tells of it."""
    text = message.payload.decode()
    return {
        "offset": message.offset,
        "time_us": round(message.timestamp * 1e6),
        "key": None if message.key is None else message.key.decode(),
        "payload": text.rstrip("."),
        "size": len(text),
    }
