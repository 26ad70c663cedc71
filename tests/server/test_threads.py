"""The event loop's thread never waits for a disk: whatever is asked of a log is asked in another
thread (DUR-6).
"""

import inspect
import threading
from datetime import UTC, datetime

import anyio
import pytest

import zaichik
from zaichik.server.server import Server
from zaichik.storage import store
from zaichik.storage.disk import PosixDisk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patchable")]

SMALL = {"durable": True, "capacity": 10, "log_bytes": 1 << 20, "segment_bytes": 1 << 16}
METHODS = {
    name
    for name, _ in inspect.getmembers(PosixDisk, inspect.isfunction)
    if not name.startswith("_")
}


@pytest.fixture
def called(monkeypatch):
    """What was asked of the disk; the thread of the event loop may not."""
    names, forbidden = set(), threading.current_thread()

    def watched(name, method):
        def watch(*arguments):
            names.add(name)
            if threading.current_thread() is forbidden:
                raise AssertionError(f"{name} was called in the event loop's thread")
            return method(*arguments)

        return watch

    for name in METHODS:
        monkeypatch.setattr(PosixDisk, name, watched(name, getattr(PosixDisk, name)))
    for name in ("exclusive_lock", "sync_folder"):
        monkeypatch.setattr(store, name, watched(name, getattr(store, name)))
    return names


async def served(data, work):
    """Start a server with that folder, work with it, and stop it."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            server = await Server.listening("127.0.0.1", 0, data=data)
            tasks.start_soon(server.run)
            async with zaichik.connect(port=server.port, reconnect=0) as client:
                await work(client, server.broker)
            server.stop()


async def first_run(client, broker):
    """Files begin and go, and a reader is behind what is in memory."""
    await client.create_topic("small", retention_ttl=3600, **SMALL)
    await client.create_topic("keys", compaction_window=60, **SMALL)
    await client.create_topic("gone", **SMALL)
    await client.publish("gone", b"one")
    began = None
    for number in range(40):
        await client.publish("small", b"%d." % number * 10_000)
        result = await client.publish_batch("keys", [(b"key", b"%d" % number)])
        assert result.compacted == (number > 0)
    async with client.subscribe("small", name="reader", start="earliest", until=40) as subscription:
        async for message in subscription:
            began = began or message.timestamp
    async with client.subscribe("small", start=datetime.fromtimestamp(began, UTC)) as subscription:
        assert await anext(subscription)
    broker.sweep()  # positions and checkpoints
    await client.delete_topic("gone")
    assert len(await client.topics()) == 2


async def second_run(client, broker):
    assert [topic["name"] for topic in await client.topics()] == ["keys", "small"]
    broker.sweep()
    async with client.subscribe("small", start="earliest", until=40) as subscription:
        async for message in subscription:
            assert isinstance(message, zaichik.Message)


async def test_no_log_is_touched_by_the_event_loops_thread(tmp_path, called):
    """From the start to the end of the stop."""
    await served(tmp_path, first_run)
    await served(tmp_path, second_run)
    assert called == METHODS | {"exclusive_lock", "sync_folder"}


async def test_a_call_there_would_be_seen(tmp_path, called):
    with pytest.raises(AssertionError, match="files was called in the event loop's thread"):
        PosixDisk(tmp_path).files("")
    assert called == {"files"}
