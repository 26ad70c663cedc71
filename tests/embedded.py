"""A broker in another thread, for tests without an event loop.

Its clock moves when a test says so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal

import zaichik
from zaichik.learn.server import free_port

START_US = 1_700_000_000_000_000  # 14 November 2023, 22:13:20 UTC


class Embedded:
    """Calls into it.

    Attributes:
        clock: of the broker.
        address, port: where it is, also after it was stopped and started again.
    """

    def __init__(self, portal, clock, data):
        self.clock = clock
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._portal = portal
        self._data = data

    def start(self):
        """Start it."""
        running = zaichik.running_broker(port=self.port, clock=self.clock, data=self._data)
        self._running = self._portal.wrap_async_context_manager(running)
        self._server = self._running.__enter__()

    def stop(self):
        """Stop it in an orderly way; returns when it has gone."""
        self._running.__exit__(None, None, None)

    def sweep(self):
        """Have go what its time has ended, as it does each second."""
        self._portal.call(self._server.broker.sweep)

    def create(self, topic, **settings):
        """Make a topic that keeps everything, unless the settings say otherwise; its epoch."""
        return self._call("create_topic", topic, **{"retention_ttl": "forever"} | settings).epoch

    def delete(self, topic):
        """Delete a topic."""
        self._call("delete_topic", topic)

    def publish(self, topic, *batches):
        """Publish lists of (key, payload)."""
        return [self._call("publish_batch", topic, batch) for batch in batches]

    def topics(self, prefix=""):
        """The state of all whose names begin so."""
        return self._call("topics", prefix)

    def run(self, function):
        """Call a coroutine function of no arguments where the broker is."""
        return self._portal.call(function)

    def during(self, block):
        """Return a block in which the one that this function makes is open where the broker is."""
        return self._portal.wrap_async_context_manager(block())

    def subscriptions(self):
        """The state of all."""
        return self._call("subscriptions")

    def _call(self, name, *arguments, **options):
        async def call():
            async with zaichik.connect(port=self.port) as client:
                return await getattr(client, name)(*arguments, **options)

        return self._portal.call(call)


@contextmanager
def embedded_broker(start_us: int = START_US, data: Path | None = None) -> Iterator[Embedded]:
    """One that lives as long as the block; with a folder it can have durable topics."""
    with start_blocking_portal() as portal:
        broker = Embedded(portal, zaichik.ManualClock(start_us), data)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()
