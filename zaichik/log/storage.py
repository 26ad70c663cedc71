"""The disk of a server, from its start to its end: a store with its broker, or nothing at all."""

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
        """Returns the storage in a folder, with a broker of what is there; by default there is nothing.

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
        """Work for the topics until cancelled. If the disk fails, that is called between the turns of connections."""
        if self.store is not None:
            self.store.between_turns = self.broker.scheduler.between_turns
            self.store.on_failure = on_failure
            await self.store.run()

    async def drain(self) -> None:
        """Wait until all is written: the broker is stopping. After the drain timeout, the disk has failed."""
        if self.store is not None:
            with self.broker.scheduler.between_turns():
                self.broker.sweep()  # which has positions written that have moved
            seconds = self.broker.settings.drain_timeout
            with anyio.move_on_after(seconds) as scope:
                await self.store.drained()
            if scope.cancelled_caught:
                self.store.give_up(seconds)

    async def close(self) -> None:
        """Write what saves the next start from reading, and let go of the folder."""
        if self.store is not None:
            try:
                await to_thread.run_sync(self.store.close, self.broker.clock.now_us())
            except (StorageFailed, OSError) as error:
                self.store.failure = failure_of(error)

    def release(self) -> None:
        """Let go of the folder, in which nothing was written."""
        if self.store is not None:
            self.store.release()

    def check(self) -> None:
        """Raise what has ended the storage.

        Raises:
            StorageFailed: the disk has failed.
        """
        if self.store is not None and self.store.failure is not None:
            raise self.store.failure
