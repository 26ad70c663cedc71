"""Brokers in another thread that stop and start again, or lose connections, for tests without an event loop."""

from contextlib import contextmanager
from functools import partial

from anyio.from_thread import start_blocking_portal
from proxy import cutting_proxy

import zaichik
from zaichik.learn.server import free_port


class Restartable:
    """A broker that can be stopped, and started again on the same port.

    Attributes:
        port: where it is.
    """

    def __init__(self, portal):
        self.port = free_port()
        self._portal = portal
        self._now_us = 0
        self.start()

    def start(self):
        """Start one that knows nothing; its clock is ahead of the last one's, so its epochs are others."""
        self._now_us += 1_000_000_000
        clock = zaichik.ManualClock(self._now_us)
        self._running = self._portal.wrap_async_context_manager(zaichik.running_broker(port=self.port, clock=clock))
        self._running.__enter__()

    def stop(self):
        """Stop it; its clients lose their connections."""
        self._running.__exit__(None, None, None)


@contextmanager
def restartable_broker():
    """One that lives as long as the block."""
    with start_blocking_portal() as portal:
        broker = Restartable(portal)
        try:
            yield broker
        finally:
            broker.stop()


@contextmanager
def cut_broker(cuts):
    """Yields a broker's port, and that of a proxy to it which cuts connections there."""
    clock = zaichik.ManualClock(1_000_000_000)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(zaichik.running_broker(clock=clock)) as broker,
        portal.wrap_async_context_manager(cutting_proxy(broker.port, cuts)) as proxy,
    ):
        proxy.cut = partial(portal.call, proxy.cut)  # where the proxy is
        yield broker.port, proxy
