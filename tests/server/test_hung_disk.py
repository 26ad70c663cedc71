"""A disk that does not answer: the broker can be stopped all the same (DUR-6)."""

import subprocess
import sys
import threading

import anyio
import pytest

import zaichik
from zaichik import BrokerSettings
from zaichik.server.server import Server
from zaichik.storage.disk import PosixDisk, StorageFailed

pytestmark = pytest.mark.anyio


@pytest.fixture
def hanging(monkeypatch):
    """Once this is cleared, no write comes back until it is set again."""
    answers = threading.Event()
    answers.set()
    write = PosixDisk.write

    def slowly(self, *arguments):
        answers.wait()
        write(self, *arguments)

    monkeypatch.setattr(PosixDisk, "write", slowly)
    yield answers
    answers.set()


async def publish(client, failures):
    try:
        await client.publish("orders", b"two")
    except zaichik.ConnectionLost as error:
        failures.append(str(error))


async def test_a_stop_waits_for_the_disk_no_longer_than_for_clients(tmp_path, hanging):
    server = await Server.listening(
        "127.0.0.1", 0, BrokerSettings(drain_timeout=0.2), data=tmp_path
    )
    failures, ends = [], []

    async def run():
        try:
            await server.run()
        except StorageFailed as failure:
            ends.append(str(failure))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        async with zaichik.connect(port=server.port, reconnect=0) as client:
            await client.create_topic("orders", durable=True)
            await client.publish("orders", b"one")
            hanging.clear()
            tasks.start_soon(publish, client, failures)
            while not server.broker.registry.durable("orders").retained.waiting_bytes:
                await anyio.lowlevel.checkpoint()
            server.stop()
            while not ends:
                await anyio.lowlevel.checkpoint()
        with pytest.raises(
            zaichik.CannotOpen, match="another broker uses"
        ):  # a thread may still write
            await Server.listening("127.0.0.1", 0, data=tmp_path)
        hanging.set()
    assert ends == ["the disk has not answered for 0.2 s"]
    assert "the disk of the broker has failed" in failures[0]


HANGING = """
import sys, threading
from pathlib import Path

import anyio
import zaichik
from zaichik import BrokerSettings
from zaichik.server.server import Server
from zaichik.storage.disk import PosixDisk, StorageFailed

async def run(server):
    try:
        await server.run()
    except StorageFailed as failure:
        print(failure)

async def main():
    settings = BrokerSettings(drain_timeout=0.1)
    server = await Server.listening("127.0.0.1", 0, settings, data=Path(sys.argv[1]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, server)
        async with zaichik.connect(port=server.port, reconnect=0) as client:
            await client.create_topic("orders", durable=True)
            PosixDisk.write = lambda *_: threading.Event().wait()
            try:
                with anyio.move_on_after(0.1):
                    await client.publish("orders", b"one")
            finally:
                server.stop()

anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_thread_that_hangs_does_not_keep_the_process_from_ending(tmp_path, backend):
    done = subprocess.run(
        [sys.executable, "-c", HANGING, str(tmp_path), backend],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "the disk has not answered for 0.1 s\n", done.stderr
