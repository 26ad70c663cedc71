"""Servers with durable topics, on a disk that a test can hold, fill and break; and a client."""

import threading
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from framed import Client
from peer import GUARD

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.net.listener import Listener
from zaichik.server.server import Server
from zaichik.storage.disk import DiskFull, PosixDisk, StorageFailed
from zaichik.storage.restoring import restore
from zaichik.storage.store import TOPICS, Store
from zaichik_protocol import DURABLE, Hello

START_US = 1_700_000_000_000_000


class TamedDisk(PosixDisk):
    """A disk whose writes wait while it is held, and fail on request.

    Attributes:
        failure: raised by each write.
        writes: how many have begun.
    """

    def __init__(self, root):
        (root / TOPICS).mkdir(parents=True, exist_ok=True)
        super().__init__(root, reserve=0)
        self.failure = None
        self.writes = 0
        self._may_write = threading.Event()
        self._may_write.set()

    def hold(self):
        self._may_write.clear()

    def let_go(self):
        self._may_write.set()

    def write(self, path, at, pieces):
        self._check(path)
        super().write(path, at, pieces)

    def replace(self, path, data):
        self._check(path)
        super().replace(path, data)

    def _check(self, path):
        self.writes += 1
        assert self._may_write.wait(GUARD), "the disk was held for too long"
        if self.failure is not None:
            raise self.failure(path)


FULL, BROKEN = DiskFull, StorageFailed


@asynccontextmanager
async def server_on(disk, *, port=0, settings=None, clock=None):
    """A server that runs; it is stopped at the end of the block, which waits for its end."""
    store = await to_thread.run_sync(Store, disk)
    broker = Broker(settings, clock or ManualClock(max(START_US, store.clock_us)), logs=store)
    restore(broker, store)
    server = Server(broker, await Listener.open("127.0.0.1", port), store)
    with anyio.fail_after(2 * GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            try:
                yield server
            finally:
                disk.let_go()
                server.stop()


@asynccontextmanager
async def client_of(server, features=DURABLE):
    async with await anyio.connect_tcp(server.host, server.port) as stream:
        client = Client(stream)
        await client.ask(Hello(1, features=features))
        yield client
