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
    with tarfile.open(HERE / f"written_by_{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="tar")
    facts = json.loads((HERE / f"written_by_{request.param}.json").read_text(encoding="utf-8"))
    return tmp_path / "data", facts["about"], facts["topics"]


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
    assert "0.2.0" in VERSIONS


def test_a_check_calls_it_whole_and_changes_nothing(archive):
    data, _, topics = archive
    before = content(data)
    found = checked(data)
    assert content(data) == before
    assert sorted(found) == sorted(topics)
    messages = {name: told["messages"] for name, told in found.items()}
    assert messages == {name: len(each) for name, each in topics.items()}


@pytest.mark.anyio
async def test_a_broker_finds_exactly_what_is_in_it(archive):
    data, about, topics = archive
    async with running(data, about) as client:
        for name, messages in topics.items():
            settings = about["settings"][name]
            topic = await client.create_topic(name, **settings)
            assert not topic.created
            found = [as_told(it) for it in await read(client, name, len(messages))]
            assert found == messages
    checked(data)


@pytest.mark.anyio
async def test_a_named_subscription_goes_on_where_it_was(archive):
    data, about, topics = archive
    async with running(data, about) as client:
        for topic, positions in about["positions"].items():
            for name, committed in positions.items():
                following = [it for it in topics[topic] if it["offset"] >= committed]
                found = await read(client, topic, len(following), name=name)
                assert [as_told(it) for it in found] == following
                assert following


@pytest.mark.anyio
async def test_a_producer_goes_on_with_its_numbers(archive):
    data, about, topics = archive
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
async def test_compaction_windows_are_still_open(archive):
    data, about, topics = archive
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
