"""What of a server outlives it: topics that are kept in a folder, or nothing.

`zaichik.storage` knows what is in the folder. Here it is opened with the broker, written to while
the server runs, and closed with it.
"""

# Not compiled: it runs when a server starts and stops, so there is nothing to gain.

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from zaichik.base.clock import Clock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.net.background import BackgroundTasks
from zaichik.server.bugs import Bugs
from zaichik.server.disk_threads import DiskThreads
from zaichik.storage.disk import StorageFailed, failure_of
from zaichik.storage.restoring import restore
from zaichik.storage.store import Store

CLOCK_CHECK_SECONDS = 60.0  # between checks of whether the machine's clock was set

logger = logging.getLogger("zaichik.log.store")


async def open_broker(
    data: Path | None, settings: BrokerSettings | None, clock: Clock | None
) -> tuple[Broker, Store | None]:
    """Returns a broker with the topics in a folder, and their store; without a folder, no store.

    Raises:
        CannotOpen: the folder cannot be used.
    """
    if data is None:
        return Broker(settings, clock), None
    store = await to_thread.run_sync(Store.open, data)
    try:
        # The clock must not go back behind what was accepted before.
        clock = clock or await to_thread.run_sync(store.system_clock)
        broker = Broker(settings, clock, logs=store)
        restore(broker, store)
    except BaseException:
        store.release()
        raise
    return broker, store


def persistence_of(broker: Broker, store: Store | None, bugs: Bugs) -> "Persistence":
    """Returns the persistence of a server with that store, or with none."""
    if store is None:
        return Persistence()
    return FolderPersistence(broker, store, bugs)


class Persistence:
    """The persistence of a server without a folder: it keeps nothing, so there is nothing to do.

    Attributes:
        longest_drain_s: how long `drain` takes at most.
    """

    longest_drain_s = 0.0

    async def run(self, on_failure: Callable[[], None]) -> None:
        """Write and read for the topics until cancelled.

        The callback runs, between turns, if the disk fails.
        """

    async def drain(self) -> None:
        """Wait until all is written: the broker is stopping."""

    async def close(self) -> None:
        """Write checkpoints, so that the next start has less to read, and release the folder."""

    def release(self) -> None:
        """Release the folder, in which nothing was written."""

    def check(self) -> None:
        """Raise the failure of the disk, if there was one.

        Raises:
            StorageFailed: the disk has failed.
        """


class FolderPersistence(Persistence):
    """The persistence of a server that keeps topics in a folder.

    Args:
        broker: has the topics of the store.
        store: the folder.
        bugs: the server's.
    """

    def __init__(self, broker: Broker, store: Store, bugs: Bugs) -> None:
        self._broker = broker
        self._bugs = bugs
        self._store = store
        # What is on the disk now is answered at once.
        between_turns = partial(broker.scheduler.between_turns, gives_slice=True)
        self._threads = DiskThreads(store.work, between_turns)
        self.longest_drain_s = broker.settings.drain_timeout
        store.limit = broker.settings.max_disk_bytes

    async def run(self, on_failure: Callable[[], None]) -> None:
        """See `Persistence`."""
        self._threads.on_failure = on_failure
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(self._check_clock)
            await self._threads.run()

    async def _check_clock(self) -> None:
        """Notice, once a minute, whether the machine's clock was set."""
        while self._threads.failure is None:
            await anyio.sleep(CLOCK_CHECK_SECONDS)
            try:
                await to_thread.run_sync(self._store.clock_file.check_clock)
            except (StorageFailed, OSError) as error:
                logger.warning("what the clocks say cannot be written down: %s", error)

    async def drain(self) -> None:
        """See `Persistence`. If it is not done by then, the disk has failed (DUR-6)."""
        self._store.stop_cleaning()
        between_turns = self._broker.scheduler.between_turns()
        with between_turns, self._bugs.contained("a sweep of the topics"):
            self._broker.sweep()  # queues the positions that have moved
        with anyio.move_on_after(self.longest_drain_s) as scope:
            await self._threads.drained()
        if scope.cancelled_caught:
            self._threads.give_up(self.longest_drain_s)

    async def close(self) -> None:
        """See `Persistence`."""
        try:
            # After a failure nothing is written: it would replace what was lost (DUR-6).
            if self._threads.failure is None:
                await to_thread.run_sync(self._store.save, self._broker.clock.now_us())
        except (StorageFailed, OSError) as error:
            self._threads.failure = failure_of(error)
        finally:
            self.release()

    def release(self) -> None:
        """See `Persistence`."""
        # While a thread may still write, the folder stays locked until the process ends.
        if not self._threads.are_at_work:
            self._store.release()

    def check(self) -> None:
        """See `Persistence`."""
        if self._threads.failure is not None:
            raise self._threads.failure
