"""A broker in another thread, for tests without an event loop. Its clock moves when a test says so."""

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

import zaichik

START_US = 1_700_000_000_000_000  # 14 November 2023, 22:13:20 UTC


class Embedded:
    """Calls into it.

    Attributes:
        clock: of the broker.
        address, port: where it is.
    """

    def __init__(self, portal, server, clock):
        self.clock = clock
        self.port = server.port
        self.address = f"{server.host}:{server.port}"
        self._portal = portal

    def create(self, topic, **settings):
        """Make a topic that keeps everything, unless the settings say otherwise; its epoch."""
        return self._call("create_topic", topic, **{"retention_ttl": "forever"} | settings).epoch

    def publish(self, topic, *batches):
        """Publish lists of (key, payload)."""
        return [self._call("publish_batch", topic, batch) for batch in batches]

    def topics(self, prefix=""):
        """The state of all whose names begin so."""
        return self._call("topics", prefix)

    def run(self, function):
        """Call a coroutine function of no arguments where the broker is."""
        return self._portal.call(function)

    def subscriptions(self):
        """The state of all."""
        return self._call("subscriptions")

    def _call(self, name, *arguments, **options):
        async def call():
            async with zaichik.connect(port=self.port) as client:
                return await getattr(client, name)(*arguments, **options)

        return self._portal.call(call)


@contextmanager
def embedded_broker(start_us: int = START_US) -> Iterator[Embedded]:
    """One that lives as long as the block."""
    clock = zaichik.ManualClock(start_us)
    running = zaichik.running_broker(clock=clock)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running) as server:
        yield Embedded(portal, server, clock)
