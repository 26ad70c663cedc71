"""A server's storage, from its start to its end: a store with its broker, or nothing at all."""

from collections.abc import Callable
from pathlib import Path

import anyio
from anyio import to_thread

from zaichik.broker.broker import Broker
from zaichik.broker.clock import Clock, SystemClock
from zaichik.broker.settings import BrokerSettings
from zaichik.log.disk import StorageFailed, failure_of
from zaichik.log.restoring import restore
from zaichik.log.store import Store


class Storage:
    """What a server does with its store; nothing, if it has none.

    Args:
        broker: a new broker, or one with the topics of the store.
        store: has the durable topics; None if there can be none.

    Attributes:
        broker, store: see above.
    """

    def __init__(self, broker: Broker, store: Store | None) -> None:
        self.broker = broker
        self.store = store
        if store is not None:
            store.limit = broker.settings.max_disk_bytes

    @classmethod
    async def opened(cls, data: Path | None, settings: BrokerSettings | None, clock: Clock | None) -> "Storage":
        """Returns the storage in a folder, with a broker that has its topics; without a folder, there is none.

        Raises:
            CannotOpen: the folder cannot be used.
        """
        if data is None:
            return cls(Broker(settings, clock), None)
        store = await to_thread.run_sync(Store.opened, data)
        broker = Broker(settings, clock or SystemClock(store.clock_us), logs=store)
        restore(broker, store)
        return cls(broker, store)

    async def run(self, on_failure: Callable[[], None]) -> None:
        """Write and read for the topics until cancelled. The callback runs, between turns, if the disk fails."""
        if self.store is not None:
            self.store.between_turns = self.broker.scheduler.between_turns
            self.store.on_failure = on_failure
            await self.store.run()

    async def drain(self) -> None:
        """Wait until all is written: the broker is stopping. If that exceeds the drain timeout, the disk has failed."""
        if self.store is not None:
            with self.broker.scheduler.between_turns():
                self.broker.sweep()  # queues the positions that have moved
            seconds = self.broker.settings.drain_timeout
            with anyio.move_on_after(seconds) as scope:
                await self.store.drained()
            if scope.cancelled_caught:
                self.store.give_up(seconds)

    async def close(self) -> None:
        """Write checkpoints, so that the next start has less to read, and release the folder."""
        if self.store is not None:
            try:
                await to_thread.run_sync(self.store.close, self.broker.clock.now_us())
            except (StorageFailed, OSError) as error:
                self.store.failure = failure_of(error)

    def release(self) -> None:
        """Release the folder, in which nothing was written."""
        if self.store is not None:
            self.store.release()

    def check(self) -> None:
        """Raise the failure of the storage, if there was one.

        Raises:
            StorageFailed: the disk has failed.
        """
        if self.store is not None and self.store.failure is not None:
            raise self.store.failure
