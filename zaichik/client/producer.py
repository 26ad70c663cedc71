"""Publishing in batches: while one batch is on its way, the next one gathers.

There is no timer to set. A lone message leaves at once; under load batches grow by themselves until they are
full. One batch at a time is on its way, so that order is kept whatever happens to it.
"""

from typing import TYPE_CHECKING

import anyio

from zaichik.client.errors import BatchTooLarge, ZaichikError
from zaichik.client.messages import BatchResult, Key, key_bytes
from zaichik_protocol import Batch

if TYPE_CHECKING:
    from zaichik.client.client import Client


class Producer:
    """A queue of at most one batch, and the task that sends it; `Client.producer` makes one.

    Attributes:
        topic: where to.
        stored, compacted: messages the broker has kept, and dropped by compaction, so far.
    """

    def __init__(self, client: "Client", topic: str, max_batch: int, max_bytes: int) -> None:
        self.topic = topic
        self.stored = 0
        self.compacted = 0
        self._client = client
        self._max_batch = max_batch
        self._max_bytes = max_bytes
        self._keys: list[bytes] = []
        self._payloads: list[bytes] = []
        self._bytes = 0
        self._failure: ZaichikError | None = None
        self._is_sending = False
        self._work = anyio.Event()
        self._progress = anyio.Event()

    async def send(self, payload: bytes, key: Key = None) -> None:
        """Queue a message; waits only if the queue is full.

        The broker's word on it comes later: see `flush`.

        Raises:
            ZaichikError: an earlier batch could not be stored; nothing more will be sent.
        """
        name = key_bytes(key)
        size = len(name) + len(payload)
        while self._payloads and (len(self._payloads) >= self._max_batch or self._bytes + size > self._max_bytes):
            await self._wait_for_progress()
        if self._failure is not None:
            raise self._failure
        self._keys.append(name)
        self._payloads.append(payload)
        self._bytes += size
        self._work.set()

    async def flush(self) -> None:
        """Wait until everything queued is stored.

        Raises:
            ZaichikError: it could not be.
        """
        while self._payloads or self._is_sending:
            await self._wait_for_progress()
        if self._failure is not None:
            raise self._failure

    async def _wait_for_progress(self) -> None:
        if self._failure is not None:
            raise self._failure
        await self._progress.wait()

    async def run(self) -> None:
        """Send what is queued, for ever, or until it fails."""
        while self._failure is None:
            if not self._payloads:
                self._work = anyio.Event()
                await self._work.wait()
            batch = Batch.of_columns(self._keys, self._payloads)
            self._keys, self._payloads, self._bytes = [], [], 0
            self._is_sending = True
            try:
                await self._publish(batch)
            except ZaichikError as error:
                self._failure = error
            finally:
                self._is_sending = False
                # One event for each batch: whoever waits for it now is woken, the next wait is for the next one.
                self._progress.set()
                self._progress = anyio.Event()

    async def _publish(self, batch: Batch) -> None:
        """Store a batch, in halves if the topic's ring is too small for it."""
        try:
            result: BatchResult = await self._client.publish_batch(self.topic, batch)
        except BatchTooLarge:
            if batch.count == 1:
                raise
            half = batch.count // 2
            self._max_batch = min(self._max_batch, half)
            await self._publish(batch.cut(0, half))
            await self._publish(batch.cut(half, batch.count))
        else:
            self.stored += result.stored
            self.compacted += result.compacted
