"""A server's persistence: a start that fails, and what an end leaves on the disk."""

import logging

import pytest
from owners import with_topics
from sim_disk import SimDisk

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.server.bugs import Bugs
from zaichik.server.persistence import Persistence, persistence_of
from zaichik.server.server import Server
from zaichik.storage.disk import StorageFailed
from zaichik.storage.store import CLOCK, Store
from zaichik.storage.topic_log import TopicLog

pytestmark = pytest.mark.anyio


async def stored():
    """The persistence of a server with a topic, and its disk."""
    disk = SimDisk()
    store = Store(disk)
    await with_topics(store, "orders")
    return persistence_of(Broker(logs=store), store, bugs()), disk


def bugs():
    return Bugs(logging.getLogger("zaichik.test"), ManualClock().now_us)


def fail(*_, **__):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "step", ["persistence.Broker", "persistence.restore", "server.refused_sockets"]
)
async def test_a_start_that_fails_lets_the_folder_and_the_address_go(tmp_path, monkeypatch, step):
    """Or else the next start in this process would blame another broker for it."""
    server = await Server.listening("127.0.0.1", 0)
    await server.aclose()
    with monkeypatch.context() as patch:
        patch.setattr(f"zaichik.server.{step}", fail)
        with pytest.raises(ZeroDivisionError):
            await Server.listening("127.0.0.1", server.port, data=tmp_path)
    again = await Server.listening("127.0.0.1", server.port, data=tmp_path)
    await again.aclose()


async def test_an_orderly_stop_writes_the_time_for_the_next_start():
    persistence, disk = await stored()
    await persistence.close()
    persistence.check()
    assert CLOCK in disk.content


async def test_after_a_failure_nothing_is_written_at_the_end():
    """DUR-6: it would take the place of what was lost."""
    persistence, disk = await stored()
    calls = len(disk.calls)
    persistence._threads.give_up(5)
    await persistence.close()
    assert len(disk.calls) == calls
    with pytest.raises(StorageFailed, match="the disk has not answered for 5 s"):
        persistence.check()


@pytest.mark.usefixtures("patchable")
async def test_a_stop_has_nothing_rewritten_any_more(monkeypatch):
    """DUR-10: that may take long, and a stop waits only for what was accepted (DUR-6)."""
    persistence, _ = await stored()
    asked = []
    monkeypatch.setattr(TopicLog, "stop_cleaning", lambda log: asked.append(log))
    await persistence.drain()
    assert len(asked) == 1


async def test_a_server_without_a_folder_keeps_nothing_and_waits_for_nothing():
    persistence = persistence_of(Broker(), None, bugs())
    assert type(persistence) is Persistence
    await persistence.run(lambda: None)
    await persistence.drain()
    await persistence.close()
    persistence.release()
    persistence.check()
